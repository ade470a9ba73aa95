package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of SAFETY.md, 13: new generations, and who has to promise
// before one begins.

func restore(backup string, lost ...cluster.HostID) order {
	return order{kind: cluster.CommandRestore, backup: backup, lost: lost}
}

func recoverFrom(m *machine, lost ...cluster.HostID) order {
	return order{kind: cluster.CommandRecover, host: m.ID(), lost: lost}
}

// generation waits until a generation is written down.
func (w *World) generation(n uint64, state cluster.IntentState) {
	w.Until("the generation is written down", soonEnough, func() bool {
		in := w.recorded()
		return in != nil && (in.Generation > n || in.Generation == n && (state == "" || in.State == state))
	})
}

// TestRestore goes back to a backup, and to what that dropped.
func TestRestore(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		w.run(2 * time.Second)
		b := w.Backup()
		w.run(5 * time.Second)
		before := w.Acked()
		w.Queue(restore(b))
		w.Await(3, soonEnough)
		if in := w.recorded(); in.Generation != 2 || in.Source.Kind != cluster.SourceBackup {
			w.violate("generation %d is made from %q", in.Generation, in.Source.Kind)
		}
		w.run(2 * time.Second)
		if w.Acked() <= before {
			w.violate("nobody is served after the restore")
		}
		aside := w.aside(w.Host("a"))
		if aside == "" {
			w.violate("host a set nothing aside")
			return
		}
		w.Queue(order{kind: cluster.CommandUndo, host: "a", dir: aside})
		w.Await(3, soonEnough)
		if in := w.recorded(); in.Generation != 3 || in.Source.Kind != cluster.SourceSetAside {
			w.violate("generation %d is made from %q", in.Generation, in.Source.Kind)
		}
	})
}

// TestRule26UndoesWhatWasSeen: two people go back at the same time. The second one did
// not see what the first has made, and is told.
func TestRule26UndoesWhatWasSeen(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.Queue(restore(b))
		w.Await(3, soonEnough)
		w.run(2 * time.Second)
		var names []string
		for _, host := range []string{"a", "b"} {
			names = append(names, w.Queue(order{kind: cluster.CommandUndo, host: cluster.HostID(host), dir: w.aside(w.Host(host))}))
			w.apart()
		}
		if o, _ := w.ordered(names[0]); o.seen.Generation != 2 || o.seen.Revision == 0 || o.seen.Log == (cluster.Progress{}) || o.seen.Furthest.Before(o.seen.Log) {
			w.violate("the person saw %+v", o.seen)
		}
		w.Until("the second one was told", soonEnough, func() bool { _, ok := w.ended(names[1]); return ok })
		for i, want := range []string{"done", "expired"} {
			if e, _ := w.ended(names[i]); e.Result != want {
				w.violate("undo %d ended as %q: %s", i+1, e.Result, e.Reason)
			}
		}
		w.Await(3, soonEnough)
		w.only(3)
	})
}

// TestRestoreOntoWipedHosts: nothing is left but the store.
func TestRestoreOntoWipedHosts(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		b := w.Backup()
		for _, m := range w.hosts() {
			w.Halt(m)
			w.Wipe(m)
		}
		for _, m := range w.hosts() {
			w.Start(m)
			w.apart()
		}
		w.run(20 * time.Second)
		w.Queue(restore(b))
		w.Await(3, soonEnough)
	})
}

// TestRecover: a quorum is gone for good.
func TestRecover(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e")
		w.run(2 * time.Second)
		for _, name := range []string{"b", "c", "e"} {
			w.Leave(w.Host(name))
		}
		w.run(20 * time.Second)
		from := w.survivors()
		w.Queue(recoverFrom(from[0], w.lost()...))
		w.generation(2, cluster.IntentFounded)
		w.run(20 * time.Second)
		if in := w.recorded(); !in.Quarantined {
			w.violate("the quarantine was lifted with two of five members")
		}
		w.Add("f")
		w.Add("g")
		w.Add("h")
		w.Await(5, soonEnough)
		if in := w.recorded(); in.Generation != 2 || in.Source.Kind != cluster.SourceSurvivor {
			w.violate("generation %d is made from %q", in.Generation, in.Source.Kind)
		}
	})
}

