package host_test

import (
	"context"
	"errors"
	"sync"
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

// A host that does not start its member asks about its disk all the same: as a keeper of the record it answers only once nobody
// remembers more of the disk than the disk itself.
func TestDiskIsAskedAboutWithoutAStart(t *testing.T) {
	for name, remembered := range map[string]uint64{"it went back": 1000, "it did not": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := started(t)
				disk := d.look(1).Disk
				d.end()
				m.running = nil
				d = m.boot(func(_ *session, o *host.Options) {
					o.MayStart = func(context.Context) (*cluster.Intent, error) { return nil, errors.New("not now") }
					o.Forgets = func(context.Context) error { return nil }
					o.AskPeers = func(context.Context) []cluster.Ping {
						return []cluster.Ping{{Cluster: "test", Host: "h2", RememberedDisk: disk, Remembered: remembered}}
					}
				})
				defer d.end()
				synctest.Wait()
				if want := remembered == 1; d.Asked() != want || m.running != nil {
					t.Errorf("it answers: %v, want %v", d.Asked(), want)
				}
			})
		})
	}
}
