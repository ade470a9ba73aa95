package generation

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// BackupBefore has the running cluster backed up before it is replaced, if
// that can be done.
func BackupBefore(v *step.View, c *cluster.Command) *decision.Decision {
	if c.NoBackup || c.Kind == cluster.CommandRecover || !v.Seen || !v.Roster.Linearizable || !v.Roster.HasQuorum() {
		return nil
	}
	t, began := v.LastTaken(c.Name)
	switch {
	case t == nil:
		if d := step.TakeBackup(v, c.Name, step.BackupBeforeRestore); d != nil || !v.BackingUp() {
			return d
		}
		return &decision.Decision{Reason: words.F("another backup is running; the one before the cluster is replaced comes next"), Again: decision.Soon}
	case t.Running && v.Obs.At.Sub(began) < sight.BackupTry:
		return &decision.Decision{Reason: words.F("backing up the running cluster before it is replaced, for up to {backupTry}", sight.BackupTry), Again: decision.Soon}
	case t.Running:
		v.Notice("backup-failed", "", "the backup before the cluster is replaced took more than {backupTry}; the command goes on without it", sight.BackupTry)
	case t.Error != "":
		v.Advise("backup-failed", t.Hint, "", "the backup before the cluster is replaced failed, and the command goes on: {error}", t.Error)
	}
	return nil
}
