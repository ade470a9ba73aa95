package sim

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
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
