package sim

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Schedules of SAFETY.md, 14 to 19, as far as new generations go.

// TestRule14Quarantine: no client is served before a majority of the spec is
// there.
func TestRule14Quarantine(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// TestRule17TwoAtOnce: the first is run. The second was queued for what there was before
// that, and is not, until it is said again.
func TestRule17TwoAtOnce(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		later := w.Backup()
		w.Queue(restore(b))
		second := w.Queue(restore(later))
		w.Until("the second one was told", soonEnough, func() bool { e, ok := w.ended(second); return ok && e.Result == "expired" })
		w.only(2)
		w.Queue(restore(later))
		w.generation(3, cluster.IntentFounded)
		w.Await(3, soonEnough)
		w.only(3)
		if w.recorded().Source.Backup != later {
			w.violate("the last generation is made from %s", w.recorded().Source.Backup)
		}
	})
}

// TestRule18MarkerGoesBack: the store has the intent of before the restore
// again, or none, while the new generation is being founded.
func TestRule18MarkerGoesBack(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
