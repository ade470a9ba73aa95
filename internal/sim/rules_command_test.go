package sim

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules about what a command carries, and about what goes on beside it
// (SAFETY.md, 13 and 17; docs/adr/009-generations.md).

// restoreWith is a restore that asks for a member count, too.
func restoreWith(backup string, members int) order {
	return order{kind: cluster.CommandRestore, backup: backup, members: members}
}

// asksFor wants the spec in the store to have a count.
func (w *World) asksFor(n int) {
	if got := w.wanted().MemberCount; got != n {
		w.violate("the spec asks for %d members, and %d are wanted", got, n)
	}
}

// TestRule17CountOutlivesItsLeader: who leads ends at each of the writes that the
// count goes through, just before it and just after it.
func TestRule17CountOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	generation := func(in *cluster.Intent) bool { return in != nil && in.Generation == 2 }
	for name, fits := range map[string]func(w *World, p Point) bool{
		"the intent":           func(w *World, p Point) bool { return p.Detail == intentKey && p.After && generation(w.recorded()) },
		"before the spec":      func(_ *World, p Point) bool { return p.Detail == specKey && !p.After },
		"the spec":             func(_ *World, p Point) bool { return p.Detail == specKey && p.After },
		"before it is noted":   func(w *World, p Point) bool { return p.Detail == intentKey && !p.After && w.askedBy != "" },
		"that the spec has it": func(w *World, p Point) bool { return p.Detail == intentKey && p.After && w.askedBy != "" },
		"that it is founded now": func(w *World, p Point) bool {
			in := w.recorded()
			return p.Detail == intentKey && p.After && generation(in) && in.State == cluster.IntentFounded
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 5} {
				inWorld(t, Options{Seed: uint64(n)}, func(w *World) {
					w.formed(3, "a", "b", "c", "d", "e")
					w.run(2 * time.Second)
					b := w.Backup()
					struck := false
					w.OnPoint(func(p Point) Strike {
						if p.Kind != kindStorePut || struck || !fits(w, p) {
							return Strike{}
						}
						struck = true
						m := w.Host(string(p.Host))
						w.later(20*time.Second, func() { w.Start(m) })
						return Strike{Crash: true}
					})
					w.Queue(restoreWith(b, n))
					w.generation(2, cluster.IntentFounded)
					w.Await(n, ConvergeWithin)
					w.only(2)
					w.asksFor(n)
					if !struck {
						w.violate("nothing was struck, so this shows nothing")
					}
				})
			}
		})
	}
}

// TestRule17APersonHasTheLastWord: the leader is paused just before it writes the
// count into the spec, a person writes another one, and the leader goes on.
func TestRule17APersonHasTheLastWord(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{3 * time.Second, 25 * time.Second} {
		inWorld(t, Options{}, func(w *World) {
			w.formed(3, "a", "b", "c", "d", "e")
			w.run(2 * time.Second)
			b := w.Backup()
			w.once(func(p Point) bool { return p.Kind == kindStorePut && p.Detail == specKey && !p.After }, Strike{Pause: pause}, func() {
				w.later(time.Second, func() { w.Spec(spec(5)) })
			})
			w.Queue(restoreWith(b, 1))
			w.generation(2, cluster.IntentFounded)
			w.run(pause + 2*time.Second)
			w.Await(5, ConvergeWithin)
			w.asksFor(5)
		})
	}
}

// TestRule17RefusedCountChangesNothing: of a restore that is refused, the count
// is not taken either.
func TestRule17RefusedCountChangesNothing(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		w.Damage(b)
		name := w.Queue(restoreWith(b, 1))
		w.Until("it was rejected", soonEnough, func() bool { e, ok := w.ended(name); return ok && e.Result == "rejected" })
		w.Await(3, soonEnough)
		w.only(1)
		w.asksFor(3)
	})
}

// slowly is a restore whose source is long in the making.
func slowly(t *testing.T, takes time.Duration, schedule func(w *World, backup string)) {
	restoring(t, func(w *World, b string) {
		w.staging.Store(int64(takes))
		w.Queue(restore(b))
		w.run(10 * time.Second)
		schedule(w, b)
	})
}

// TestRule13RepairWhileStaging: a voter is gone for good while the source is
// made ready. It is replaced then, and the one that took its place is asked for
// its promise.
func TestRule13RepairWhileStaging(t *testing.T) {
	t.Parallel()
	slowly(t, 2*time.Minute, func(w *World, _ string) {
		gone := w.Host("c")
		w.Leave(gone)
		w.Add("d")
		w.Until("its place is taken", 3*time.Minute, func() bool {
			in := w.recorded()
			return in.Generation == 1 && len(in.Next) == 0 && len(in.Voters) == 3 &&
				!slices.ContainsFunc(in.Voters, func(v cluster.Voter) bool { return v.Host == gone.ID() })
		})
		w.generation(2, cluster.IntentFounding)
		w.Await(3, ConvergeWithin)
		w.only(2)
	})
}

// TestRule13PromisersLeaveWhileStaging: enough hosts could promise when the
// source began to be made ready, and too few when it is. Nothing is written
// before they are back.
func TestRule13PromisersLeaveWhileStaging(t *testing.T) {
	t.Parallel()
	slowly(t, 2*time.Minute, func(w *World, _ string) {
		var away []*machine
		for _, m := range w.hosts() {
			if s, _ := m.state(); s.Staged == nil {
				away = append(away, m)
			}
		}
		for _, m := range away {
			w.Halt(m)
		}
		w.run(5 * time.Minute)
		w.only(1)
		for _, m := range away {
			w.Start(m)
		}
		w.generation(2, cluster.IntentFounded)
		w.Await(3, ConvergeWithin)
	})
}

// TestRule13NameUsedAgain: a command is deleted while its source is made ready,
// and another one is put under its name.
func TestRule13NameUsedAgain(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		other := w.Backup()
		w.staging.Store(int64(time.Minute))
		name := w.Queue(restore(b))
		w.run(10 * time.Second)
		objects := w.copyOf(name)
		for key, data := range objects {
			objects[key] = []byte(string(data[:len(data)-len(b)-3]) + other + `"}}`)
		}
		w.putBack(w.ctx, objects)
		w.mu.Lock()
		w.orders[name] = restore(other)
		w.mu.Unlock()
		w.staging.Store(0)
		w.generation(2, cluster.IntentFounded)
		w.Await(3, ConvergeWithin)
		if in := w.recorded(); in.Source.Backup != other {
			w.violate("generation 2 is made from %s, and the command asks for %s", in.Source.Backup, other)
		}
	})
}
