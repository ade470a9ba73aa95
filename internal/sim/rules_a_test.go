package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// Schedules of SAFETY.md, A: acting.

// TestRule1RestartsOneWhenAllOthersAreUp: new options are rolled out while a
// voter is down; nobody else is restarted before it is back.
func TestRule1RestartsOneWhenAllOthersAreUp(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		c := w.Host("c")
		before := map[string]int{}
		w.Halt(c)
		w.run(12 * time.Second)
		for _, m := range w.hosts() {
			before[m.name] = m.starts()
		}
		w.Options("--snapshot-count=5000")
		w.run(15 * time.Second) // less than it takes to be dead
		for _, m := range w.hosts() {
			if m.starts() != before[m.name] {
				w.violate("%s was restarted while a voter was down", m.name)
			}
		}
		w.Start(c)
		w.Await(3, time.Minute)
		w.Until("all run with the new options", time.Minute, func() bool {
			for _, m := range w.hosts() {
				p := m.running()
				if p == nil || strings.Join(p.Launch().Options, " ") != "--snapshot-count=5000" {
					return false
				}
			}
			return true
		})
		w.Await(3, time.Minute)
	})
}

// TestRule1RestartsOneAtATime: a host that is slow to come back holds up the
// next restart.
func TestRule1RestartsOneAtATime(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e")
		w.Options("--snapshot-count=5000")
		w.run(15 * time.Second)
		w.Await(5, time.Minute)
	})
}

// TestRule1RemovesOnlyWhatLeavesAQuorum: of five voters two are gone and a
// third is silent for its daemon only.
func TestRule1RemovesOnlyWhatLeavesAQuorum(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e")
		w.Leave(w.Host("d"))
		w.Leave(w.Host("e"))
		w.KillDaemon(w.Host("c"))
		w.run(5 * time.Minute)
		w.Start(w.Host("c"))
		w.Add("f")
		w.Add("g")
		w.Await(5, soonEnough)
	})
}

// TestRule2RestartsWithoutLeaderAndStore: a host alone restarts its member.
func TestRule2RestartsWithoutLeaderAndStore(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a")
		a := w.Host("a")
		w.CutStore(a)
		for range 3 {
			w.Halt(a)
			w.run(time.Second)
			w.Start(a)
			w.Until("its member serves", 10*time.Second, func() bool {
				p := a.running()
				return p != nil && p.Serving()
			})
		}
		w.Heal()
		w.Await(1, time.Minute)
	})
}

// TestRule2RevivesSeldom: a member that sees no raft leader is restarted in
// place after a minute, then after two, four, …
func TestRule2RevivesSeldom(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		w.Split([]*machine{a}, []*machine{b, c}, members, daemons)
		w.Split([]*machine{b}, []*machine{c}, members, daemons)
		before := a.starts()
		w.run(50 * time.Second)
		if a.starts() != before {
			w.violate("a was restarted within a minute")
		}
		w.run(10 * time.Minute)
		if n := a.starts() - before; n < 2 || n > 4 {
			w.violate("a was restarted %d times in 11 minutes without a quorum", n)
		}
		w.Heal()
		w.Await(3, soonEnough)
	})
}

// TestRule3TwoLeadersRemove: a leader is paused between its look and its
// removal of a dead voter, another one does the work, and then a second voter
// dies; the old removal must not be made any more.
func TestRule3TwoLeadersRemove(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e", "f")
		w.Halt(w.Host("e"))
		var old *machine
		w.once(func(p Point) bool {
			return p.Kind == kindApply && strings.Contains(p.Detail, "remove") || p.Kind == kindMember && strings.HasPrefix(p.Detail, "remove")
		},
			Strike{Pause: 40 * time.Second}, func() { old = w.leader() })
		w.Until("a removal is held", soonEnough, func() bool { return old != nil })
		w.run(20 * time.Second)
		w.Start(w.Host("e"))
		w.run(15 * time.Second)
		w.Halt(w.Host("d"))
		w.run(10 * time.Second)
		w.Start(w.Host("d"))
		w.Await(5, soonEnough)
	})
}

// shrinkWithHeldRemoval holds the removal of a healthy voter at its sender
// until another voter has died. The quorum must survive.
func shrinkWithHeldRemoval(w *World, hold time.Duration) {
	w.formed(3, "a", "b", "c")
	held := false
	w.OnLetter(func(l Letter) *Post {
		if l.Kind == kindApply && l.Apply.Op.Kind == cluster.OpRemove && !held {
			held = true
			return &Post{Delay: hold}
		}
		return nil
	})
	w.once(func(p Point) bool { return p.Kind == kindMember && strings.HasPrefix(p.Detail, "remove") }, Strike{Pause: hold}, func() { held = true })
	w.Spec(spec(1))
	w.Until("a removal is held", soonEnough, func() bool { return held })
	w.OnPoint(nil)
}

