package console

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

func TestBackupsOf(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	if BackupsOf(nil, now) != nil || BackupsOf(&cluster.Observation{At: now}, now) != nil {
		t.Fatal("a store that was never listed")
	}
	o := &cluster.Observation{At: now, Backups: cluster.BackupsView{At: at(time.Minute)}}
	if b := BackupsOf(o, now); b == nil || b.Last != nil {
		t.Fatalf("an empty store: %+v", b)
	}
	o.Backups.Newest = []cluster.Backup{{Name: "n2", At: at(2 * time.Hour)}, {Name: "n1", At: at(3 * time.Hour), Proven: true, Drilled: at(time.Hour)}}
	b := BackupsOf(o, now)
	if b.Last.Name != "n2" || b.Age != 2*time.Hour || b.Proven.Name != "n1" || !b.Drilled.Equal(at(time.Hour)) || b.Failed != "" {
		t.Fatalf("%+v", b)
	}
	// What a host has just taken is newer than the list.
	taken := &cluster.Taken{Began: at(time.Minute), Ended: at(50 * time.Second), Backup: &cluster.Backup{Name: "n3", At: at(time.Minute)}}
	failed := &cluster.Taken{Began: at(30 * time.Minute), Ended: at(29 * time.Minute), Error: "no room"}
	drill := &cluster.Taken{Began: at(5 * time.Minute), Ended: at(4 * time.Minute), Error: "it differs"}
	o.Hosts = []cluster.HostReport{{HostState: cluster.HostState{Host: "a", Taken: failed}}, {HostState: cluster.HostState{Host: "b", Taken: taken, Drill: drill}}}
	b = BackupsOf(o, now)
	if b.Last.Name != "n3" || b.Took != 10*time.Second || b.Failed != "" || b.DrillFailed != "it differs" {
		t.Fatalf("%+v", b)
	}
	failed.Began = at(30 * time.Second)
	if b = BackupsOf(o, now); !strings.Contains(b.Failed, "host a: no room") {
		t.Fatalf("a try that failed since: %+v", b)
	}
	taken.Running = true
	if b = BackupsOf(o, now); b.On != "b" {
		t.Fatalf("%+v", b)
	}
}
