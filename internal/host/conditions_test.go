package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
)

// An admission that lacks a part is none: the rest would be guessed.
func TestAdmissionLacksAPart(t *testing.T) {
	whole, err := json.Marshal(record.Admission{Cluster: 1, Token: "t", Known: []cluster.MemberID{1}, URLs: ownURLs, Version: v36})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := record.ParseAdmission(whole); err != nil || a == nil || a.Member != 0 {
		t.Fatalf("the whole: %+v, %v", a, err)
	}
	for _, part := range []string{"cluster", "token", "known", "urls", "version"} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(whole, &fields); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return name == part })
		if len(fields) != 4 {
			t.Fatalf("there is no %q in %s", part, whole)
		}
		without, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := record.ParseAdmission(without); err == nil {
			t.Errorf("without %q: %+v", part, a)
		}
	}
}

// What an admission says is held against the disk at every start, and a host that
// cannot ask whether its member has voted does not start it.
func TestAdmissionIsHeldAgainstTheDisk(t *testing.T) {
	for name, c := range map[string]struct {
		life func(m *machine) (with func(*session, *host.Options))
		word string // of what it waits for; empty: it waits for nothing
	}{
		"it served, and its disk is empty at two starts": {func(m *machine) func(*session, *host.Options) {
			d := m.boot()
			d.look(1)
			d.end()
			m.die()
			delete(m.disk.data, theirToken)
			d = m.boot() // becomes a new disk, which gave the member up
			d.look(1)
			d.end()
			m.starts = nil
			return nil
		}, "gave up member"},
		"a higher generation was promised": {func(m *machine) func(*session, *host.Options) {
			a := m.admission
			m.admission = nil
			d := m.boot()
			d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 2})
			d.end()
			m.admission = a
			return nil
		}, ""},
		"other clients' scheme": {func(m *machine) func(*session, *host.Options) {
			m.admission.URLs.Client = []string{"https://h1:4001"}
			return nil
		}, "https"},
		"nobody to ask whether it voted": {func(*machine) func(*session, *host.Options) {
			return func(_ *session, o *host.Options) { o.Promoted = nil }
		}, "whether"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				withAdmission(m)
				with := c.life(m)
				if with == nil {
					with = func(*session, *host.Options) {}
				}
				d := m.boot(with)
				defer d.end()
				later(30 * time.Second)
				st := d.look(1)
				p := st.Predecessor
				if runs, starts := m.process(); runs || len(starts) > 0 || st.Local.State != cluster.MemberNone {
					t.Errorf("it was started: %+v, %+v", starts, st.Local)
				}
				if (p == nil) != (c.word == "") || p != nil && !strings.Contains(p.Waits, c.word) {
					t.Errorf("it waits for %+v", p)
				}
			})
		})
	}
}

// A preparation is evidence for the members that it lists and no others: another one
// takes its place, and one that lacks a part is none.
func TestPreparationIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		defer d.end()
		m.joined()
		for name, spoil := range map[string]func(*cluster.Op){
			"no token":   func(o *cluster.Op) { o.Token = "" },
			"no cluster": func(o *cluster.Op) { o.Cluster = 0 },
			"no members": func(o *cluster.Op) { o.Known = nil },
		} {
			op := prepareOp
			spoil(&op)
			d.mustRefuse(1, op)
			if s := m.state(); s.Local.State != cluster.MemberNone {
				t.Fatalf("%s: %+v", name, s.Local)
			}
		}
		d.must(1, prepareOp)
		more := prepareOp
		more.Known = []cluster.MemberID{9, 2, 3}
		d.must(1, more)
		if known := m.state().Local.Known; !slices.Equal(known, []cluster.MemberID{2, 3, 9}) {
			t.Errorf("known are %v", known)
		}
		d.mustRefuse(1, joinOp(9))
		for name, change := range map[string]func(*cluster.Op){
			"generation": func(o *cluster.Op) { o.Generation = 2 },
			"nonce":      func(o *cluster.Op) { o.Nonce = "n2" },
			"cluster":    func(o *cluster.Op) { o.Cluster = 0xd },
			"token":      func(o *cluster.Op) { o.Token = "t2" },
		} {
			d.must(1, prepareOp)
			was := m.state().Local
			op := prepareOp
			change(&op)
			d.must(1, op)
			if s := m.state(); s.Local.Generation == was.Generation && s.Local.Nonce == was.Nonce && s.Local.Cluster == was.Cluster && s.Local.Token == was.Token {
				t.Errorf("another %s: %+v", name, s.Local)
			}
		}
	})
}