// TestRule3HeldRemovalAfterADeath: the removal of a healthy voter is carried
// out late, when it would take the quorum.
func TestRule3HeldRemovalAfterADeath(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{6 * time.Second, 20 * time.Second} {
		inWorld(t, Options{}, func(w *World) {
			shrinkWithHeldRemoval(w, hold)
			w.Spec(spec(3))
			w.run(hold / 2)
			w.run(hold)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule3LateCopies: every op arrives a second time, seconds later, through
// all the sizes; nothing is done twice.
func TestRule3LateCopies(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second, 9 * time.Second, 25 * time.Second} {
		inWorld(t, Options{}, func(w *World) {
			w.OnLetter(func(l Letter) *Post {
				if l.Kind == kindApply || l.Kind == kindObserve {
					return &Post{Again: after}
				}
				return nil
			})
			w.formed(1, "a", "b", "c", "d")
			for _, n := range []int{3, 1, 3} {
				w.Spec(spec(n))
				w.Await(n, soonEnough)
			}
			w.Halt(w.Host("c"))
			w.Wipe(w.Host("c"))
			w.Start(w.Host("c"))
			w.run(30 * time.Second)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule3TimedOutAdd: the reply of an add is lost; the learner is found in
// the list and used, not added again.
func TestRule3TimedOutAdd(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a", "b", "c")
		lost := 0
		w.OnLetter(func(l Letter) *Post {
			if l.Kind == kindApply && l.Apply.Op.Kind.Membership() && lost < 4 {
				lost++
				return &Post{LoseReply: true}
			}
			return nil
		})
		w.once(func(p Point) bool { return p.Kind == kindMember && p.After && strings.HasPrefix(p.Detail, "add") }, Strike{Crash: true},
			func() { w.later(time.Second, func() { w.Start(w.Host("a")) }) })
		w.Spec(spec(3))
		w.run(time.Second)
		w.Await(3, soonEnough)
	})
}

// TestRule4SilentDaemonIsNotADeadMember: its etcd goes on, and nobody removes it.
func TestRule4SilentDaemonIsNotADeadMember(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		c := w.Host("c")
		for _, m := range w.hosts() {
			if m != w.leader() && w.votes(m) {
				c = m
			}
		}
		changes := w.changed()
		w.KillDaemon(c)
		w.run(5 * time.Minute)
		if w.changed() != changes {
			w.violate("the voters were changed because a daemon was silent")
		}
		w.Start(c)
		w.Await(3, time.Minute)
	})
}

// TestRule4PartitionFromTheLeaderAlone: the leader's host cannot reach the
// member, others can: it is not dead.
func TestRule4PartitionFromTheLeaderAlone(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		a, c := w.Host("a"), w.Host("c")
		changes := w.changed()
		w.Split([]*machine{a}, []*machine{c}, daemons, members)
		w.run(5 * time.Minute)
		if w.changed() != changes {
			w.violate("a member was replaced that others reach")
		}
		w.Heal()
		w.Await(3, time.Minute)
	})
}

// TestRule4NeverStartedLearner: the joiner's disk is wiped between the add and
// its start; what was added is removed, and another learner comes.
func TestRule4NeverStartedLearner(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a", "b", "c")
		w.once(func(p Point) bool { return p.Kind == kindMember && p.After && strings.HasPrefix(p.Detail, "add") }, Strike{}, func() {
			for _, m := range []*machine{w.Host("b"), w.Host("c")} {
				w.later(0, func() {
					w.Halt(m)
					w.Wipe(m)
					w.Start(m)
				})
			}
		})
		w.Spec(spec(3))
		w.run(5 * time.Second)
		w.Await(3, soonEnough)
	})
}

// TestRule4ReplacesWithoutLosingTolerance: the successor is there before the
// dead voter of five goes; of three, the dead one has to go first.
func TestRule4ReplacesWithoutLosingTolerance(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(n, "a", "b", "c", "d", "e", "f")
			for _, m := range w.hosts() {
				if w.votes(m) && m != w.leader() && m != w.raftLeader() {
					w.Leave(m)
					break
				}
			}
			w.run(5 * time.Second)
			w.Await(n, soonEnough)
		})
	}
}

// TestRule5LearnerWipedBeforePromotion: raft's leader still believes that it
// has the log.
func TestRule5LearnerWipedBeforePromotion(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a", "b", "c")
		w.run(time.Minute) // a log long enough for a tenth of it to matter
		var wiped *machine
		w.once(func(p Point) bool {
			_, learners := w.voters()
			return p.Kind == kindSave && strings.Contains(p.Detail, "started") && len(learners) > 0 && p.Host != "a"
		}, Strike{Crash: true}, nil)
		w.Spec(spec(3))
		w.Until("a learner has caught up", soonEnough, func() bool {
			w.step()
			_, learners := w.voters()
			for _, l := range learners {
				m := w.carrier(l.ID)
				if m == nil || m.daemon.Load() != nil {
					continue
				}
				if seen, runs := w.seenOn(m); runs && seen.Applied >= w.applied() {
					wiped = m
					return true
				}
			}
			return false
		})
		was, _ := wiped.state()
		w.Halt(wiped)
		w.Wipe(wiped)
		unpromoted := func() {
			w.step()
			voters, _ := w.voters()
			for _, v := range voters {
				if v.ID == was.Local.Member {
					w.violate("learner %s was promoted after its disk was wiped", v.ID)
				}
			}
		}
		w.run(8 * time.Second) // out of sight, and listed
		unpromoted()           // before it is seen to be wiped, and replaced
		w.Start(wiped)
		w.run(15 * time.Second)
		unpromoted()
		w.Await(3, soonEnough)
	})
}

