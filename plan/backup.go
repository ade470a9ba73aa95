package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// Reasons of backups, as the format names them.
const (
	backupPeriodic      = "periodic"
	backupRequested     = "requested"
	backupBeforeRestore = "before-restore"
	backupBeforeChange  = "before-change"
	backupBeforeVersion = "before-version"
)

// backupRetry is the pause after a backup that failed.
const backupRetry = time.Minute

// backUp has a backup taken when a command asks for one, or when the last one
// is older than the interval. It takes no time from other work: the host does
// it beside everything else.
func backUp(v *view) *Decision {
	if !v.obs.Store.Read {
		return nil
	}
	for i := range v.obs.Commands {
		c := &v.obs.Commands[i]
		if c.Kind != cluster.CommandBackup {
			continue
		}
		switch t, _ := v.lastTaken(c.Name); {
		case c.Malformed != "":
			return endCommand(c.Name, CommandRejected, c.Malformed)
		case t == nil:
			return v.takeBackup(c.Name, backupRequested)
		case t.Running:
			return nil
		case t.Error != "":
			return endCommand(c.Name, CommandFailed, t.Why())
		default:
			return endCommand(c.Name, CommandDone, "backup "+t.Backup.Name)
		}
	}
	every := v.obs.Backups.Interval
	if every <= 0 || v.obs.Backups.At.IsZero() {
		return nil
	}
	last := v.newestBackup()
	for i := range v.obs.Hosts {
		t := v.obs.Hosts[i].Taken
		switch {
		case t == nil:
		case t.Running:
			return nil
		case t.Backup != nil:
			last = v.newer(last, v.leadersTime(&v.obs.Hosts[i], t.Began))
		case t.Error != "" && v.ago(&v.obs.Hosts[i], t.Ended) < min(backupRetry, every):
			v.advise("backup-failed", t.Hint, "", "the last backup, by host %s, failed; it is tried again: %s", v.obs.Hosts[i].Host, t.Error)
			return nil
		}
	}
	if age := v.obs.At.Sub(last); age < every && (age < backupFresh || !v.unsaved()) {
		return v.tryOut()
	}
	return v.takeBackup("", backupPeriodic)
}

// unsaved: the generation was made from data, and there is no backup of it. The
// newest one is then of what was given up, and after a loss it is the first that
// somebody would take.
func (v *view) unsaved() bool {
	in := v.intent
	if in == nil || in.State != cluster.IntentFounded || !in.Source.FromData() || in.Quarantined {
		return false
	}
	// Clocks may be apart, and each generation has a cluster ID of its own; only
	// where none was recorded the time has to do, and never for what it was made from.
	ofIt := func(b cluster.Backup) bool {
		if b.Cluster != 0 {
			return b.Cluster == in.Cluster
		}
		return b.Name != in.Source.Backup && !b.At.Before(time.Unix(0, in.Timestamp))
	}
	return !slices.ContainsFunc(v.obs.Backups.Newest, ofIt) && !slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool {
		return h.Taken != nil && h.Taken.Backup != nil && ofIt(*h.Taken.Backup)
	})
}

// tryOut has the newest backup restored into an etcd that is thrown away, when
// the last such drill is older than the interval. A host that carries no voter
// does it before one that does, and raft's leader last.
func (v *view) tryOut() *Decision {
	every, newest := v.obs.Backups.DrillInterval, v.obs.Backups.Newest
	if every <= 0 || len(newest) == 0 {
		return nil
	}
	last := v.newer(time.Time{}, v.obs.Backups.Drilled)
	for _, b := range newest {
		last = v.newer(last, b.Drilled)
	}
	var best *cluster.HostReport
	rank := 0
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if t := h.Drill; t != nil {
			if t.Running {
				return nil
			}
			last = v.newer(last, v.leadersTime(h, t.Ended))
			if t.Error != "" && t.Command == "" { // a rehearsal with another release says nothing of the backup
				v.aside("backup-drill", "etcdadm backup create", "host %s tried the backup out, and it cannot be relied on, or could not be tried: %s", h.Host, t.Why())
			}
		}
		if !h.UnderFence || !h.CanRun(newest[0].Version) || newest[0].Encrypted && !h.Decrypts {
			continue
		}
		r := 3
		if s, ok := v.roster.Seat(h.Local.Member); ok && !s.Learner {
			if r = 2; s.RaftLeader {
				r = 1
			}
		}
		if r > rank {
			best, rank = h, r
		}
	}
	switch {
	case v.obs.At.Sub(last) < every:
		return nil
	case best == nil && newest[0].Encrypted:
		v.aside("backup-drill", "", "backup %s is to be tried out, it is encrypted, and no host in sight that could do it has a secret key: put it where --backup-identity-file of a daemon names it", newest[0].Name)
		return nil
	case best == nil:
		return nil
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("try backup %s out on host %s, in an etcd that is thrown away", newest[0].Name, best.Host), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: "etcdadm backup drill " + newest[0].Name, Ops: []HostOp{onHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Backup: newest[0].Name,
		})}},
	}
}

