package decide

import (
	"cmp"
	"fmt"
)

// Origin is the backup that a new cluster begins with: one by name, or the newest that is proven.
type Origin struct {
	Backup       string
	NewestProven bool
	// Elsewhere: it is not in the cluster's store, see Copy. Claims: it is what spec.bootstrap.claims have, under that name.
	Elsewhere, Claims bool
}

// Begun is what is written of the backup that a new cluster begins with.
type Begun struct {
	// Backup is its name; empty: nothing is written.
	Backup string
	// Queued: its restore is in the queue. Asked: it is, or was, and this EtcdCluster asked for it.
	Queued, Asked bool
	// Failed says why it ended.
	Failed string
}

// begin is the backup that is to be written down together with the spec; empty: none, or it is. Where nobody knows yet which
// one it is, the cluster waits: it would begin empty.
func (w *World) begin(d *Decision) (backup string, waits bool) {
	from, written := w.Want.From, w.Record.Begun
	if from == nil || w.Intent != nil { // it counts once
		return "", false
	}
	backup = from.Backup
	if from.NewestProven {
		backup = written.Backup
		if t := w.fresh(); t != nil {
			backup = cmp.Or(backup, t.ProvenName)
		}
	}
	switch {
	case backup == "":
		if w.fresh() == nil {
			d.wait(BootstrapWaits, "spec.bootstrap.restore asks for the newest proven backup, and the daemons have not told yet which one that is")
			return "", true
		}
		d.stand(BootstrapWaits, "spec.bootstrap.restore asks for the newest proven backup, and the daemons know of none in spec.backup.store: name one in spec.bootstrap.restore.backup, or wait until one is proven")
		return "", true
	case written.Queued && written.Backup != backup:
		d.wait(BootstrapWaits, fmt.Sprintf("the restore of backup %s is in the queue, and the cluster begins with that one", written.Backup))
		return "", false
	case written.Queued:
		return "", false
	case written.Asked && written.Backup == backup:
		begins, other := "backup "+backup, "another one in spec.bootstrap.restore.backup"
		if from.Claims {
			begins, other = "what spec.bootstrap.claims have, which is backup "+backup, "other claims there"
		}
		d.wait(BootstrapFailed, fmt.Sprintf("the cluster is to begin with %s, which was not restored: %s. Name %s, or make an EtcdRestore of that backup without replaces to have it tried again", begins, written.Failed, other))
		return "", false
	}
	if !w.copied(d, backup) {
		return "", true
	}
	return backup, false
}
