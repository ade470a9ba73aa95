package host_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// A promise that no leader can come up to, as a damaged state may hold, is taken
// back by a person's word only, and no other one ever is.
func TestResetFence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		ctx := context.Background()
		if d.look(5) == nil {
			t.Fatal("no promise")
		}
		if _, err := d.ResetFence(ctx, fence(1)); !errors.Is(err, host.ErrFenceInReach) || m.state().Promised != fence(5) {
			t.Fatalf("a promise in reach: %v, promised %s", err, m.state().Promised)
		}
		absurd := cluster.Fence{Number: cluster.MaxFence + 1, Host: "x"}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: absurd}); r.Refused == nil || m.state().Promised != fence(5) {
			t.Fatalf("a fence out of reach was promised: %+v", r)
		}
		d.end()
		m.edit(func(s *host.State) { s.Promised = absurd })
		d = m.boot()
		defer d.end()
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(6)}); r.Refused == nil || r.Refused.Promised != absurd {
			t.Fatalf("%+v", r)
		}
		if _, err := d.ResetFence(ctx, cluster.Fence{Number: cluster.MaxFence + 9}); err == nil {
			t.Fatal("reset to a fence that is out of reach as well")
		}
		was, err := d.ResetFence(ctx, fence(5))
		if err != nil || was != absurd || m.state().Promised != fence(5) {
			t.Fatalf("%s, %v, promised %s", was, err, m.state().Promised)
		}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(4)}); r.Refused == nil {
			t.Fatalf("a fence below the reset one: %+v", r)
		}
		if d.look(6) == nil || m.state().Promised != fence(6) {
			t.Fatal("no promise after the reset")
		}
	})
}

func TestForgetAnotherHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		name := m.state().Cluster
		d.Remember([]cluster.Ping{{Cluster: name, Host: "gone", Disk: "d", Beat: 4, Endpoint: "gone:1"}, {Cluster: name, Host: "voter", Disk: "e", Beat: 9}})
		local := m.state().Local
		in := &cluster.Intent{Name: name, Generation: local.Generation, Nonce: local.Nonce, Token: local.Token, Write: 9, State: cluster.IntentFounded}
		in.Next = []cluster.Voter{{Host: "voter", Member: 7}}
		if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(9), Intent: in}); r.State == nil {
			t.Fatalf("%+v", r)
		}
		if err := d.Forget("voter"); !errors.Is(err, host.ErrCountedOn) {
			t.Fatalf("a host that carries a voter: %v", err)
		}
		if err := d.Forget("gone"); err != nil {
			t.Fatal(err)
		}
		later(time.Minute) // some beats
		if peers := m.state().Peers; len(peers) != 1 || peers[0].Host != "voter" {
			t.Fatalf("remembered: %+v", peers)
		}
	})
}