// deafInventory cannot list what lies on the disk.
type deafInventory struct {
	*session
	err error
}

func (d deafInventory) Inventory(string) (aside, foreign []cluster.SetAside, err error) {
	return nil, nil, d.err
}

// A host that cannot list its disk, or still has data of a former member to move,
// prepares for nobody.
func TestUnfitDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot(func(s *session, o *host.Options) { o.Disk = deafInventory{s, errors.New("no such list")} })
		defer d.end()
		if r := d.mustRefuse(1, prepareOp); !strings.Contains(r.Reason, "no such list") {
			t.Error(r.Reason)
		}
	})
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		permit := d.session.permit
		m.die()
		m.mu.Lock()
		m.disk.data["t1"] = &directory{}
		m.heldBy = errors.New("somebody reads it")
		m.mu.Unlock()
		_ = permit()
		synctest.Wait()
		if s := m.state(); s.Journal == nil || s.Local.State != cluster.MemberNone {
			t.Fatalf("%+v", s)
		}
		op := prepareOp
		op.Token = "t2"
		d.mustRefuse(1, op)
		m.mu.Lock()
		m.heldBy = nil
		m.mu.Unlock()
		later(11 * time.Second)
		d.must(1, op)
	})
}

// What a ping of another cluster remembers is about another cluster's disk.
func TestBeatOfAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		disk := d.look(1).Disk
		ping := cluster.Ping{Cluster: "another", Host: "h2", RememberedDisk: disk, Remembered: 1 << 40}
		d.Remember([]cluster.Ping{ping})
		if hasProblem(d.look(1), "disk-went-back") {
			t.Error("a ping of another cluster is believed")
		}
		d.end()
		m.die()
		d = m.boot(func(_ *session, o *host.Options) {
			o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return []cluster.Ping{ping} }
		})
		defer d.end()
		if st := d.look(1); st.Disk != disk {
			t.Error("a host of another cluster made this a new disk")
		}
	})
}

// The look every ten seconds sees to each thing that is not as recorded, also where
// it is the only one.
func TestTickSeesToEachThing(t *testing.T) {
	t.Run("something foreign was in the way of nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m, d := started(t)
			d.must(1, cluster.Op{Kind: cluster.OpStop})
			d.end()
			m.adoptErr = errors.New("the lock is held by process 7")
			d = m.boot()
			defer d.end()
			d.look(1)
			d.mustRefuse(1, joinOp(9))
			m.mu.Lock()
			m.adoptErr = nil
			m.mu.Unlock()
			later(11 * time.Second)
			if st := d.look(1); hasProblem(st, "process-foreign") {
				t.Errorf("%+v", st.Problems)
			}
			d.must(1, joinOp(9))
		})
	})
	t.Run("a process that is to be stopped runs", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			m, d := started(t)
			defer d.end()
			d.must(1, cluster.Op{Kind: cluster.OpStop})
			m.mu.Lock()
			m.running = m.state0().Launch
			m.mu.Unlock()
			later(11 * time.Second)
			if runs, _ := m.process(); runs {
				t.Error("it goes on")
			}
		})
	})
}

// state0 is state for a caller that holds the mutex.
func (m *machine) state0() (s record.State) {
	if err := json.Unmarshal(m.disk.state, &s); err != nil {
		m.t.Fatal(err)
	}
	return s
}

// killing counts how processes are ended.
type killing struct {
	process
	stops, kills *atomic.Int32
}

