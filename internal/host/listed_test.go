package host_test

import (
	"context"
	"testing"

	"etcdadm.io/cluster"
)

// Who is gone is told by raft's own list alone, and only in a cluster that is all ours.
func TestListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		m.etcd.mu.Lock()
		m.etcd.view = cluster.MemberView{Cluster: 0xc, Members: []cluster.Member{{ID: 9, Name: "h1"}}}
		m.etcd.mu.Unlock()
		if got, ok := d.Listed(context.Background()); !ok || len(got) == 0 {
			t.Errorf("the members are %v, %v", got, ok)
		}
		m.etcd.mu.Lock()
		m.etcd.noRaft = true
		m.etcd.mu.Unlock()
		if got, ok := d.Listed(context.Background()); ok {
			t.Errorf("without a quorum they are %v", got)
		}
	})
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withTheirs(m)
		d := m.boot()
		defer d.end()
		d.look(1)
		if got, ok := d.Listed(context.Background()); ok {
			t.Errorf("beside daemons of etcd-manager they are %v", got)
		}
	})
}
