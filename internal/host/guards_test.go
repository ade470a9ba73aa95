package host_test

import (
	"testing"
	"testing/synctest"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Every guard of an op stands by itself: what one of them alone speaks against is
// refused, and nothing runs for it.
func TestGuardsOneByOne(t *testing.T) {
	refuse5 := cluster.Op{Kind: cluster.OpRefuse, Generation: 5}
	with := func(op cluster.Op, change func(*cluster.Op)) cluster.Op {
		change(&op)
		return op
	}
	keeps := func(nonce string) func(*machine) {
		return func(m *machine) {
			m.edit(func(s *record.State) {
				s.Intent = &cluster.Intent{Name: "test", Generation: 1, Nonce: nonce, Token: "t1", State: cluster.IntentFounded}
			})
		}
	}
	for name, c := range map[string]struct {
		before func(*machine) // of a state that is there
		first  func(*machine) []cluster.Op
		op     func(*machine) cluster.Op
		runs   bool // the member of generation 1 does, and goes on
	}{
		"prepare below a promise": {
			first: func(*machine) []cluster.Op { return []cluster.Op{refuse5} },
			op:    func(*machine) cluster.Op { return prepareOp },
		},
		"prepare for another founding": {
			before: keeps("another"), op: func(*machine) cluster.Op { return prepareOp },
		},
		"prepare over a log": {
			before: func(m *machine) { m.disk.data["t1"] = &directory{wal: true} },
			op:     func(*machine) cluster.Op { return prepareOp },
		},
		"prepare where a member is out of reach": {
			op: func(*machine) cluster.Op {
				return with(prepareOp, func(o *cluster.Op) {
					o.Members = []cluster.Member{{ID: 2, PeerURLs: []string{"http://up:2380"}}, {ID: 3, PeerURLs: []string{"http://down:2380"}}}
				})
			},
		},
		"prepare beside a member": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} }, runs: true,
			op: func(*machine) cluster.Op { return with(prepareOp, func(o *cluster.Op) { o.Token = "t2" }) },
		},
		"found below a promise": {
			first: func(*machine) []cluster.Op { return []cluster.Op{refuse5} },
			op:    func(m *machine) cluster.Op { return m.found(1) },
		},
		"join below a promise": {
			first: func(*machine) []cluster.Op { return []cluster.Op{prepareOp, refuse5} },
			op:    func(*machine) cluster.Op { return joinOp(9) },
		},
		"found with another release": {
			op: func(m *machine) cluster.Op { return with(m.found(1), func(o *cluster.Op) { o.Version = v36 }) },
		},
		"found from a source that the intent does not have": {
			op: func(m *machine) cluster.Op {
				return with(m.found(1), func(o *cluster.Op) { o.Source = &cluster.Source{Kind: cluster.SourceBackup, Backup: "B1"} })
			},
		},
		"found empty what the intent makes of data": {
			op: func(m *machine) cluster.Op {
				op := m.found(1)
				m.intent.Source = cluster.Source{Kind: cluster.SourceBackup, Backup: "B1"}
				return op
			},
		},
		"found over a log": {
			before: func(m *machine) { m.disk.data["t1"] = &directory{wal: true} },
			op:     func(m *machine) cluster.Op { return m.found(1) },
		},
		"start another member than is carried": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} }, runs: true,
			op: func(m *machine) cluster.Op { return with(m.found(1), func(o *cluster.Op) { o.Member = 9 }) },
		},
		"start it for another generation": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} }, runs: true,
			op: func(m *machine) cluster.Op { return with(m.found(1), func(o *cluster.Op) { o.Generation = 2 }) },
		},
		"restart with a release that is not here": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} }, runs: true,
			op: func(*machine) cluster.Op {
				return cluster.Op{Kind: cluster.OpRestart, Version: cluster.MustVersion("3.5.36"), Changes: true}
			},
		},
		"stage below a promise": {
			first: func(*machine) []cluster.Op { return []cluster.Op{refuse5} },
			op:    func(*machine) cluster.Op { return stageOp(cluster.SourceBackup) },
		},
		"stage the data of a member that runs": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} }, runs: true,
			op: func(*machine) cluster.Op { return stageOp(cluster.SourceSurvivor) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				if c.before != nil {
					d := m.boot()
					d.look(1)
					d.end()
					c.before(m)
				}
				_, sources := staging(m)
				d := m.boot(sources)
				defer d.end()
				d.look(1)
				if c.first != nil {
					for _, op := range c.first(m) {
						d.must(1, op)
					}
				}
				synctest.Wait()
				_, before := m.process()
				d.mustRefuse(1, c.op(m))
				synctest.Wait()
				if runs, starts := m.process(); runs != c.runs || len(starts) != len(before) {
					t.Errorf("runs %v after %d starts, want %v after %d", runs, len(starts), c.runs, len(before))
				}
			})
		})
	}
}

