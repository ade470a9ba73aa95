package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// The ordinary flows, without a flag that a person would have to know.

// TestWalkthrough is the predecessor's: one host, seed, two more hosts,
// configure three; stop and start; wipe one.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	for _, version := range releases() {
		t.Run(version.String(), func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				s := cluster.Spec{MemberCount: 1, EtcdVersion: version}
				a := w.Add("a")
				w.run(2 * time.Second)
				w.Spec(s)
				w.Load(100 * time.Millisecond)
				w.Await(1, 10*time.Second)
				b, c := w.Add("b"), w.Add("c")
				w.run(2 * time.Second)
				s.MemberCount = 3
				w.Spec(s)
				w.Await(3, time.Minute)
				for _, m := range []*machine{a, b, c} { // as a rolling reboot does
					w.Halt(m)
					w.run(3 * time.Second)
					w.Start(m)
					w.Await(3, time.Minute)
				}
				for _, m := range []*machine{a, b, c} {
					w.Halt(m)
				}
				w.run(10 * time.Second)
				for _, m := range []*machine{c, b, a} {
					w.Start(m)
				}
				w.Await(3, time.Minute)
				w.Halt(b)
				w.Wipe(b)
				w.Start(b)
				w.Await(3, time.Minute)
			})
		})
	}
}

// TestSizes goes through the sizes, the raft leader among those removed.
func TestSizes(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a", "b", "c", "d", "e", "f", "g")
		for _, n := range []int{3, 5, 3, 1, 3, 7, 3, 1} {
			w.Spec(spec(n))
			w.Await(n, soonEnough)
		}
	})
}

// TestSpecChangedBackHalfWay does not leave half of a change behind.
func TestSpecChangedBackHalfWay(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 6 * time.Second} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(3, "a", "b", "c", "d", "e")
			w.Spec(spec(5))
			w.run(after)
			w.Spec(spec(3))
			w.Await(3, soonEnough)
			w.Spec(spec(1))
			w.run(after)
			w.Spec(spec(3))
			w.Await(3, soonEnough)
		})
	}
}

// TestFormsWithTwoOfThree: the third joins when it comes.
func TestFormsWithTwoOfThree(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.Spec(spec(3))
		w.Add("a")
		w.Add("b")
		w.await(2, 3, time.Minute)
		w.Add("c")
		w.Load(100 * time.Millisecond)
		w.Await(3, time.Minute)
	})
}

// TestHostGoneForGood: a new host with a new identity takes its place.
func TestHostGoneForGood(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.Leave(w.Host("c"))
		w.run(time.Second)
		w.Add("d")
		w.Await(3, soonEnough)
	})
}

// flow is a stretch of a cluster's life in which daemons are crashed at every
// single point.
type flow struct {
	name  string
	setUp func(w *World)
	begin func(w *World)
	count int
}

var flows = []flow{
	{"found", func(w *World) {
		for _, n := range []string{"a", "b", "c"} {
			w.Add(n)
		}
		w.run(2 * time.Second)
		w.Load(200 * time.Millisecond)
	}, func(w *World) { w.Spec(spec(3)) }, 3},
	{"grow", func(w *World) { w.formed(1, "a", "b", "c") }, func(w *World) { w.Spec(spec(3)) }, 3},
	{"shrink", func(w *World) { w.formed(3, "a", "b", "c") }, func(w *World) { w.Spec(spec(1)) }, 1},
	{"replace", func(w *World) { w.formed(3, "a", "b", "c") }, func(w *World) {
		b := w.Host("b")
		w.Halt(b)
		w.Wipe(b)
		w.Start(b)
	}, 3},
	{"restore", func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(time.Second)
		w.Backup()
		w.run(2 * time.Second)
	}, func(w *World) { w.Queue(order{kind: cluster.CommandRestore, backup: w.backupsTaken()[0]}) }, 3},
	{"recover", func(w *World) {
		w.formed(3, "a", "b", "c", "d", "e")
		for _, v := range w.lastVoters(2) {
			w.Leave(v)
		}
		w.run(15 * time.Second)
	}, func(w *World) {
		w.Queue(order{kind: cluster.CommandRecover, host: w.survivors()[0].ID(), lost: w.lost()})
	}, 3},
	{"restart", func(w *World) { w.formed(3, "a", "b", "c") }, func(w *World) {
		w.Options("--snapshot-count=5000")
		w.run(11 * time.Second) // until the next look
	}, 3},
}

// lastVoters are so many machines that carry voters and do not lead the daemons.
func (w *World) lastVoters(n int) (out []*machine) {
	for _, m := range w.hosts() {
		if w.votes(m) && m != w.leader() {
			out = append(out, m)
		}
	}
	return out[:n]
}

// live runs the flow and strikes at its n-th point; zero: nowhere. It tells
// how many points there were.
func (f flow) live(t *testing.T, n int, strike func(w *World, m *machine) Strike) (points int, r Report) {
	r = liveThrough(t, Options{}, func(w *World) {
		f.setUp(w)
		w.OnPoint(func(p Point) Strike {
			if points++; points != n {
				return Strike{}
			}
			for _, m := range w.hosts() {
				if m.ID() == p.Host {
					w.tracef(m.ID(), "strike at point %d: %s", n, p)
					return strike(w, m)
				}
			}
			return Strike{}
		})
		f.begin(w)
		w.run(500 * time.Millisecond)
		w.Await(f.count, ConvergeWithin)
	})
	return points, r
}

// TestCrashAtEveryPoint crashes the daemon that is about to make, or has just
// made, a call that changes the world: each such call of each flow. It comes
// back after a second.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	strikeEverywhere(t, func(w *World, m *machine) Strike {
		w.later(time.Second, func() { w.Start(m) })
		return Strike{Crash: true}
	})
}

// TestPowerCutAtEveryPoint takes the member's process along.
func TestPowerCutAtEveryPoint(t *testing.T) {
	t.Parallel()
	strikeEverywhere(t, func(w *World, m *machine) Strike {
		w.later(0, func() { w.KillEtcd(m) })
		w.later(2*time.Second, func() { w.Start(m) })
		return Strike{Crash: true}
	})
}

// TestPauseAtEveryPoint stops the daemon there for longer than a stamp lasts,
// and long enough for others to lead.
func TestPauseAtEveryPoint(t *testing.T) {
	t.Parallel()
	strikeEverywhere(t, func(*World, *machine) Strike { return Strike{Pause: 8 * time.Second} })
}

// mostPoints bounds the points of a flow that are struck; where there are
// more, they are spread over the flow.
func mostPoints() int {
	if *thorough {
		return 40
	}
	return 5
}

func strikeEverywhere(t *testing.T, strike func(w *World, m *machine) Strike) {
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			points, calm := f.live(t, 0, strike)
			if len(calm.Failures) > 0 {
				t.Fatalf("without a strike: %v\n%s", calm.Failures, calm.Timeline)
			}
			step := max(1, points/mostPoints())
			if Raced { // each world takes the detector ten times as long
				step *= 4
			}
			for n := 1; n <= points; n += step {
				if _, r := f.live(t, n, strike); len(r.Failures) > 0 {
					t.Errorf("strike at point %d of %d: %v", n, points, r.Failures)
					t.Logf("timeline:\n%s", r.Timeline)
					return
				}
			}
		})
	}
}
