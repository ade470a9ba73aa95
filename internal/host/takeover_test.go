package host_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

var errTheirs = errors.New("locked by process 7 (etcd)")

// withTheirs puts a member of etcd-manager onto the machine, and its marker into
// the store.
func withTheirs(m *machine) {
	m.disk.data[theirToken] = &directory{wal: true, owner: 5}
	m.took[5] = true
	m.theirs = &record.Predecessor{State: &record.PredecessorState{
		Token: theirToken, Version: "3.6.16", Nodes: []record.PredecessorNode{{Name: "h1", URLs: ownURLs}, {Name: "h2"}},
	}}
	m.intent = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}
	m.etcd.status.Cluster, m.etcd.view.Cluster = 0xc, 0xc
	m.etcd.view.Members = []cluster.Member{{ID: 5, Name: "h1", PeerURLs: ownURLs.Peer}}
}

// adopting is the record that a leader writes over the marker.
func (m *machine) adopting() *cluster.Intent {
	return &cluster.Intent{
		Name: "test", Generation: 1, Nonce: "n1", Token: theirToken, Write: 1, State: cluster.IntentFounded, Cluster: 0xc,
		Source:   cluster.Source{Kind: cluster.SourceAdopted},
		Founders: []cluster.Founder{{Host: "h1", Disk: m.state().Disk, Member: 5, URLs: ownURLs}},
		Voters:   []cluster.Voter{{Host: "h1", Disk: m.state().Disk, Member: 5, PeerURLs: ownURLs.Peer}},
	}
}

func taken(st *cluster.HostState) bool {
	return st.TookOver() && st.Local.Member == 5 && st.Local.Cluster == 0xc && st.Local.Run && st.Local.Adopted
}

// A host takes over what etcd-manager left, as it left it, and is told when its
// record was written.
func TestTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withTheirs(m)
		m.theirs.State.Quarantined = true
		d := m.boot()
		st := d.look(1)
		runs, starts := m.process()
		if !taken(st) || !runs || len(starts) != 1 || st.Predecessor != nil {
			t.Fatalf("local %+v, starts %+v, waits %+v", st.Local, starts, st.Predecessor)
		}
		if l := starts[0]; l.Version != v36 || l.Token != theirToken || !l.Quarantined || !l.Adopted || l.Founding || len(l.InitialCluster) > 0 {
			t.Errorf("started as %+v", l)
		}
		if m.disk.data[theirToken].mark != st.Disk {
			t.Error("the data has no mark of this disk")
		}
		m.intent = m.adopting()
		r := d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(2), Intent: m.intent})
		if l := r.State.Local; l.Generation != 1 || l.Nonce != "n1" || !l.Run {
			t.Errorf("after the record was written: %+v", l)
		}
		if _, starts := m.process(); len(starts) != 1 {
			t.Error("it was restarted for that")
		}
		d.end()
		m.conserved()
	})
}

// It waits while somebody runs on the data, and for everything that it needs to
// know; and goes on by itself.
func TestTakeOverWaits(t *testing.T) {
	for name, c := range map[string]struct {
		hinder, free func(*machine)
		words        string
	}{
		"held": {func(m *machine) { m.theirsRun = errTheirs }, func(m *machine) { m.theirsRun = nil }, "did not start"},
		"no marker": {func(m *machine) { m.intent = nil }, func(m *machine) {
			m.intent = &cluster.Intent{State: cluster.IntentFounded}
		}, "no created marker"},
		"a record of ours": {func(m *machine) { m.intent.Generation = 2 }, func(m *machine) { m.intent.Generation = 0 }, "generation 2"},
		"another release":  {func(m *machine) { m.theirs.State.Version = "3.6.2" }, func(m *machine) { m.theirs.State.Version = "3.6.16" }, "no etcd 3.6.2"},
		"no release":       {func(m *machine) { m.theirs.State.Version = "x" }, func(m *machine) { m.theirs.State.Version = "3.6.16" }, "no release"},
		"another scheme": {func(m *machine) {
			m.theirs.State.Nodes[0].URLs.Peer = []string{"https://h1:2380"}
		}, func(m *machine) { m.theirs.State.Nodes[0].URLs.Peer = ownURLs.Peer }, "https"},
		"torn without a spec": {func(m *machine) { m.theirs.State = nil }, func(m *machine) {
			m.theirs.State = &record.PredecessorState{Token: theirToken, Version: "3.6.16", Nodes: []record.PredecessorNode{{Name: "h1", URLs: ownURLs}}}
		}, "torn or empty"},
		"refused": {func(m *machine) { m.theirs.Refused = "two logs" }, func(m *machine) { m.theirs.Refused = "" }, "two logs"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				withTheirs(m)
				c.hinder(m)
				d := m.boot()
				st := d.look(1)
				if p := st.Predecessor; p == nil || !strings.Contains(p.Waits, c.words) || p.Member != 5 {
					t.Fatalf("it waits for %+v", p)
				}
				if runs, _ := m.process(); runs || m.disk.data[theirToken].mark != "" || st.Free() {
					t.Error("something was done all the same")
				}
				m.mu.Lock()
				c.free(m)
				m.mu.Unlock()
				later(6 * time.Second)
				if st := d.look(2); !taken(st) {
					t.Errorf("local %+v, waits %+v", st.Local, st.Predecessor)
				}
				d.end()
				m.conserved()
			})
		})
	}
}

