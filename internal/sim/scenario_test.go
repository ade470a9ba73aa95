package sim

import (
	"flag"
	"os"

	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
)

var thorough = flag.Bool("thorough", false, "run the long variants of the schedules, and strike at 40 points of a flow instead of at 10")

// TestMain trades memory for time: worlds are small and die young. Tests run side by side, as in a bubble mostly one goroutine can
// run at a time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// longVariant leaves what takes long to the runs that say -thorough.
func longVariant(t *testing.T) {
	t.Helper()
	if !*thorough {
		t.Skip("a long variant of the schedule: it runs with -thorough")
	}
}

// inWorld runs a schedule in a world of its own and reports what it broke.
func inWorld(t *testing.T, o Options, schedule func(w *World)) {
	t.Helper()
	failed := liveThrough(t, o, schedule)
	if len(failed.Failures) == 0 {
		return
	}
	for _, f := range failed.Failures {
		t.Error(f)
	}
	t.Logf("timeline:\n%s", failed.Timeline)
}

// liveThrough runs a schedule, reads all acknowledged writes back, and returns
// what happened.
func liveThrough(t *testing.T, o Options, schedule func(w *World)) (r Report) {
	if o.Seed == 0 {
		o.Seed = 1
	}
	synctest.Test(t, func(*testing.T) {
		w := New(o)
		schedule(w)
		if w.load != nil && len(w.Broken()) == 0 {
			w.verifyWrites()
		}
		w.checkDirs()
		w.Close()
		r.Points = w.points
		r.Failures, r.Timeline = w.Broken(), w.Timeline(400)
	})
	return r
}

const soonEnough = 3 * time.Minute

func spec(n int) cluster.Spec {
	return cluster.Spec{MemberCount: n, EtcdVersion: cluster.MustVersion("3.6.16"), DeadAfter: 30 * time.Second}
}

// formed is a world with a cluster of n members on hosts of these names, and
// more hosts as given, under load.
func (w *World) formed(n int, names ...string) {
	for _, name := range names {
		w.Add(name)
	}
	w.Spec(spec(n))
	w.Load(100 * time.Millisecond)
	w.Await(n, soonEnough)
}

// leader is the machine whose daemon leads.
func (w *World) leader() *machine {
	for _, m := range w.hosts() {
		if d := m.daemon.Load(); d != nil && d.manager.Status().Leading {
			return m
		}
	}
	return nil
}

// raftLeader is the machine whose member leads raft.
func (w *World) raftLeader() *machine {
	for _, s := range w.etcd.Look() {
		if s.Leader == s.Member && s.Member != 0 {
			for _, m := range w.hosts() {
				if m.ID() == s.Host {
					return m
				}
			}
		}
	}
	return nil
}

// once makes a strike at the first point that fits.
func (w *World) once(fits func(Point) bool, strike Strike, then func()) {
	w.OnPoint(func(p Point) Strike {
		if !fits(p) {
			return Strike{}
		}
		w.OnPoint(nil)
		if then != nil {
			then()
		}
		return strike
	})
}

func (w *World) run(d time.Duration) { w.sleep(w.ctx, d) }

// votes reports whether the machine carries a voter.
func (w *World) votes(m *machine) bool {
	s, _ := m.state()
	voters, _ := w.voters()
	for _, v := range voters {
		if v.ID == s.Local.Member {
			return true
		}
	}
	return false
}
