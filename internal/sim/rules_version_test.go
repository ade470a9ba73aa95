package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of docs/adr/014-versions.md: changes of version, and what it was
// attacked with.

var (
	sim35 = cluster.MustVersion("3.5.26")
	sim36 = cluster.MustVersion("3.6.16")
	sim37 = cluster.MustVersion("3.7.3")
)

func specOf(n int, v cluster.Version) cluster.Spec {
	s := spec(n)
	s.EtcdVersion = v
	return s
}

// formedWith is formed with another version.
func (w *World) formedWith(v cluster.Version, n int, names ...string) {
	for _, name := range names {
		w.Add(name)
	}
	w.Spec(specOf(n, v))
	w.Load(100 * time.Millisecond)
	w.Await(n, soonEnough)
	w.run(10 * time.Second)
}

// noneRefused demands that etcd refused no start for its version.
func (w *World) noneRefused() {
	if r := w.Refused(); len(r) > 0 {
		w.violate("etcd refused to start: %v", r)
	}
}

// running is how many members run a release.
func (w *World) running(v cluster.Version) (n int) {
	for _, s := range w.etcd.Look() {
		if s.Version == v && s.Serving {
			n++
		}
	}
	return n
}

// elections are those since the world began.
func (w *World) elections() int { return strings.Count(w.Timeline(1<<20), "etcd: leads in term") }

// TestVersionUpAndDown: two lines up and two down, undisturbed: nobody is
// refused, and each line costs one election.
func TestVersionUpAndDown(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		inWorld(t, Options{}, func(w *World) {
			w.formedWith(sim35, n, []string{"a", "b", "c"}[:n]...)
			for _, v := range []cluster.Version{sim36, sim37, sim36, sim35, sim37, sim35} {
				before := w.elections()
				lines := max(v.Minor-w.wanted().EtcdVersion.Minor, w.wanted().EtcdVersion.Minor-v.Minor)
				w.Spec(specOf(n, v))
				w.Await(n, soonEnough)
				// Before 3.7 members may be restarted once more to cut their logs.
				if most := before + 2*lines + 1; n > 1 && w.elections() > most {
					w.violate("%d elections on the way to %s", w.elections()-before, v)
				}
			}
			w.noneRefused()
		})
	}
}

// TestVersionMindChangedHalfWay: at each number of members, in each direction.
func TestVersionMindChangedHalfWay(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]cluster.Version{{sim35, sim36}, {sim36, sim37}, {sim36, sim35}, {sim37, sim36}} {
		for moved := range 3 {
			inWorld(t, Options{}, func(w *World) {
				from, to := way[0], way[1]
				w.formedWith(from, 3, "a", "b", "c")
				w.Spec(specOf(3, to))
				w.Until("so many have moved", soonEnough, func() bool { return w.running(to) >= moved })
				w.Spec(specOf(3, from))
				w.Await(3, soonEnough)
				w.noneRefused()
			})
		}
	}
}

// TestVersionPause: one member stays behind, and each of the ways on is open.
func TestVersionPause(t *testing.T) {
	t.Parallel()
	for _, then := range []cluster.Version{sim36, sim37} {
		inWorld(t, Options{}, func(w *World) {
			w.formedWith(sim36, 3, "a", "b", "c")
			s := specOf(3, sim37)
			s.PauseBeforeLast = true
			w.Spec(s)
			w.Until("two run it", soonEnough, func() bool { return w.running(sim37) == 2 })
			w.run(time.Minute)
			if w.running(sim36) != 1 || !strings.Contains(w.saidOfVersion(), "stays on 3.6.16") {
				w.violate("%d members are left behind: %s", w.running(sim36), w.saidOfVersion())
			}
			w.Spec(specOf(3, then))
			w.Await(3, soonEnough)
			w.noneRefused()
		})
	}
}

// TestVersionPauseOnTheWayDown: likewise, and the words name the line that is kept.
func TestVersionPauseOnTheWayDown(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim37, 3, "a", "b", "c")
		s := specOf(3, sim36)
		s.PauseBeforeLast = true
		w.Spec(s)
		w.Until("two run it", soonEnough, func() bool { return w.running(sim36) == 2 })
		w.run(time.Minute)
		if w.running(sim37) != 1 || !strings.Contains(w.saidOfVersion(), "stays on 3.7.3") {
			w.violate("%d members are left behind: %s", w.running(sim37), w.saidOfVersion())
		}
		w.Spec(specOf(3, sim37))
		w.Await(3, soonEnough)
		w.noneRefused()
	})
}

// TestVersionOnlyHighMemberDies: during 3.6 to 3.5 the only member that would
// tell of the downgrade is gone for good; its successor joins all the same.
func TestVersionOnlyHighMemberDies(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 3, "a", "b", "c", "d")
		w.Spec(specOf(3, sim35))
		w.Until("two run 3.5", soonEnough, func() bool { return w.running(sim35) == 2 })
		for _, s := range w.etcd.Look() {
			if s.Version == sim36 {
				w.Leave(w.hostNow(s.Host))
			}
		}
		w.Await(3, ConvergeWithin)
	})
}