// A state file that says nothing is made up for by the flags and the spec.
func TestTakeOverTorn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withTheirs(m)
		m.theirs.State = nil
		d := m.boot()
		d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(1), Spec: &cluster.Spec{MemberCount: 3, EtcdVersion: v35}})
		later(6 * time.Second)
		if st := d.look(2); !taken(st) || st.Local.Version != v35 {
			t.Errorf("local %+v, waits %+v", st.Local, st.Predecessor)
		}
		d.end()
	})
}

// A record that is not that of its cluster stops nothing.
func TestTakeOverMeetsAnotherFounding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		withTheirs(m)
		d := m.boot()
		d.look(1)
		other := m.adopting()
		other.Cluster, other.Source, other.Founders = 0xd, cluster.Source{Kind: cluster.SourceNothing}, nil
		d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(2), Intent: other})
		later(time.Second)
		st := d.look(3)
		if runs, _ := m.process(); !runs || !taken(st) || st.Intent != nil {
			t.Errorf("runs %t, local %+v, intent %+v", runs, st.Local, st.Intent)
		}
		d.end()
	})
}

// etcd-manager ran it again for a while: what it changed is taken up, and what it
// made anew is begun anew.
func TestTakeOverAgain(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"upgraded": func(m *machine) { m.theirs.State.Version = "3.6.16" },
		"made anew": func(m *machine) {
			m.theirs.State.Version = "3.6.16"
			m.disk.moved = append(m.disk.moved, m.disk.data[theirToken])
			m.disk.data[theirToken] = &directory{wal: true, owner: 6}
			m.took[6] = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				withTheirs(m)
				m.theirs.State.Version = "3.5.35"
				d := m.boot()
				first := d.look(1)
				d.end()
				m.die()
				change(m)
				d = m.boot()
				st := d.look(2)
				if runs, _ := m.process(); !runs || !st.TookOver() || st.Local.Version != v36 || st.Local.Member != m.disk.data[theirToken].owner {
					t.Errorf("runs %t, local %+v, waits %+v", runs, st.Local, st.Predecessor)
				}
				if name == "upgraded" && st.Disk != first.Disk {
					t.Error("it became another disk")
				}
				d.end()
				m.conserved()
			})
		})
	}
}

// The daemon dies at each of its calls, before and after it took effect.
func TestTakeOverCrashes(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			died := false
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				withTheirs(m)
				d := m.boot(crashing(n, after))
				later(time.Second)
				died = d.isDead()
				d.end()
				d = m.boot()
				if st := d.look(1); !taken(st) {
					t.Errorf("crash %d (after: %t): local %+v, waits %+v", n, after, st.Local, st.Predecessor)
				}
				m.intent = m.adopting()
				if r := d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(2), Intent: m.intent}); r.State.Local.Generation != 1 {
					t.Errorf("crash %d: %+v", n, r.State.Local)
				}
				d.end()
				m.conserved()
			})
			if !died {
				if n < 8 {
					t.Errorf("only %d crashes: the test does not reach what it is about", n)
				}
				break
			}
		}
	}
}
