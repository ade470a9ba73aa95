package sim

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Schedules of SAFETY.md, 13 to 17 and 20: new generations.

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

// TestRestoreOntoWipedHosts: nothing is left but the store.
func TestRestoreOntoWipedHosts(t *testing.T) {
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
	for _, when := range []func(*cluster.Intent) bool{written, closed} {
		restoring(t, func(w *World, b string) {
			for _, m := range w.hosts() {
				w.Snapshot(m)
			}
			w.run(10 * time.Second) // so that beats were told
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

// TestRule14Quarantine: no client is served before a majority of the spec is
// there.
func TestRule14Quarantine(t *testing.T) {
	restoring(t, func(w *World, b string) {
		w.OnPoint(func(p Point) Strike {
			if p.Kind == kindCreateData {
				return Strike{Err: errors.New("held up")}
			}
			return Strike{}
		})
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.run(time.Second)
		before := w.Acked()
		w.run(time.Minute)
		if !w.recorded().Quarantined {
			w.violate("the quarantine is lifted with one member of three")
		}
		if w.Acked() != before {
			w.violate("%d writes were acknowledged by one member of three", w.Acked()-before)
		}
		w.OnPoint(nil)
		w.Await(3, soonEnough)
		w.run(5 * time.Second)
		if w.Acked() == before {
			w.violate("nobody is served after the quarantine")
		}
	})
}

// TestRule15NearerSurvivor: recovering from a member that is behind another
// one in sight is refused.
func TestRule15NearerSurvivor(t *testing.T) {
	inWorld(t, Options{}, func(w *World) {
		w.formed(5, "a", "b", "c", "d", "e")
		var rest []*machine
		near := w.Host("e")
		if w.raftLeader() == near {
			near = w.Host("d")
		}
		for _, m := range w.hosts() {
			if m != near {
				rest = append(rest, m)
			}
		}
		w.Split([]*machine{near}, rest, members)
		w.run(10 * time.Second)
		far := rest[0]
		for _, m := range rest[1:] {
			w.Leave(m)
		}
		w.Heal()
		w.run(20 * time.Second)
		name := w.Queue(recoverFrom(near, w.lost()...))
		w.Until("the recovery is answered", time.Minute, func() bool {
			_, ok := w.ended(name)
			return ok || w.recorded().Generation > 1
		})
		if e, _ := w.ended(name); e.Result != "rejected" {
			w.violate("recovering from %s, which is behind %s, ended as %q", near.name, far.name, e.Result)
		}
		had := w.etcd.Extract(far.dir(w.recorded().Token).data)
		w.Queue(recoverFrom(far, w.lost()...))
		for _, n := range []string{"f", "g", "h"} {
			w.Add(n)
		}
		w.Await(5, soonEnough)
		now := w.origin(w.recorded().Token)
		for _, k := range had.Keys() {
			if !now.Has(k) {
				w.violate("the recovery dropped %s, which its survivor had", k)
			}
		}
	})
}

// TestRule17CommandTwice: the objects of a command that was run appear in the
// store again.
func TestRule17CommandTwice(t *testing.T) {
	restoring(t, func(w *World, b string) {
		name := w.Queue(restore(b))
		objects := w.copyOf(name)
		w.Until("it was run", soonEnough, func() bool { e, ok := w.ended(name); return ok && e.Result == "done" })
		w.Await(3, soonEnough)
		w.putBack(w.ctx, objects)
		w.run(30 * time.Second)
		w.Await(3, soonEnough)
		w.only(2)
		w.Queue(restore(b))
		w.generation(3, cluster.IntentFounded)
		w.Await(3, soonEnough)
		if err := w.store.Delete(w.ctx, "control/etcdadm-commands-ended.json"); err != nil { // the intent alone tells
			w.violate("lose how commands ended: %v", err)
		}
		w.putBack(w.ctx, objects)
		w.run(30 * time.Second)
		w.Await(3, soonEnough)
		w.only(3)
	})
}

// TestRule17TwoAtOnce: both are run, one after the other.
func TestRule17TwoAtOnce(t *testing.T) {
	restoring(t, func(w *World, b string) {
		later := w.Backup()
		w.Queue(restore(b))
		w.Queue(restore(later))
		w.generation(3, cluster.IntentFounded)
		w.Await(3, soonEnough)
		w.only(3)
		if w.recorded().Source.Backup != later {
			w.violate("the last generation is made from %s", w.recorded().Source.Backup)
		}
	})
}

// TestRule13BadBackups: nothing that runs is touched for a backup that is
// missing or damaged.
func TestRule13BadBackups(t *testing.T) {
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

// TestRule18MarkerGoesBack: the store has the intent of before the restore
// again, or none, while the new generation is being founded.
func TestRule18MarkerGoesBack(t *testing.T) {
	for _, lost := range []bool{true, false} {
		restoring(t, func(w *World, b string) {
			old, _, err := blob.ReadAll(w.ctx, w.store, intentKey, 1<<20)
			if err != nil {
				w.violate("read the intent: %v", err)
			}
			w.atIntent(closed, Strike{}, func(*machine) {
				w.later(3*time.Millisecond, func() {
					if lost {
						err = w.store.Delete(w.ctx, intentKey)
					} else {
						_, err = blob.PutBytes(w.ctx, w.store, intentKey, old, "")
					}
					if err != nil {
						w.violate("take the intent back: %v", err)
					}
				})
			})
			w.Queue(restore(b))
			w.generation(2, cluster.IntentFounded)
			w.Await(3, soonEnough)
			w.only(2)
		})
	}
}

// TestRule19TriedOutLate: the store answers nobody when the one daemon that is
// left starts, and later does. Without a quorum it looks at the store often.
func TestRule19TriedOutLate(t *testing.T) {
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		for _, v := range w.lastVoters(2) {
			w.Leave(v)
		}
		left := w.survivors()[0]
		w.KillDaemon(left)
		w.CutStore(left)
		w.Start(left)
		w.run(30 * time.Second)
		w.Heal()
		w.Queue(recoverFrom(left, w.lost()...))
		w.Add("d")
		w.Add("e")
		w.Await(3, soonEnough)
	})
}