// restoring is a cluster of three on a, b and c, with a backup and writes after
// it, whose restore is queued when the schedule is ready.
func restoring(t *testing.T, schedule func(w *World, backup string)) {
	for seed := range uint64(3) {
		inWorld(t, Options{Seed: seed + 1}, func(w *World) {
			w.formed(3, "a", "b", "c")
			w.run(2 * time.Second)
			b := w.Backup()
			w.run(2 * time.Second)
			schedule(w, b)
		})
	}
}

// atIntent finds the write of the intent with which a generation comes to a
// state, before or after it.
func (w *World) atIntent(fits func(in *cluster.Intent) bool, strike Strike, then func(m *machine)) {
	w.OnPoint(func(p Point) Strike {
		in := w.recorded()
		if p.Kind != kindStorePut || p.Detail != intentKey || !p.After || in == nil || !fits(in) {
			return Strike{}
		}
		w.OnPoint(nil)
		if then != nil {
			then(w.Host(string(p.Host)))
		}
		return strike
	})
}

func closed(in *cluster.Intent) bool { return in.Generation == 2 && in.History[0].Closed }

func written(in *cluster.Intent) bool { return in.Generation == 2 && !in.History[0].Closed }

// only wants the generation that serves in the end.
func (w *World) only(generation uint64) {
	if in := w.recorded(); in.Generation != generation {
		w.violate("the store has generation %d, and %d was to be the last", in.Generation, generation)
	}
}