// TestRule6NoDuels: two daemons that lead, because they do not see each other,
// and share a third host, do not chase each other's fences.
func TestRule6NoDuels(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		before, _ := c.state()
		w.Split([]*machine{a}, []*machine{b}, daemons)
		w.run(10 * time.Minute)
		after, _ := c.state()
		const most = 1 << 20 // that a fence is raised by at once
		if n := after.Promised.Number - before.Promised.Number; n > 8*most {
			w.violate("two leaders raised the fence by %d in ten minutes", n)
		}
		w.Heal()
		w.Await(3, time.Minute)
	})
}

// TestRule7AnOpBegunIsFinished: the leader dies right after it has sent an op.
func TestRule7AnOpBegunIsFinished(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.Host("c").slow.Store(int64(800 * time.Millisecond))
		w.Halt(w.Host("c"))
		w.Wipe(w.Host("c"))
		w.Start(w.Host("c"))
		crashes := 0
		w.OnPoint(func(p Point) Strike {
			if p.Host == "c" && p.Kind == kindSave && !p.After && strings.Contains(p.Detail, "prepared") && crashes < 3 {
				l := w.leader()
				if l == nil {
					return Strike{} // another is about to lead
				}
				crashes++
				w.later(0, func() { w.KillDaemon(l) })
				w.later(3*time.Second, func() { w.Start(l) })
			}
			return Strike{}
		})
		w.Await(3, soonEnough)
		if crashes == 0 {
			w.violate("the schedule never struck")
		}
	})
}

// TestRule3LateRemovalWhileItsVictimRestarts: the removal of healthy c waits on
// its way from a to b until a is gone and c happens to be inactive. etcd would
// let it through, and the quorum would be gone for good.
func TestRule3LateRemovalWhileItsVictimRestarts(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		patient := func(n int) cluster.Spec {
			s := spec(n)
			s.DeadAfter = 10 * time.Minute
			return s
		}
		w.Spec(patient(3))
		a, b, c := w.Add("a"), w.Add("b"), w.Add("c")
		w.Load(100 * time.Millisecond)
		w.Await(3, soonEnough)
		for w.raftLeader() != b {
			if l := w.raftLeader(); l != nil {
				w.KillEtcd(l)
			}
			w.run(5 * time.Second)
		}
		w.Await(3, soonEnough)
		const hold = 40 * time.Second
		held := false
		w.OnLetter(func(l Letter) *Post {
			if l.Kind == kindApply && l.Apply.Op.Kind == cluster.OpRemove && l.To == "b" && !held {
				held = true
				return &Post{Delay: hold}
			}
			return nil
		})
		w.Spec(patient(1))
		w.Until("the removal is on its way", soonEnough, func() bool { return held })
		w.Halt(a)
		w.Spec(patient(3))
		w.once(func(p Point) bool {
			return p.Host == "b" && p.Kind == kindMember && strings.HasPrefix(p.Detail, "remove")
		}, Strike{Pause: 10 * time.Millisecond}, func() { w.KillEtcd(c) })
		w.run(hold + 10*time.Second)
		w.Start(a)
		w.Await(3, soonEnough)
	})
}

// TestRule3LeaveWhileAnotherIsDown: a person asks for the removal of a healthy
// voter while another is down.
func TestRule3LeaveWhileAnotherIsDown(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		w.Halt(c)
		w.run(10 * time.Second)
		w.OnPoint(func(p Point) Strike {
			if p.Kind == kindMember && strings.HasPrefix(p.Detail, "remove") {
				w.violate("etcd is asked to %s while another voter is down", p.Detail)
			}
			return Strike{}
		})
		changes := w.changed()
		for _, m := range []*machine{b, a} {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
			r, err := a.daemon.Load().manager.Goal(ctx, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Leave, Host: m.ID(), Hold: true}, Within: 5 * time.Second})
			cancel()
			if err == nil && r.Outcome == manager.GoalDone {
				w.violate("%s left while another voter was down", m.name)
			}
		}
		if w.changed() != changes {
			w.violate("the voters were changed")
		}
		w.OnPoint(nil)
		w.Start(c)
		w.Await(3, soonEnough)
	})
}

// TestRule2AFailedStartIsTriedAgain: the first start after a boot fails for a
// reason that passes.
func TestRule2AFailedStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		c := w.Host("c")
		w.Halt(c)
		w.once(func(p Point) bool { return p.Host == "c" && p.Kind == kindSpawn && !p.After }, Strike{Err: errors.New("fork: resource temporarily unavailable")}, nil)
		w.Start(c)
		w.Await(3, 25*time.Second) // before it would count as dead
	})
}
