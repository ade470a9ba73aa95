package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of SAFETY.md, B: identity and amnesia.

// TestRule8FounderWipedRightAfterFounding: it must not "finish the intent" and
// get its old member ID back; the others hold acknowledged writes.
func TestRule8FounderWipedRightAfterFounding(t *testing.T) {
	t.Parallel()
	for _, state := range []cluster.IntentState{cluster.IntentFounding, cluster.IntentFounded} {
		t.Run(string(state), func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				for _, n := range []string{"a", "b", "c"} {
					w.Add(n)
				}
				w.Load(20 * time.Millisecond)
				w.run(2 * time.Second)
				if state == cluster.IntentFounding { // and stays in that state
					w.OnPoint(func(p Point) Strike {
						if p.Kind == kindStorePut && p.Detail == intentKey && w.serves() {
							return Strike{Err: errors.New("held up")}
						}
						return Strike{}
					})
				}
				w.Spec(spec(3))
				c := w.Host("c")
				w.Until("c votes", soonEnough, func() bool {
					in := w.recorded()
					return in != nil && in.State == state && w.serves() && w.votes(c) && w.Acked() > 5
				})
				w.Halt(c)
				w.Wipe(c)
				// etcd's own check of a founder asks the others, if it reaches them.
				w.Split([]*machine{c}, []*machine{w.Host("a"), w.Host("b")}, members)
				w.Start(c)
				w.run(10 * time.Second)
				w.OnPoint(nil)
				w.run(10 * time.Second)
				w.Heal()
				w.Await(3, soonEnough)
			})
		})
	}
}

// TestRule8DataWipedUnderTheState: the state says started, and the log is gone.
func TestRule8DataWipedUnderTheState(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		c := w.Host("c")
		w.Halt(c)
		w.WipeData(c)
		w.Start(c)
		w.Await(3, soonEnough)
		// And while the daemon runs and has only to restart its member.
		b := w.Host("b")
		w.WipeData(b)
		w.KillEtcd(b)
		w.Await(3, soonEnough)
	})
}

// TestRule8DataWipedUnderTheMember: the member serves on from memory. It is
// replaced before it ends, and its host joins anew, without anybody's help.
func TestRule8DataWipedUnderTheMember(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(3, "a", "b", "c")
			m := w.raftLeader()
			if !leads {
				m = w.Host("a")
				if m == w.raftLeader() {
					m = w.Host("b")
				}
			}
			before, _ := m.state()
			w.WipeData(m)
			w.Until("it was replaced", soonEnough, func() bool {
				s, _ := m.state()
				return s.Local.Member != before.Local.Member && s.Local.State == cluster.MemberStarted
			})
			w.Await(3, soonEnough)
		})
	}
}

// TestRule8PreparationOfALaterDisk: a learner's host is wiped after the add
// and prepared anew; the member that was added before is not its own.
func TestRule8PreparationOfALaterDisk(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a", "b")
		struck := 0
		w.OnPoint(func(p Point) Strike {
			if p.Host == "b" && p.Kind == kindSave && p.After && strings.Contains(p.Detail, "starting") && struck < 3 {
				struck++
				w.later(time.Millisecond, func() {
					w.Halt(w.Host("b"))
					w.Wipe(w.Host("b"))
					w.Start(w.Host("b"))
				})
			}
			return Strike{}
		})
		w.Spec(spec(3))
		w.await(2, 3, soonEnough)
		if struck == 0 {
			w.violate("the schedule never struck")
		}
	})
}

// TestRule9RolledBackDisk: c was part of the quorum of writes that its older
// disk does not have; with b, which does not have them either, it would be a
// majority without them.
func TestRule9RolledBackDisk(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		w.Snapshot(c)
		w.Split([]*machine{b}, []*machine{a, c}, members)
		w.run(40 * time.Second)
		w.Halt(c)
		if !w.RollBack(c, 30*time.Second) {
			w.violate("there was no snapshot")
		}
		w.Heal()
		w.Split([]*machine{a}, []*machine{b, c}, members)
		w.Start(c)
		w.run(20 * time.Second)
		w.Heal()
		w.Await(3, soonEnough)
	})
}

// TestRule9RolledBackDiskBeyondAMove: the same while the control records of c and of the others are two, as where c's disk is one of before
// a move: they refuse each other, and tell all the same what they remember. Also of a time when they did refuse each other.
func TestRule9RolledBackDiskBeyondAMove(t *testing.T) {
	t.Parallel()
	for _, since := range []string{"before the image ran", "after the image was put back"} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(3, "a", "b", "c")
			a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
			w.Snapshot(c)
			w.Split([]*machine{b}, []*machine{a, c}, members)
			if since == "before the image ran" {
				c.record.Store(1)
				w.KillDaemon(c) // its epoch is another one from here on
				w.Start(c)
			}
			w.run(40 * time.Second)
			w.Halt(c)
			if !w.RollBack(c, 30*time.Second) {
				w.violate("there was no snapshot")
			}
			c.record.Store(1)
			w.Heal()
			w.Split([]*machine{a}, []*machine{b, c}, members)
			w.Start(c)
			w.run(20 * time.Second)
			w.Heal()
			c.record.Store(0)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule10DaemonKilledAroundSpawn: the process is found, whether the daemon
// died before or after it.
func TestRule10DaemonKilledAroundSpawn(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(1, "a", "b", "c")
			w.OnPoint(func(p Point) Strike {
				if p.Kind != kindSpawn || p.After != after {
					return Strike{}
				}
				w.OnPoint(nil)
				m := w.Host(string(p.Host))
				w.later(300*time.Millisecond, func() { w.Start(m) })
				return Strike{Crash: true}
			})
			w.Spec(spec(3))
			w.Await(3, soonEnough)
		})
	}
}

