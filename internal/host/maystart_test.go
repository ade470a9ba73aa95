package host_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// Before a member is started for the first time after a boot the host asks whether it may be: it waits while it may not, and does
// not start a member that a shown intent supersedes. A member that runs is not asked about.
func TestMayStartIsAskedAtBoot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		var mu sync.Mutex
		asked := 0
		var why error
		var shown *cluster.Intent
		ask := func(_ *session, o *host.Options) {
			o.MayStart = func(ctx context.Context) (*cluster.Intent, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*time.Second {
					t.Error("it is asked without a bound")
				}
				return shown, why
			}
		}
		d = m.boot(ask)
		synctest.Wait()
		if asked != 0 || m.running == nil {
			t.Errorf("a running member: asked %d times", asked)
		}
		d.end()

		m.running, why = nil, errors.New("host c keeps another record")
		d = m.boot(ask)
		if st := d.look(1); m.running != nil || !hasProblem(st, "other-record") {
			t.Fatalf("it was started: %+v", st.Problems)
		}
		d.mustRefuse(1, joinOp(9))
		mu.Lock()
		why = nil
		mu.Unlock()
		later(11 * time.Second)
		if st := d.look(1); m.running == nil || hasProblem(st, "other-record") || asked != 2 {
			t.Fatalf("asked %d times, and it does not run: %+v", asked, st.Problems)
		}
		d.end()

		m.running = nil
		shown = &cluster.Intent{
			Name: "test", Generation: 2, Nonce: "n2", Write: 1,
			History: []cluster.PastGeneration{{Generation: 1, Cluster: 0xc, Closed: true}},
		}
		d = m.boot(ask)
		defer d.end()
		if st := d.look(1); m.running != nil || st.Intent == nil || st.Intent.Generation != 2 {
			t.Fatalf("a superseded member was started: %+v %+v", st.Intent, st.Problems)
		}
	})
}

// A host that does not start its member asks about its disk all the same: as a keeper of the record it answers once nobody
// remembers more of the disk than the disk itself.
func TestDiskIsAskedAboutWithoutAStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		disk := d.look(1).Disk
		d.end()
		m.running = nil
		d = m.boot(func(_ *session, o *host.Options) {
			o.MayStart = func(context.Context) (*cluster.Intent, error) { return nil, errors.New("not now") }
			o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping {
				return []cluster.Ping{{Cluster: "test", Host: "h2", RememberedDisk: disk, Remembered: 1}}
			}
		})
		defer d.end()
		synctest.Wait()
		if st := d.look(1); !d.Asked() || st.Disk != disk || m.running != nil {
			t.Errorf("it answers: %v, with disk %s", d.Asked(), st.Disk)
		}
	})
}

// What others remember of a disk counts also where they tell it while the host asks whether its member may start.
func TestDiskThatIsBehindIsHeardOfLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := make(chan struct{})
		var full atomic.Bool
		full.Store(true)
		m, d := silentBoot(t, two, h2, func(_ *session, o *host.Options) {
			o.Forgets = func(context.Context) error {
				if full.Load() {
					return errors.New("no space left on device")
				}
				return nil
			}
			o.MayStart = func(context.Context) (*cluster.Intent, error) {
				close(asked)
				time.Sleep(time.Second)
				return nil, nil
			}
		})
		defer d.end()
		<-asked
		was, starts := m.state(), len(m.starts)
		d.Remember(tells(was, was.Epoch+1))
		later(2 * time.Second)
		if d.Asked() || len(m.starts) != starts {
			t.Errorf("before it is given up it answers: %v; started %d times", d.Asked(), len(m.starts)-starts)
		}
		full.Store(false)
		later(11 * time.Second)
		if s := m.state(); s.Disk == was.Disk || !d.Asked() || len(m.starts) != starts {
			t.Errorf("disk %s, was %s; it answers: %v; started %d times", s.Disk, was.Disk, d.Asked(), len(m.starts)-starts)
		}
	})
}

// A disk that is found to be behind does not catch up with what others remember of it while something keeps its host from starting
// anything: it is given up as soon as it can be, and nothing is answered or started by it meanwhile.
func TestDiskThatIsBehindDoesNotCatchUp(t *testing.T) {
	notNow := func(context.Context) (*cluster.Intent, error) { return nil, errors.New("not now") }
	for name, in := range map[string]struct {
		way   func(*machine, *host.Options) // what is in the way at first
		clear func(*machine)                // after two rounds; nil: it stays
	}{
		"it may not start": {way: func(_ *machine, o *host.Options) { o.MayStart = notNow }},
		"something foreign runs": {
			way:   func(m *machine, _ *host.Options) { m.adoptErr = errors.New("the lock is held by process 7") },
			clear: func(m *machine) { m.adoptErr = nil },
		},
		"what it promised cannot be forgotten": {
			way: func(m *machine, o *host.Options) {
				o.Forgets = func(context.Context) error {
					m.mu.Lock()
					defer m.mu.Unlock()
					return m.saveErr
				}
				m.saveErr = errors.New("no space left on device")
			},
			clear: func(m *machine) { m.saveErr = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := started(t)
				disk := d.look(1).Disk
				d.end()
				m.running, m.pid = nil, 0
				was, starts := m.state(), len(m.starts)
				var mu sync.Mutex
				told := 0
				d = m.boot(func(_ *session, o *host.Options) {
					o.Forgets = func(context.Context) error { return nil }
					o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping {
						mu.Lock()
						defer mu.Unlock()
						if told++; told > 1 { // they are away again
							return nil
						}
						return []cluster.Ping{{Cluster: "test", Host: "h2", RememberedDisk: disk, Remembered: was.Epoch + 1}}
					}
					in.way(m, o)
				})
				defer d.end()
				for range 25 {
					synctest.Wait()
					if s := m.state(); s.Disk == disk && (s.Epoch != was.Epoch || d.Asked()) {
						t.Fatalf("the disk that is behind is at epoch %d after %d; it answers: %v", s.Epoch, was.Epoch, d.Asked())
					}
					time.Sleep(time.Second)
				}
				if in.clear != nil {
					m.mu.Lock()
					in.clear(m)
					m.mu.Unlock()
					later(11 * time.Second)
				}
				if s := m.state(); s.Disk == disk || !d.Asked() || len(m.starts) != starts {
					t.Errorf("disk %s, was %s; it answers: %v; started %d times", s.Disk, disk, d.Asked(), len(m.starts)-starts)
				}
				d.must(1, prepareOp)
			})
		})
	}
}