// backupFresh is how old the newest backup may be when the membership is
// changed on purpose.
const backupFresh = 5 * time.Minute

// backupFirst has a backup taken before a change of the membership that is made
// on purpose; nil: there is a fresh one, or none is wanted. A change that takes
// something away waits until one could be taken; one that adds does not.
func (v *view) backupFirst(takesAway bool, reason string) *Decision {
	return v.backupFirstOr("etcdadm member remove HOST --no-backup", backupBeforeChange, takesAway, reason)
}

// backupFirstOr is backupFirst with the command that is a person's way on, and
// what the backup is taken for.
func (v *view) backupFirstOr(command, before string, takesAway bool, reason string) *Decision {
	if v.obs.Backups.Interval <= 0 || v.obs.Backups.At.IsZero() || v.goal.NoBackup || v.goal.NoStore || v.intent.Quarantined {
		return nil
	}
	last := v.newestBackup()
	failure := ""
	for i := range v.obs.Hosts {
		t := v.obs.Hosts[i].Taken
		switch {
		case t == nil:
		case t.Running:
			return &Decision{Reason: "a backup is taken first: " + reason, Again: soon}
		case t.Backup != nil:
			last = v.newer(last, v.leadersTime(&v.obs.Hosts[i], t.Began))
		case t.Error != "" && v.ago(&v.obs.Hosts[i], t.Ended) < backupRetry:
			failure = t.Why()
		}
	}
	switch {
	case v.obs.At.Sub(last) < backupFresh:
		return nil
	case failure != "" && takesAway:
		return waitLater("backup-wanted", command, "%s; a backup is wanted first, and the last try failed: %s", reason, failure)
	case failure != "" || !v.obs.Store.Read && !takesAway:
		return nil
	case !v.obs.Store.Read:
		return waitLater("backup-wanted", command, "%s; a backup is wanted first, and %s", reason, v.unreadWords())
	}
	if d := v.takeBackup("", before); d != nil {
		d.Reason += ": " + reason
		return d
	}
	return nil
}

// newestBackup is when the newest backup in the store was taken, by the clock of
// the host that took it.
func (v *view) newestBackup() (last time.Time) {
	for _, b := range v.obs.Backups.Newest {
		last = v.newer(last, b.At)
	}
	return last
}

// leadersTime is a time of a host's clock by the leader's. A backup that was
// taken just now by a host whose clock is behind would be too old at once, and
// so be taken again and again, before anything else that is to be done.
func (v *view) leadersTime(h *cluster.HostReport, t time.Time) time.Time {
	if h.Clock.IsZero() {
		return t
	}
	return t.Add(v.obs.At.Sub(h.Clock))
}

// ago is how long ago something ended on a host, by its clock. What lies ahead of
// that clock ended before it went back, and is taken for long ago: who waits for a
// time to pass after it would wait until the clock has caught up.
func (v *view) ago(h *cluster.HostReport, t time.Time) time.Duration {
	if h.WentBack(t) {
		return longAgo
	}
	return v.obs.At.Sub(v.leadersTime(h, t))
}

// longAgo is longer than anything is waited for.
const longAgo = 100 * 365 * 24 * time.Hour

// newer leaves out what lies in the future, which says nothing of any age: a
// clock went back since.
func (v *view) newer(a, b time.Time) time.Time { return newerBy(v.obs.At, a, b) }

// newerBy is newer by another clock.
func newerBy(now, a, b time.Time) time.Time {
	if b.After(a) && b.Sub(now) <= maxSkew {
		return b
	}
	return a
}

// lastTaken is the newest try of a backup for a command, on any host in sight, and
// when it began by the leader's clock; nil: there is none.
func (v *view) lastTaken(command string) (best *cluster.Taken, began time.Time) {
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Taken == nil || h.Taken.Command != command {
			continue
		}
		if at := v.leadersTime(h, h.Taken.Began); best == nil || at.After(began) {
			best, began = h.Taken, at
		}
	}
	return best, began
}

// backingUp: a host takes a backup, and has not been at it for too long.
func (v *view) backingUp() bool {
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if t := h.Taken; t != nil && t.Running && v.obs.At.Sub(v.leadersTime(h, t.Began)) < backupTry {
			return true
		}
	}
	return false
}

// takeBackup has the follower that is closest to raft's leader take a backup;
// the leader itself only when no follower is up.
func (v *view) takeBackup(command, reason string) *Decision {
	var best *cluster.Seat
	for _, s := range v.roster.Up() {
		if s.Host == nil || s.Host.Status == nil || s.Host.Taken != nil && s.Host.Taken.Running {
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
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("take a backup (%s) on host %s", reason, best.HostID), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: "etcdadm backup create", Ops: []HostOp{onHost(best.Host, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpBackup, Host: best.HostID, Member: best.ID, Cluster: v.roster.Cluster, Command: command, Reason: reason,
		})}},
	}
}
