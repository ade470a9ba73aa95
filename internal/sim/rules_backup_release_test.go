package sim

import (
	"testing"

	"etcdadm.io/cluster"
)

// TestBackupIsOfOneRelease: a backup is asked for and the member is restarted with the
// next line before it has come to read anything. What is recorded beside a backup is the
// release that it began with; read through the next one, it would be restored with a
// release that ends at each start on what is in it, and nothing else serves by then.
func TestBackupIsOfOneRelease(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formedWith(sim35, 1, "a", "b")
		w.Spec(specOf(1, sim36))
		name := w.Backup()
		w.Until("the member runs the next line", soonEnough, func() bool { return w.running(sim36) == 1 })
		w.Spec(specOf(1, sim35)) // which the backup is restored with, by what is recorded
		w.Until("the member runs the former line", soonEnough, func() bool { return w.running(sim35) == 1 })
		w.Queue(order{kind: cluster.CommandRestore, backup: name})
		w.generation(2, cluster.IntentFounded)
		w.Await(1, soonEnough)
		w.noneRefused()
	})
}