// TestRule10EtcdOutlivesItsDaemon: no restart of a daemon restarts a member.
func TestRule10EtcdOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		for _, m := range w.hosts() {
			pids := m.starts()
			w.KillDaemon(m)
			w.run(2 * time.Second)
			w.Start(m)
			w.Await(3, time.Minute)
			w.StopDaemon(m)
			w.run(2 * time.Second)
			w.Start(m)
			w.Await(3, time.Minute)
			if m.starts() != pids {
				w.violate("the member of %s was restarted with its daemon", m.name)
			}
		}
	})
}

// TestRule10SilentAfterTheWholeClusterRestarts: daemons come back to members
// that run without a quorum and answer nothing; none is doubled.
func TestRule10SilentMembers(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		a, b, c := w.Host("a"), w.Host("b"), w.Host("c")
		w.Halt(b)
		w.Halt(c)
		w.KillEtcd(a)
		w.run(10 * time.Second) // a's member runs again, without a quorum
		w.KillDaemon(a)
		w.Start(a)
		before := a.starts()
		w.run(10 * time.Second)
		if a.starts() != before {
			w.violate("a silent member was restarted at once")
		}
		// Rule 2: without a quorum it is restarted in place, after a minute.
		w.run(80 * time.Second)
		if a.starts() != before+1 {
			w.violate("a silent member was restarted %d times in a minute and a half", a.starts()-before)
		}
		w.Start(b)
		w.Start(c)
		w.Await(3, soonEnough)
	})
}

// TestRule8OldListGivesAnOldMemberID: etcd takes a joiner's member ID from the
// list of whoever answers first. A voter that is cut from the rest, and that
// the joiner reaches, still lists the joiner's former self.
func TestRule8OldListGivesAnOldMemberID(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e")
		a, b := w.Host("a"), w.Host("b")
		w.Split([]*machine{a}, []*machine{w.Host("c"), w.Host("d"), w.Host("e")}, members)
		w.run(3 * time.Second)
		w.Halt(b)
		w.Wipe(b)
		w.Start(b)
		w.run(2 * time.Minute)
		w.Heal()
		w.Await(5, soonEnough)
	})
}

// TestRule8OldListAfterTheLook: a voter that was off when the joiner's start was
// decided comes back before the joiner asks it, still without what happened
// meanwhile: it lists a learner that was added for the joiner's host, never
// started, and removed. The joiner's etcd takes that one's ID. Its host must not
// leave it running or record it as started, and it joins in the end.
func TestRule8OldListAfterTheLook(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e", "f")
		a, f := w.Host("a"), w.Host("f")
		rest := []*machine{w.Host("b"), w.Host("c"), w.Host("d"), w.Host("e")}
		lose := true
		w.OnLetter(func(l Letter) *Post {
			if lose && l.Kind == kindApply && l.Apply.Op.Kind == cluster.OpStart && l.To == "f" {
				return &Post{Lose: true}
			}
			return nil
		})
		w.once(func(p Point) bool { return lose && p.Host == "f" && p.Kind == kindSpawn }, Strike{Err: errors.New("held up")}, nil)
		w.Spec(spec(7))
		w.Until("a lists the learner", soonEnough, func() bool { _, l := w.voters(); return len(l) == 1 && w.lists(a, l[0].ID) })
		_, l := w.voters()
		former := l[0].ID
		w.Halt(a)
		w.Split([]*machine{a}, rest, members)
		w.Halt(f)
		w.Wipe(f)
		lose = false
		took := false
		w.OnPoint(func(p Point) Strike {
			if p.Host != "f" || p.Kind != kindSpawn || p.After || took {
				return Strike{}
			}
			took = true
			w.Start(a)
			return Strike{Pause: 3 * time.Second}
		})
		w.Start(f)
		w.Until("f takes the former ID", soonEnough, func() bool {
			s, _ := f.state()
			return s.Local.Took == former && s.Local.State == cluster.MemberRemoved
		})
		w.run(time.Second)
		if p := f.running(); p != nil {
			w.violate("f runs on as member %s", former)
		}
		w.Heal()
		w.await(6, 7, soonEnough)
	})
}

// lists reports whether the member of a machine lists another one, as far as it
// has come.
func (w *World) lists(m *machine, id cluster.MemberID) bool {
	s, ok := w.seenOn(m)
	return ok && slices.ContainsFunc(s.Members, func(x cluster.Member) bool { return x.ID == id })
}

// TestGrowsPastAMemberThatMisjudges: raft's leader refuses an addition for good, by connections that it counts as broken, and another
// voter's member takes it.
func TestGrowsPastAMemberThatMisjudges(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim36, 3, "a", "b", "c", "d", "e")
		w.etcd.Misjudge(w.raftLeader().ID())
		w.Spec(specOf(5, sim36))
		w.Await(5, ConvergeWithin)
	})
}