// A promise of a higher generation ends the member at once, and keeps it from running.
func TestRefusedGenerationEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot()
		d.look(1)
		d.must(1, m.found(1))
		synctest.Wait()
		d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 5})
		if runs, _ := m.process(); runs {
			t.Error("the member runs when the promise has been given")
		}
		d.end()
		d = m.boot()
		defer d.end()
		d.look(1)
		d.must(1, cluster.Op{Kind: cluster.OpRefuse, Generation: 3}) // what was promised stays so
		d.mustRefuse(1, m.found(4))
		if runs, _ := m.process(); runs {
			t.Error("the member runs again")
		}
	})
}

// The founder of a generation that is made from data starts with what lies ready
// on its disk, and with nothing else (SAFETY.md, rule 13).
func TestFounderOfDataOneByOne(t *testing.T) {
	for name, spoil := range map[string]func(in *cluster.Intent, s *record.State){
		"as it is to be": nil,
		"founded before": func(in *cluster.Intent, _ *record.State) {
			in.State = cluster.IntentFounded
		},
		"another token":      func(in *cluster.Intent, _ *record.State) { in.Token = "another" },
		"not ready":          func(_ *cluster.Intent, s *record.State) { s.Staged.State = cluster.StageFailed },
		"nothing lies ready": func(_ *cluster.Intent, s *record.State) { s.Staged = nil },
		"of another source":  func(_ *cluster.Intent, s *record.State) { s.Staged.Source.Backup = "B2" },
		"another member":     func(_ *cluster.Intent, s *record.State) { s.Staged.Member = 8 },
		"another cluster":    func(_ *cluster.Intent, s *record.State) { s.Staged.Cluster = 0xf },
		"two founders": func(in *cluster.Intent, _ *record.State) {
			in.Founders = append(in.Founders, cluster.Founder{Host: "h2", Disk: "x", Member: 8, URLs: ownURLs})
		},
		"an earlier one open": func(in *cluster.Intent, _ *record.State) { in.History = []cluster.PastGeneration{{Generation: 1}} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				x, sources := staging(m)
				d := m.boot(sources)
				d.look(1)
				d.must(1, stageOp(cluster.SourceBackup))
				x.proceed <- nil
				synctest.Wait()
				d.end()
				s := m.state()
				if s.Staged == nil || s.Staged.State != cluster.StageReady {
					t.Fatalf("staged: %+v", s.Staged)
				}
				start := m.found(2)
				source := s.Staged.Source
				start.Member, start.Source = 7, &source
				m.intent.Token, m.intent.Source, m.intent.Cluster, m.intent.Founders[0].Member = s.Staged.Token, source, 0xe, 7
				start.Members = []cluster.Member{{ID: 7, PeerURLs: ownURLs.Peer}}
				if spoil != nil {
					m.edit(func(s *record.State) { spoil(m.intent, s) })
				}
				for _, token := range []string{s.Staged.Token, m.intent.Token} {
					m.disk.data[token] = &directory{mark: s.Disk, wal: true, owner: 7}
				}
				_, sources = staging(m)
				d = m.boot(sources)
				defer d.end()
				d.look(1)
				if spoil == nil {
					d.must(1, start)
				} else {
					d.mustRefuse(1, start)
				}
				synctest.Wait()
				if runs, _ := m.process(); runs != (spoil == nil) {
					t.Errorf("it runs: %v", runs)
				}
			})
		})
	}
}
