package step

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

// Reasons of backups, as the format names them.
const (
	BackupPeriodic      = "periodic"
	BackupRequested     = "requested"
	BackupBeforeRestore = "before-restore"
	BackupBeforeChange  = "before-change"
	BackupBeforeVersion = "before-version"
)

// BackupRetry is the pause after a backup that failed.
const BackupRetry = time.Minute

// BackupFirst has a backup taken before a change of the membership that is made
// on purpose; nil: there is a fresh one, or none is wanted. A change that takes
// something away waits until one could be taken; one that adds does not.
func BackupFirst(v *View, takesAway bool, reason words.Text) *decision.Decision {
	return BackupFirstOr(v, "etcdadm member remove HOST --no-backup", BackupBeforeChange, takesAway, reason)
}

// BackupFirstOr is backupFirst with the command that is a person's way on, and
// what the backup is taken for.
func BackupFirstOr(v *View, command, before string, takesAway bool, reason words.Text) *decision.Decision {
	if v.Obs.Backups.Interval <= 0 || v.Obs.Backups.At.IsZero() || v.Goal.NoBackup || v.Goal.NoStore || v.Intent.Quarantined {
		return nil
	}
	last := v.NewestBackup()
	failure := ""
	for i := range v.Obs.Hosts {
		t := v.Obs.Hosts[i].Taken
		switch {
		case t == nil:
		case t.Running:
			return &decision.Decision{Reason: words.F("a backup is taken first: {for}", reason), Again: decision.Soon}
		case t.Backup != nil:
			last = v.Newer(last, v.LeadersTime(&v.Obs.Hosts[i], t.Began))
		case t.Error != "" && v.Ago(&v.Obs.Hosts[i], t.Ended) < BackupRetry:
			failure = t.Why()
		}
	}
	switch {
	case v.Obs.At.Sub(last) < sight.BackupFresh:
		return nil
	case failure != "" && takesAway:
		return decision.WaitLater("backup-wanted", command, "{reason}; a backup has to come first, and the last try failed: {failure}", reason, failure)
	case failure != "" || !v.Obs.Store.Read && !takesAway:
		return nil
	case !v.Obs.Store.Read:
		return decision.WaitLater("backup-wanted", command, "{reason}; a backup has to come first, and {unread}", reason, v.UnreadWords())
	}
	if d := TakeBackup(v, "", before); d != nil {
		d.Reason = words.F("{backup}: {for}", d.Reason, reason)
		return d
	}
	return nil
}

// TakeAsked is TakeBackup for a command that asks for one. What is to be kept for a time is asked of
// a daemon that knows of that: others refuse it, each time anew. Where none of those that are up
// does, the command ends.
func TakeAsked(v *View, c *cluster.Command) *decision.Decision {
	if c.KeepFor == 0 {
		return TakeBackup(v, c.Name, BackupRequested)
	}
	knows := func(s cluster.Seat) bool { return s.Host != nil && s.Host.KeepsBackups }
	if up := v.Roster.Up(); len(up) == 0 || slices.ContainsFunc(up, knows) {
		d := takeBackup(v, c.Name, BackupRequested, knows)
		if d != nil {
			d.Action.Ops[0].Op.KeepFor = c.KeepFor
		}
		return d
	}
	return decision.EndCommand(c.Name, decision.CommandFailed, "no host that is up knows how long it is to keep a backup: update the daemons, or ask for one without a time")
}

// TakeBackup has the follower that is closest to raft's leader take a backup;
// the leader itself only when no follower is up.
func TakeBackup(v *View, command, reason string) *decision.Decision {
	return takeBackup(v, command, reason, func(cluster.Seat) bool { return true })
}

// takeBackup is TakeBackup among the hosts that may be asked.
func takeBackup(v *View, command, reason string, may func(cluster.Seat) bool) *decision.Decision {
	var best *cluster.Seat
	for _, s := range v.Roster.Up() {
		if s.Host == nil || s.Host.Status == nil || s.Host.Taken != nil && s.Host.Taken.Running || !may(s) {
			continue
		}
		if best == nil || best.RaftLeader && !s.RaftLeader ||
			s.RaftLeader == best.RaftLeader && s.Host.Status.Applied > best.Host.Status.Applied {
			best = &s
		}
	}
	if best == nil {
		return nil
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("take a backup ({reason}) on host {host}", reason, best.HostID), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: "etcdadm backup create", Ops: []decision.HostOp{decision.OnHost(best.Host, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpBackup, Host: best.HostID, Member: best.ID, Cluster: v.Roster.Cluster, Command: command, Reason: reason,
		})}},
	}
}