// TestVersionGrowsAmidDowngrade: another count comes before a downgrade goes on.
func TestVersionGrowsAmidDowngrade(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim37, 3, "a", "b", "c", "d", "e")
		s := specOf(3, sim36)
		s.PauseBeforeLast = true // so that it does not end before
		w.Spec(s)
		w.Until("two run 3.6", soonEnough, func() bool { return w.running(sim36) == 2 })
		s.MemberCount = 5
		w.Spec(s)
		w.Await(5, ConvergeWithin)
		w.Spec(specOf(5, sim36))
		w.Await(5, ConvergeWithin)
		w.noneRefused()
	})
}

// TestVersionDowngradeByHand: what somebody enabled beside us, and nobody asked
// for, is cancelled; also before a restored backup of it grows.
func TestVersionDowngradeByHand(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 3, "a", "b", "c")
		if err := w.etcd.Member("a").Downgrade(w.ctx, sim35.Base()); err != nil {
			w.violate("enable a downgrade: %v", err)
		}
		w.run(5 * time.Second)
		w.Await(3, soonEnough)
	})
}

// TestVersionYoungCluster: the entries of 3.5 are cut before 3.7 reads them.
func TestVersionYoungCluster(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim35, 3, "a", "b", "c")
		w.Spec(specOf(3, sim37))
		w.Await(3, soonEnough)
		w.noneRefused()
		if tl := w.Timeline(1 << 20); !strings.Contains(tl, "cuts a raft snapshot") {
			w.violate("nobody had to cut anything")
		}
	})
}

// TestVersionOldEntriesComeLater: a log of 3.6 that was found clean gets new
// requests of version 2 from a member that is taken down to 3.5, and back.
func TestVersionOldEntriesComeLater(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 3, "a", "b", "c")
		w.Spec(specOf(3, sim35))
		w.Until("one runs 3.5", soonEnough, func() bool { return w.running(sim35) == 1 })
		w.Spec(specOf(3, sim37))
		w.Await(3, soonEnough)
		w.noneRefused()
	})
}

// TestVersionDoesNotStart: on one host, with one and with three voters: it runs
// the one before, is not replaced, and the release is not tried again until its
// daemon is restarted.
func TestVersionDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		inWorld(t, Options{}, func(w *World) {
			names := []string{"a", "b", "c", "d"}
			w.formedWith(sim36, n, names[:n]...)
			broken := w.Host(names[n-1])
			voters, _ := w.voters()
			w.Break(broken, sim37)
			w.Spec(specOf(n, sim37))
			w.Until("it is given up", soonEnough, func() bool { return strings.Contains(w.saidOfVersion(), "did not start on host") })
			w.run(30 * time.Second)
			starts := broken.starts()
			w.run(2 * time.Minute)
			now, _ := w.voters()
			if broken.starts() != starts || !slices.EqualFunc(voters, now, func(a, b cluster.Member) bool { return a.ID == b.ID }) {
				w.violate("it was tried again, or replaced")
			}
			w.Repair(broken, releases()...)
			w.Await(n, soonEnough)
		})
	}
}

// TestVersionWithoutTheRelease: nobody is touched before every host has it.
func TestVersionWithoutTheRelease(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 3, "a", "b", "c")
		w.Install(w.Host("b"), sim35, sim36)
		w.Spec(specOf(3, sim37))
		w.Await(3, soonEnough) // it says why
		w.run(time.Minute)
		if w.running(sim36) != 3 || !strings.Contains(w.saidOfVersion(), "b") {
			w.violate("%d run 3.6: %s", w.running(sim36), w.saidOfVersion())
		}
		w.Install(w.Host("b"), releases()...)
		w.Await(3, soonEnough)
		w.noneRefused()
	})
}

// TestVersionThroughMute: enable and cancel through a member of 3.5 answer
// nothing, and are found to have taken effect.
func TestVersionThroughMute(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim35, 1, "a")
		if err := w.etcd.Member("a").Downgrade(w.ctx, cluster.Version{Major: 3, Minor: 4}); err == nil {
			w.violate("3.5 answered")
		}
		w.run(time.Second)
		if w.etcd.Look()[0].Down.IsZero() {
			w.violate("what 3.5 did not answer took no effect")
		}
		w.Spec(specOf(1, sim36))
		w.Await(1, soonEnough)
		w.noneRefused()
	})
}

// TestVersionNobodyBesideOneThatIsDown: with five voters a quorum would be left,
// and nobody is restarted all the same.
func TestVersionNobodyBesideOneThatIsDown(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 5, "a", "b", "c", "d", "e")
		down := w.Host("e")
		w.Break(down, sim36)
		w.KillEtcd(down)
		w.run(excuse + 5*time.Second)
		w.Spec(specOf(5, sim37))
		w.run(time.Minute)
		if w.running(sim37) > 0 {
			w.violate("%d members run 3.7", w.running(sim37))
		}
		w.Repair(down, releases()...)
		w.Await(5, soonEnough)
		w.noneRefused()
	})
}
