package sim

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/control"
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

// toJoin marks the store as one whose hosts are to join a cluster, as the operator does before it makes the first of them.
func (w *World) toJoin() {
	if err := control.New(w.store, clusterName).MarkToJoin(w.ctx, time.Now()); err != nil {
		w.violate("mark the store: %v", err)
	}
}

// tempted has a person ask for all that makes a generation, with a backup of the cluster that is to be joined at hand.
func (w *World) tempted() (commands []string) {
	a := w.Host("a")
	d := w.command(a)
	b, err := d.backUp(w.ctx, w.Host("x1").ID(), w.foreign.version, "by hand")
	if err != nil {
		w.violate("back up: %v", err)
	}
	a.typing.CompareAndSwap(d, nil)
	d.end()
	for _, o := range []order{restore(b.Name), recoverFrom(a), restore(b.Name, "b")} {
		commands = append(commands, w.Queue(o))
		w.apart()
	}
	return commands
}

// made says what was made of a generation while the cluster is to be joined, and of members that are not in it.
func (w *World) made(when string) {
	if in := w.recorded(); in != nil {
		w.violate("%s, generation %d was made from %q", when, in.Generation, in.Source.Kind)
	}
	for _, m := range w.hosts() {
		s, _ := m.state()
		if p := m.running(); p != nil && !m.elsewhere && s.Local.Cluster != w.foreign.id {
			w.violate("%s, host %s runs member %s of cluster %s", when, m.name, s.Local.Member, s.Local.Cluster)
		}
	}
}

// TestRule12NothingBesideAClusterToJoin: in the face of the marker that says so no daemon founds, restores or recovers: before a host
// has joined and after, whatever spec and commands there are; also a newcomer, and one that has lost its volume. The commands end
// with the record, and none of them is run.
func TestRule12NothingBesideAClusterToJoin(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		inWorld(t, Options{Seed: seed + 1}, func(w *World) {
			w.besideForeign("a", "b", "c")
			w.toJoin()
			w.Spec(spec(3))
			commands := w.tempted()
			w.Halt(w.Host("b"))
			w.Wipe(w.Host("b"))
			w.Start(w.Host("b"))
			w.Add("d")
			w.run(4 * time.Minute)
			w.made("before a host has joined")
			for tries := 0; w.changed() == 0 && tries < 20; tries++ {
				if err := w.adopts(w.Host("a"), 3, 20*time.Second); errors.Is(err, adoption.ErrRefused) {
					w.violate("a does not join: %v", err)
				}
				w.run(time.Second)
			}
			commands = append(commands, w.tempted()...)
			w.Halt(w.Host("c"))
			w.Wipe(w.Host("c"))
			w.Start(w.Host("c"))
			w.run(4 * time.Minute)
			w.made("with a host that has joined")
			w.joined("a", "b", "c")
			w.run(time.Minute)
			w.only(1)
			for _, name := range commands {
				if e, ended := w.ended(name); !ended || e.Result == "done" {
					w.violate("command %s ended: %t, %s: %s", name, ended, e.Result, e.Reason)
				}
			}
		})
	}
}
