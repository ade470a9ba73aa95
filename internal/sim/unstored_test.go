package sim

import (
	"context"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// hand hands a person's step to the daemon of a machine.
func (w *World) hand(m *machine, g plan.Goal, within time.Duration) (manager.GoalResult, error) {
	ctx, cancel := context.WithTimeout(w.ctx, within+5*time.Second)
	defer cancel()
	return m.daemon.Load().manager.Goal(ctx, manager.GoalRequest{Goal: g, Within: within})
}

// unstored is a cluster of three with a spare host, whose store answers nobody
// and whose voter c is gone for good.
func (w *World) unstored() {
	w.formed(3, "a", "b", "c", "d")
	for _, m := range w.hosts() {
		if m != w.Host("c") && m != w.Host("d") && !w.votes(m) { // c or d is the spare one
			w.violate("%s does not vote", m.name)
		}
	}
	for _, m := range w.hosts() {
		w.CutStore(m)
	}
}

// gone is a voter that does not lead, and spare the host without a member.
func (w *World) goneAndSpare() (gone, spare *machine) {
	for _, m := range w.hosts() {
		switch {
		case !w.votes(m):
			spare = m
		case m != w.leader() && m != w.raftLeader():
			gone = m
		}
	}
	return gone, spare
}

// TestRule11WithoutTheStore: a person replaces a voter while the store answers
// nobody. The hosts keep the record, a new leader goes by it, and the store
// gets it when it answers again; every change is checked against the disks.
func TestRule11WithoutTheStore(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.unstored()
		gone, spare := w.goneAndSpare()
		w.Leave(gone)
		w.run(40 * time.Second) // until it counts as dead
		changes := w.changed()
		at := w.leader()
		if r, err := w.hand(at, plan.Goal{Kind: plan.Leave, Host: gone.ID()}, 5*time.Second); err != nil || r.Outcome != manager.GoalExpired || w.changed() != changes {
			w.violate("without --no-store: %v %v", r.Outcome, err)
		}
		if r, err := w.hand(at, plan.Goal{Kind: plan.Leave, Host: gone.ID(), NoStore: true}, time.Minute); err != nil || r.Outcome != manager.GoalDone {
			w.violate("leave with --no-store: %v %v %s", r.Outcome, err, r.Decision.Reason)
		}
		w.KillDaemon(at) // what it knew is with the hosts
		w.run(5 * time.Second)
		w.Start(at)
		w.Until("a daemon leads", time.Minute, func() bool { return w.leader() != nil })
		if r, err := w.hand(w.leader(), plan.Goal{Kind: plan.Join, Host: spare.ID(), NoStore: true}, time.Minute); err != nil || r.Outcome != manager.GoalDone {
			w.violate("join with --no-store: %v %v %s", r.Outcome, err, r.Decision.Reason)
		}
		if in := w.recorded(); len(in.Next) != 0 || in.Write > 3 {
			w.violate("the store was written: %+v", in)
		}
		w.Heal()
		w.Await(3, soonEnough)
		if in := w.recorded(); !in.Unstored.IsZero() {
			w.violate("the store has a record that says that it is not in the store")
		}
	})
}

// TestRule11WithoutTheStoreCrashes: the leading daemon dies at each point of
// such a step. Whatever the hosts keep by then is no less than what is so.
func TestRule11WithoutTheStoreCrashes(t *testing.T) {
	t.Parallel()
	for nth := 1; nth <= 24; nth++ {
		inWorld(t, Options{Seed: uint64(nth)}, func(w *World) {
			w.unstored()
			gone, _ := w.goneAndSpare()
			w.Leave(gone)
			w.run(40 * time.Second)
			at, n := w.leader(), 0
			w.OnPoint(func(p Point) Strike {
				if p.Kind != kindSave && p.Kind != kindMember {
					return Strike{}
				}
				if n++; n != nth {
					return Strike{}
				}
				w.OnPoint(nil)
				w.later(0, func() { w.KillDaemon(at) })
				return Strike{}
			})
			_, _ = w.hand(at, plan.Goal{Kind: plan.Leave, Host: gone.ID(), NoStore: true}, 20*time.Second) // it may end with its daemon
			w.OnPoint(nil)
			if at.daemon.Load() == nil {
				w.Start(at)
			}
			w.run(10 * time.Second)
			w.Heal()
			w.Await(3, soonEnough)
		})
	}
}

// TestRule11TwoLeadersWithoutTheStore: the daemons are parted, each side is
// told to do something else without the store, and only one has the promises
// of a quorum.
func TestRule11TwoLeadersWithoutTheStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		inWorld(t, Options{Seed: seed + 1}, func(w *World) {
			w.formed(5, "a", "b", "c", "d", "e")
			for _, m := range w.hosts() {
				w.CutStore(m)
			}
			few := []*machine{w.Host("a"), w.Host("b")}
			many := []*machine{w.Host("c"), w.Host("d"), w.Host("e")}
			w.Split(few, many, daemons)
			w.run(10 * time.Second)
			told := make(chan manager.GoalResult, 2)
			for i, m := range []*machine{few[0], many[0]} {
				victim := []cluster.HostID{"e", "a"}[i]
				go func() {
					r, _ := w.hand(m, plan.Goal{Kind: plan.Leave, Host: victim, NoStore: true, Hold: true}, 10*time.Second)
					told <- r
				}()
			}
			for range 2 {
				if r := <-told; r.Outcome == manager.GoalDone {
					w.violate("%s removed a voter although others were out of its sight", r.Leader)
				}
			}
			w.Heal()
			w.Await(5, soonEnough)
		})
	}
}
