package sim

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/internal/adoption"
)

// besideForeign is a cluster of three that something else runs on x1 to x3, under load,
// and daemons of ours on other hosts, which know of nothing.
func (w *World) besideForeign(names ...string) {
	var theirs []*machine
	for _, name := range []string{"x1", "x2", "x3"} {
		m := w.Place(name)
		m.elsewhere = true
		theirs = append(theirs, m)
	}
	w.Found(spec(3).EtcdVersion, theirs...)
	for _, name := range names {
		w.Add(name)
	}
	w.Load(100 * time.Millisecond)
	w.run(5 * time.Second)
}

// joined runs adopt --join on one host after the other until the cluster is ours, and
// takes away what ran the members that were removed.
func (w *World) joined(names ...string) {
	for at := 0; !w.adopted() && at < 60; {
		err := w.adopts(w.Host(names[at%len(names)]), len(names), 20*time.Second)
		if err == nil || errors.Is(err, adoption.ErrRefused) {
			at++
		}
		if errors.Is(err, errDead) {
			w.run(20 * time.Second) // daemons go on by what lies in the store
		}
		w.run(time.Second)
	}
	for _, name := range []string{"x1", "x2", "x3"} {
		w.StopTheirs(w.Host(name), true)
	}
	w.Await(len(names), soonEnough)
}

// TestJoinBesideDaemons: a cluster is joined by hosts whose daemons run already, and
// the command is killed at one of its calls. No daemon of ours founds a cluster.
func TestJoinBesideDaemons(t *testing.T) {
	t.Parallel()
	for nth := 0; nth <= 24; nth += 2 {
		inWorld(t, Options{Seed: uint64(nth + 1)}, func(w *World) {
			w.besideForeign("a", "b", "c")
			left := nth
			w.OnPoint(func(p Point) Strike {
				d := w.Host("a").typing.Load()
				if d == nil || p.Host != "a" || p.Kind != kindStorePut && p.Kind != kindSave && p.Kind != kindMember || left == 0 {
					return Strike{}
				}
				if left--; left > 0 {
					return Strike{}
				}
				w.later(0, d.crash)
				return Strike{Pause: 30 * time.Second}
			})
			w.joined("a", "b", "c")
		})
	}
}

// TestJoinerGoesBack: the disk of a host that joins goes back to before its learner's first
// start, which nothing of ours remembers. The learner, which never voted, does not get on
// without its log; the command tells a person how to get out, and nothing is lost.
func TestJoinerGoesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.besideForeign("a", "b", "c")
		a, g := w.Host("a"), &generator{w: w}
		w.Halt(a)
		w.adopts(a, 3, 10*time.Second)
		w.Snapshot(a)
		w.Start(a)
		w.awaitServing(a, soonEnough)
		w.run(5 * time.Second)
		w.Halt(a)
		if !w.RollBack(a, 0) {
			w.violate("there was no snapshot")
		}
		w.Start(a)
		var told error
		for began := time.Now(); time.Since(began) < soonEnough && w.changed() == 0; w.run(time.Second) {
			if told = w.adopts(a, 3, 10*time.Second); told != nil {
				g.heed(a, told.Error())
			}
		}
		if w.changed() == 0 {
			w.violate("a does not vote; it was told: %v", told)
			return
		}
		w.joined("a", "b", "c")
	})
}

// TestForeignInPlace: host after host gets our daemon, one of them for a while beside
// what ran it, and one is given back in between.
func TestForeignInPlace(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		var all []*machine
		for _, name := range []string{"a", "b", "c"} {
			m := w.Place(name)
			m.without.Store(true)
			all = append(all, m)
		}
		w.Mark(spec(3))
		w.Found(spec(3).EtcdVersion, all...)
		w.Load(100 * time.Millisecond)
		w.run(5 * time.Second)
		g := &generator{w: w}
		g.install(all[0])
		w.run(10 * time.Second)
		if s, _ := all[0].state(); s.Launch != nil {
			w.violate("%s has a record of a member that something else runs", all[0].name)
		}
		for i, m := range all {
			w.StopTheirs(m, i > 0)
			g.install(m)
			w.awaitServing(m, time.Minute)
			if i == 1 {
				g.goBackToTheirs(m)
				w.awaitServing(m, time.Minute)
			}
		}
		w.Await(3, soonEnough)
		if n := w.changed(); n > 0 {
			w.violate("the voters changed %d times", n)
		}
	})
}
