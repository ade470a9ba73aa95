package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

func TestStatusOfData(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	last := cluster.Backup{Name: "n2", At: now.Add(-90 * time.Minute), Bytes: 3 << 20, Encrypted: true}
	proven := cluster.Backup{Name: "n1", At: now.Add(-72 * time.Hour), Proven: true, Drilled: now.Add(-70 * time.Hour)}
	command := cluster.Command{Name: "2026-11-21T11:00:00Z-000000", Kind: cluster.CommandUndo, Host: "a", Dir: "old"}
	o := &cluster.Observation{
		At: now, Cluster: "c", Backups: cluster.BackupsView{At: now, Newest: []cluster.Backup{last, proven}}, Commands: []cluster.Command{command},
		Store: cluster.StoreView{Intent: &cluster.Intent{Generation: 3, State: cluster.IntentFounded, Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "n1"}}},
		Hosts: []cluster.HostReport{{HostState: cluster.HostState{
			Host:     "a",
			SetAside: []cluster.SetAside{{Dir: "/d/data-trashcan/old", Reason: "superseded", Bytes: 12 << 20}},
			Staged:   &cluster.Staged{Command: command.Name, Source: cluster.Source{Kind: cluster.SourceSetAside, Dir: "old"}, State: cluster.StageFetching, Bytes: 77},
			Local:    cluster.LocalMember{Quarantined: true}, Process: cluster.Process{State: cluster.ProcessRunning},
		}}},
	}
	d := plan.Decision{Rule: "generation", Reason: plan.Say("host a makes it ready")}
	r := console.Report{Observation: o, Decision: &d, Backups: console.BackupsOf(o, o.At), Queue: plan.Queue(o, d), Steps: plan.Progress(o), Aside: plan.Asides(o)}
	var out bytes.Buffer
	printData(&out, r)
	for _, want := range []string{
		"last backup: n2, 1h30m old, 3.0 MiB, encrypted, not proven; n1 is, 3 days old, last drill 2 days ago",
		"generation: 3, made from backup n1",
		"quarantine: the member of host a still listens",
		"2026-11-21T11:00:00Z-000000  undo what host a set aside as old",
		"runs: host a makes it ready: fetching, 77 bytes so far",
		"• prepare what host a set aside as old on host a",
		"set aside on a: old (superseded, 12 MiB)\n  kept: the only known way back; \"etcdadm host prune\" says what its removal gives up\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	out.Reset()
	bad := cluster.Backup{Name: "n3", At: now.Add(-time.Minute), Doubt: "damaged: it was cut off"}
	o = &cluster.Observation{At: now, Backups: cluster.BackupsView{At: now, Newest: []cluster.Backup{bad, proven}, Proven: &proven}}
	printData(&out, console.Report{Observation: o, Backups: console.BackupsOf(o, o.At)})
	if want := "last backup: n3, 1m0s old, of unknown size, BAD (damaged: it was cut off), not proven; n1 is, 3 days old"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in:\n%s", want, out.String())
	}
	out.Reset()
	printData(&out, console.Report{Observation: &cluster.Observation{At: now}, Backups: &console.Backups{Failed: "host a: no room"}})
	if !strings.Contains(out.String(), "last backup: none; periodic backups are off") || !strings.Contains(out.String(), "no room") {
		t.Error(out.String())
	}
}

func TestStatusOfSetAside(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	aside := cluster.SetAside{Dir: "/d/data-trashcan/x", Reason: cluster.AsideRemoved, Bytes: 3 << 20, At: now.Add(-5 * time.Hour)}
	for want, a := range map[string]plan.Aside{
		"kept until you delete it, as it is of another generation: etcdadm host prune c --dir x": {ByHand: "it is of another generation", Command: "etcdadm host prune c --dir x"},
		"will be removed automatically in 19h0m at the earliest, once a newer backup is proven":  {Waits: "it is kept for 24h", After: now.Add(19 * time.Hour)},
		"will be removed automatically; waiting: not every voter is up":                          {Waits: "not every voter is up"},
		"is being removed automatically":                                                         {},
		"to go back to it: etcdadm restore --undo --from c --dir x\n  kept: the only known way back; \"etcdadm host prune\" says what its removal gives up": {
			ByHand: "no quorum removed its member", Undo: "etcdadm restore --undo --from c --dir x", OnlyWay: true, Command: "etcdadm host prune c --dir x --force"},
	} {
		a.Host, a.SetAside, a.Age = "c", aside, 5*time.Hour
		var out bytes.Buffer
		printOneAside(&out, a, now)
		if got := out.String(); got != "set aside on c: x (removed, 3.0 MiB, 5h0m old)\n  "+want+"\n" {
			t.Errorf("want %q:\n%s", want, got)
		}
	}
}

// Nothing renews an authority: that it ends is told before it does.
func TestStatusTellsWhatEnds(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := console.Report{Observation: &cluster.Observation{At: now}, Certificates: []console.Certificate{
		{Name: "daemon", NotAfter: now.Add(time.Hour)}, // of a short life, and renewed by itself
		{Name: "etcd-clients-ca", NotAfter: now.Add(31 * 24 * time.Hour)},
		{Name: "etcd-manager-ca", NotAfter: now.Add(29 * 24 * time.Hour)},
		{Name: "etcd-peer", NotAfter: now.Add(-time.Hour)},
	}}
	var out bytes.Buffer
	printData(&out, r)
	for what, told := range map[string]bool{
		"! authority etcd-manager-ca ends in 29 days": true, "! certificate etcd-peer has ended on 2026-11-21T11:00:00Z": true,
		"daemon": false, "etcd-clients-ca": false,
	} {
		if strings.Contains(out.String(), what) != told {
			t.Errorf("%q told: %t, in:\n%s", what, !told, &out)
		}
	}
}

// The leading daemon looks every few seconds; what is told of ages goes by when it
// answered, and by the look where an older daemon does not say when that was.
func TestAgesGoOnBetweenLooks(t *testing.T) {
	looked := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	last := cluster.Backup{Name: "n2", At: looked.Add(-30 * time.Second), Bytes: 3 << 20, Proven: true, Drilled: looked.Add(-20 * time.Second)}
	o := &cluster.Observation{At: looked, Backups: cluster.BackupsView{At: looked, Newest: []cluster.Backup{last}}}
	for _, c := range []struct {
		answered time.Time
		want     string
	}{
		{looked.Add(time.Second), "n2, 31s old, 3.0 MiB, proven, last drill 21s ago"},
		{looked.Add(6 * time.Second), "n2, 36s old, 3.0 MiB, proven, last drill 26s ago"},
		{time.Time{}, "n2, 30s old, 3.0 MiB, proven, last drill 20s ago"},
	} {
		r := console.Report{At: c.answered, Observation: o}
		r.Backups = console.BackupsOf(o, r.Now())
		if want := r.Now().Sub(last.At); r.Backups.Age != want {
			t.Errorf("answered at %s: an age of %s, want %s", c.answered, r.Backups.Age, want)
		}
		var out bytes.Buffer
		printData(&out, r)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("answered at %s: %q is not in:\n%s", c.answered, c.want, &out)
		}
	}
}