// TestRule13TwoLeadersOneCommand: a leader is paused just before it writes the
// intent of what lies ready, another one does it, and the first goes on.
func TestRule13TwoLeadersOneCommand(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.once(func(p Point) bool { return p.Kind == kindStorePut && p.Detail == intentKey && !p.After },
			Strike{Pause: 25 * time.Second}, nil)
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(30 * time.Second)
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRule13LeaderDiesWithTheIntent: nobody knows that it was written but the
// store.
func TestRule13LeaderDiesWithTheIntent(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.atIntent(written, Strike{Crash: true}, func(m *machine) { w.later(40*time.Second, func() { w.Start(m) }) })
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRule13FounderWiped: the founder loses what it made ready, once the
// intent names it, or once the generation before is closed. The command makes
// a further generation.
func TestRule13FounderWiped(t *testing.T) {
	t.Parallel()
	for _, when := range []func(*cluster.Intent) bool{written, closed} {
		restoring(t, func(w *World, b string) {
			w.atIntent(when, Strike{}, func(*machine) {
				f := w.Host(string(w.recorded().Founders[0].Host))
				w.later(0, func() {
					w.Halt(f)
					w.Wipe(f)
					w.later(5*time.Second, func() { w.Start(f) })
				})
			})
			w.Queue(restore(b))
			w.generation(3, cluster.IntentFounded)
			w.Await(3, soonEnough)
			w.only(3)
		})
	}
}

// TestRule13FounderRolledBack: its disk goes back to before the restore, with
// the promise and with what lay ready.
func TestRule13FounderRolledBack(t *testing.T) {
	t.Parallel()
	for _, when := range []func(*cluster.Intent) bool{written, closed} {
		restoring(t, func(w *World, b string) {
			for _, m := range w.hosts() {
				w.Snapshot(m)
			}
			w.run(10 * time.Second) // so that epochs were told
			w.atIntent(when, Strike{}, func(*machine) {
				f := w.Host(string(w.recorded().Founders[0].Host))
				w.later(0, func() {
					w.Halt(f)
					w.RollBack(f, 0)
					w.later(3*time.Second, func() { w.Start(f) })
				})
			})
			w.Queue(restore(b))
			w.generation(3, cluster.IntentFounded)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule13PromiseLostWithADisk: a host that promised goes back to before that
// and is cut off from all who remember; its member runs alone.
func TestRule13PromiseLostWithADisk(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		c := w.Host("c")
		w.Snapshot(c)
		w.run(10 * time.Second)
		w.atIntent(closed, Strike{}, func(*machine) {
			w.later(0, func() {
				w.Halt(c)
				w.RollBack(c, 0)
				w.Split([]*machine{c}, []*machine{w.Host("a"), w.Host("b")}, daemons)
				w.CutStore(c)
				w.Start(c)
			})
		})
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(20 * time.Second)
		if c.running() == nil {
			w.violate("the member of the rolled-back host does not even run, so this shows nothing")
		}
		w.Heal()
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRule13LateMemberInAMinority: a member of the old generation whose daemon
// hears nothing runs on, is asked by clients, and then learns of it all.
func TestRule13LateMemberInAMinority(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		c := w.Host("c")
		if w.leader() == c {
			c = w.Host("b")
		}
		for _, m := range w.hosts() {
			if m != c {
				w.Split([]*machine{c}, []*machine{m}, daemons)
			}
		}
		w.CutStore(c)
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(20 * time.Second)
		if s, ok := w.seenOn(c); !ok || s.Cluster == w.recorded().Cluster {
			w.violate("the late member does not run, so this shows nothing")
		}
		w.Heal()
		w.Await(3, soonEnough)
		w.only(2)
		if w.aside(c) == "" {
			w.violate("the late host has set nothing aside")
		}
	})
}

// TestRule13HostComesBackLate: it was off during the restore, with data of the
// generation that was closed.
func TestRule13HostComesBackLate(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		c := w.Host("c")
		w.Halt(c)
		w.run(15 * time.Second)
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(5 * time.Second)
		w.Start(c)
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRule13TooFewPromises: one of three hosts is in sight. Nothing is written
// until a person names a second one, which really is gone.
func TestRule13TooFewPromises(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.Leave(w.Host("b"))
		c := w.Host("c")
		w.KillDaemon(c) // its etcd runs on
		name := w.Queue(restore(b))
		w.run(time.Minute)
		w.only(1)
		w.Queue(restore(b, "b"))
		w.generation(2, cluster.IntentFounding)
		w.run(30 * time.Second)
		w.Start(c)
		w.Add("d")
		w.Await(3, soonEnough)
		w.only(2)
		if e, ok := w.ended(name); !ok || e.Result != "rejected" {
			w.violate("the command that was said again ended as %v", e.Result)
		}
	})
}

// TestRule13ClosedByAStaleLeader: a leader has gathered the promises and is
// paused just before it writes them down.
func TestRule13ClosedByAStaleLeader(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.once(func(p Point) bool {
			in := w.recorded()
			return p.Kind == kindStorePut && p.Detail == intentKey && !p.After && in != nil && in.Generation == 2
		}, Strike{Pause: 25 * time.Second}, nil)
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(30 * time.Second)
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRule13BadBackups: nothing that runs is touched for a backup that is
// missing or damaged.
func TestRule13BadBackups(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		starts := w.Host("a").starts() + w.Host("b").starts() + w.Host("c").starts()
		w.Damage(b)
		for _, o := range []order{restore(b), restore("2000-01-01T00:00:00Z-000000")} {
			name := w.Queue(o)
			w.Until("it was rejected", soonEnough, func() bool { e, ok := w.ended(name); return ok && e.Result == "rejected" })
		}
		w.Await(3, soonEnough)
		w.only(1)
		if n := w.Host("a").starts() + w.Host("b").starts() + w.Host("c").starts(); n != starts {
			w.violate("members were started for it")
		}
	})
}
