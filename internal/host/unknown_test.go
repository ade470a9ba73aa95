package host_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
)

// failing has the disk fail, or be whole again.
func (m *machine) failing(data, save error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dataErr, m.saveErr = data, save
}

// Data that cannot be looked at is not data that is not there: nothing is prepared or
// started over it, no member that runs is stopped for it, and the disk does not count as
// one that forgot.
func TestDataThatCannotBeLookedAt(t *testing.T) {
	hangs := errors.New("input/output error")
	notDone := func(t *testing.T, d *daemon, op cluster.Op) {
		t.Helper()
		if r := d.do(1, op, cluster.Guard{}); r.Outcome == cluster.OutcomeDone {
			t.Errorf("%s: %+v", op, r)
		}
	}
	for name, test := range map[string]func(t *testing.T, m *machine, d *daemon){
		"to prepare": func(t *testing.T, m *machine, d *daemon) {
			d.look(1)
			m.failing(hangs, nil)
			notDone(t, d, prepareOp)
			if l := m.state().Local; l.State != cluster.MemberNone {
				t.Errorf("prepared: %+v", l)
			}
		},
		"to found": func(t *testing.T, m *machine, d *daemon) {
			d.look(1)
			op := m.found(1)
			m.failing(hangs, nil)
			notDone(t, d, op)
			if runs, starts := m.process(); runs || len(starts) > 0 {
				t.Errorf("started: %+v", starts)
			}
		},
		"to join": func(t *testing.T, m *machine, d *daemon) {
			m.joined()
			d.must(1, prepareOp)
			m.failing(hangs, nil)
			notDone(t, d, joinOp(9))
			if runs, starts := m.process(); runs || len(starts) > 0 {
				t.Errorf("started: %+v", starts)
			}
		},
		"to restart": func(t *testing.T, m *machine, d *daemon) {
			d.look(1)
			d.must(1, m.found(1))
			d.look(1)
			_, before := m.process()
			m.failing(hangs, nil)
			notDone(t, d, cluster.Op{Kind: cluster.OpRestart, Host: "h1", Quarantined: true})
			if runs, starts := m.process(); !runs || len(starts) != len(before) {
				t.Errorf("it was stopped, or started anew: %t, %d starts", runs, len(starts))
			}
		},
		"to start again": func(t *testing.T, m *machine, d *daemon) {
			d.look(1)
			d.must(1, m.found(1))
			disk := d.look(1).Disk
			m.failing(hangs, nil)
			l := m.die()
			if err := (process{d.session}).revive(*l); !errors.Is(err, hangs) {
				t.Errorf("the start: %v", err)
			}
			later(time.Minute)
			synctest.Wait()
			if s := m.state(); s.Disk != disk || s.Local.State != cluster.MemberStarted {
				t.Errorf("disk %s was %s, the member is %s", s.Disk, disk, s.Local.State)
			}
			m.failing(nil, nil)
			if err := (process{d.session}).revive(*l); err != nil {
				t.Errorf("once it can be looked at: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				d := m.boot()
				defer d.end()
				test(t, m, d)
				m.failing(nil, nil)
			})
		})
	}
}

// What cannot be written down is not done: whoever asked would go on from something that
// is gone with the next daemon.
func TestNothingIsDoneThatIsNotWrittenDown(t *testing.T) {
	full := errors.New("no space left on device")
	for name, c := range map[string]struct {
		first func(*machine) []cluster.Op
		op    func(*machine) cluster.Op
	}{
		"prepare": {op: func(*machine) cluster.Op { return prepareOp }},
		"found":   {op: func(m *machine) cluster.Op { return m.found(1) }},
		"join":    {first: func(*machine) []cluster.Op { return []cluster.Op{prepareOp} }, op: func(*machine) cluster.Op { return joinOp(9) }},
		"refuse":  {op: func(*machine) cluster.Op { return cluster.Op{Kind: cluster.OpRefuse, Host: "h1", Generation: 5} }},
		"refuse beside a member": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} },
			op:    func(*machine) cluster.Op { return cluster.Op{Kind: cluster.OpRefuse, Host: "h1", Generation: 5} },
		},
		"stop": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} },
			op:    func(*machine) cluster.Op { return cluster.Op{Kind: cluster.OpStop, Host: "h1"} },
		},
		"restart": {
			first: func(m *machine) []cluster.Op { return []cluster.Op{m.found(1)} },
			op:    func(*machine) cluster.Op { return cluster.Op{Kind: cluster.OpRestart, Host: "h1", Quarantined: true} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := newMachine(t)
				d := m.boot()
				defer d.end()
				m.joined()
				d.look(1)
				if c.first != nil {
					for _, op := range c.first(m) {
						d.must(1, op)
					}
				}
				d.look(1)
				op := c.op(m)
				before, _ := m.process()
				m.failing(nil, full)
				if r := d.do(1, op, cluster.Guard{}); r.Outcome == cluster.OutcomeDone {
					t.Errorf("%+v", r)
				}
				if runs, _ := m.process(); runs != before {
					t.Errorf("the member runs: %t, before: %t", runs, before)
				}
				m.failing(nil, nil)
				if r := d.do(1, op, cluster.Guard{}); r.Outcome != cluster.OutcomeDone {
					t.Errorf("once it can be: %+v", r)
				}
			})
		})
	}
}
