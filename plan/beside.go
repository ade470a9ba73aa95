package plan

import (
	"cmp"
	"fmt"

	"etcdadm.io/cluster"
)

// beside lets the other rules go on while a command waits for something: the
// cluster that is goes on being looked after, because nothing of it is touched
// for the command yet. What they change is no matter for it: all that it relies
// on is looked at again by the very decision that writes its intent, over the
// intent that has every voter set (docs/adr/009-generations.md). Without any
// cluster, none is founded beside it.
func (v *view) beside(c *cluster.Command, d *Decision) *Decision {
	switch {
	case v.intent == nil || d.Action != nil:
		return d
	case len(d.Blockers) > 0:
		v.asides = append(v.asides, d.Blockers...)
		return nil
	case c.Kind == cluster.CommandRecover:
		return d // its survivor was stopped for it, and there is no quorum to do anything
	case v.seen && v.roster.Linearizable && v.roster.HasQuorum():
		v.meanwhile = d
		return nil
	}
	return cmp.Or(v.revive(), d) // all that is left without a quorum
}

// whileWaiting is the decision with what is being done beside everything else:
// that is said where there is nothing else to say, and is looked at again soon.
func (v *view) whileWaiting(d *Decision) *Decision {
	switch {
	case v.meanwhile == nil || d.Action != nil:
		return d
	case d.Done && v.goal.Kind == Converge:
		v.meanwhile.Rule = "generation"
		return v.meanwhile
	case d.Again == 0 || d.Again > v.meanwhile.Again:
		d.Again = v.meanwhile.Again
	}
	return d
}

// backupBefore has the running cluster backed up before it is replaced, if
// that can be done.
func (v *view) backupBefore(c *cluster.Command) *Decision {
	if c.NoBackup || c.Kind == cluster.CommandRecover || !v.seen || !v.roster.Linearizable || !v.roster.HasQuorum() {
		return nil
	}
	t, began := v.lastTaken(c.Name)
	switch {
	case t == nil:
		if d := v.takeBackup(c.Name, backupBeforeRestore); d != nil || !v.backingUp() {
			return d
		}
		return &Decision{Reason: "another backup is being taken, and then one before the cluster is replaced", Again: soon}
	case t.Running && v.obs.At.Sub(began) < backupTry:
		return &Decision{Reason: fmt.Sprintf("the running cluster is backed up before it is replaced, which is waited for for %s at most", backupTry), Again: soon}
	case t.Running:
		v.aside("backup-failed", "", "the backup of the running cluster before it is replaced has not ended in %s, and the command goes on without it", backupTry)
	case t.Error != "":
		v.advise("backup-failed", t.Hint, "", "the backup of the running cluster before it is replaced failed, and the command goes on: %s", t.Error)
	}
	return nil
}