func (k killing) Stop(ctx context.Context) error { k.stops.Add(1); return k.process.Stop(ctx) }
func (k killing) Kill(ctx context.Context) error { k.kills.Add(1); return k.process.Stop(ctx) }

// A member of a generation that was superseded or halted ends at once, also where the
// next daemon finds it; one that is only to be stopped gets its time.
func TestHowAMemberEnds(t *testing.T) {
	for name, c := range map[string]struct {
		record func(*record.State)
		kills  bool
	}{
		"to be stopped": {func(s *record.State) { s.Local.Run = false }, false},
		"refused":       {func(s *record.State) { s.LowestGeneration = s.Local.Generation + 1 }, true},
		"superseded": {func(s *record.State) {
			s.Intent = &cluster.Intent{Name: "test", Generation: s.Local.Generation + 1, Nonce: "n2", State: cluster.IntentFounding}
		}, true},
		"halted": {func(s *record.State) {
			s.Intent = &cluster.Intent{
				Name: "test", Generation: s.Local.Generation, Nonce: s.Local.Nonce, Write: 7, State: cluster.IntentFounded,
				Halt: &cluster.Halt{ID: "x", Generation: s.Local.Generation, From: s.Local.Version, To: v36},
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := started(t)
				d.end()
				m.edit(c.record)
				var stops, kills atomic.Int32
				d = m.boot(func(s *session, o *host.Options) { o.Process = killing{process{s}, &stops, &kills} })
				defer d.end()
				d.look(1)
				if runs, _ := m.process(); runs {
					t.Fatal("it runs")
				}
				if killed := kills.Load() > 0; killed != c.kills || stops.Load() > 0 == c.kills {
					t.Errorf("%d stops, %d kills", stops.Load(), kills.Load())
				}
			})
		})
	}
}

// A member that serves is kept as it is found, although its data is gone.
func TestAdoptedWithoutItsData(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		disk := d.look(1).Disk
		d.end()
		m.mu.Lock()
		m.disk.data["t1"] = &directory{}
		m.mu.Unlock()
		d = m.boot()
		defer d.end()
		st := d.look(1)
		if runs, _ := m.process(); !runs || st.Disk != disk || !hasProblem(st, "data-vanished") {
			t.Errorf("runs %v, disk %s after %s, %+v", runs, st.Disk, disk, st.Problems)
		}
	})
}

// A state that no host wrote is no state.
func TestStateLacksAPart(t *testing.T) {
	whole := func(state cluster.MemberState) record.State {
		return record.State{
			Format: record.StateFormat, Host: "h", Disk: "d", Launch: &record.Launch{},
			Local: cluster.LocalMember{State: state, Token: "t", Member: 1},
		}
	}
	members := []cluster.MemberState{cluster.MemberStarting, cluster.MemberStarted, cluster.MemberRemoved}
	for _, state := range append(members, cluster.MemberNone, cluster.MemberPrepared) {
		if err := whole(state).Validate(); err != nil {
			t.Errorf("%q: %v", state, err)
		}
	}
	refused := func(what string, s record.State) {
		t.Helper()
		if err := s.Validate(); !errors.Is(err, record.ErrState) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, spoil := range map[string]func(*record.State){
		"a later format": func(s *record.State) { s.Format++ },
		"no format":      func(s *record.State) { s.Format = 0 },
		"no host":        func(s *record.State) { s.Host = "" },
		"no disk":        func(s *record.State) { s.Disk = "" },
		"another word":   func(s *record.State) { s.Local.State = "x" },
	} {
		s := whole(cluster.MemberStarted)
		spoil(&s)
		refused(what, s)
	}
	for _, state := range members {
		for what, spoil := range map[string]func(*record.State){
			"no token":  func(s *record.State) { s.Local.Token = "" },
			"no member": func(s *record.State) { s.Local.Member = 0 },
			"no launch": func(s *record.State) { s.Launch = nil },
		} {
			s := whole(state)
			spoil(&s)
			refused(string(state)+" with "+what, s)
		}
	}
	s := whole(cluster.MemberPrepared)
	s.Local.Token = ""
	refused("prepared without a token", s)
}
