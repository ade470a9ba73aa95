package upkeep

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// BackUp has a backup taken when a command asks for one, or when the last one
// is older than the interval. It takes no time from other work: the host does
// it beside everything else.
func BackUp(v *step.View) *decision.Decision {
	if !v.Obs.Store.Read {
		return nil
	}
	sayFailed(v)
	for i := range v.Obs.Commands {
		c := &v.Obs.Commands[i]
		if c.Kind != cluster.CommandBackup {
			continue
		}
		switch t, _ := v.LastTaken(c.Name); {
		case c.Malformed != "":
			return decision.EndCommand(c.Name, decision.CommandRejected, c.Malformed)
		case t == nil:
			return step.TakeAsked(v, c)
		case t.Running:
			return nil
		case t.Error != "":
			return decision.EndCommand(c.Name, decision.CommandFailed, t.Why())
		default:
			return decision.EndCommand(c.Name, decision.CommandDone, "backup "+t.Backup.Name)
		}
	}
	every := v.Obs.Backups.Interval
	if every <= 0 {
		return nil
	}
	if v.Obs.Backups.At.IsZero() {
		if why := v.Obs.Backups.Unlisted; why != "" {
			v.Notice("backup-failed", "", "no backup is taken before the store lists those that are there: {error}", why)
		}
		return nil
	}
	last := lastBackup(v)
	for i := range v.Obs.Hosts {
		if t := v.Obs.Hosts[i].Taken; t != nil && (t.Running || t.Error != "" && v.Ago(&v.Obs.Hosts[i], t.Ended) < min(step.BackupRetry, every)) {
			return nil
		}
	}
	if !isDue(v, last) {
		return v.Unasked(TryOut(v))
	}
	d := step.TakeBackup(v, "", step.BackupPeriodic)
	if d != nil && !v.Obs.SelfManaged() {
		d.Reason = words.F("{last}: {backup}", lastWords(v, last), d.Reason)
	}
	return v.Unasked(d)
}

// lastBackup is when the newest backup was taken, in the store or by a host that tells of it; zero: never.
func lastBackup(v *step.View) time.Time {
	last := v.NewestBackup()
	for i := range v.Obs.Hosts {
		if t := v.Obs.Hosts[i].Taken; t != nil && t.Backup != nil {
			last = v.Newer(last, v.LeadersTime(&v.Obs.Hosts[i], t.Began))
		}
	}
	return last
}

// isDue tells whether a backup without a command is to be taken, when the last one is of then.
func isDue(v *step.View, last time.Time) bool {
	age := v.Obs.At.Sub(last)
	return age >= v.Obs.Backups.Interval || age >= sight.BackupFresh && sight.Unsaved(v.Sight)
}

// sayFailed tells of the newest try that failed, where nothing has succeeded since: while one is due, also as it is tried again,
// or for as long as it is not.
func sayFailed(v *step.View) {
	every, last := v.Obs.Backups.Interval, lastBackup(v)
	if every <= 0 || v.Obs.Backups.At.IsZero() {
		return
	}
	var of *cluster.HostReport
	var newest time.Time
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		failed := h.Taken.LastFailed()
		if failed == nil || !isDue(v, last) && v.Ago(h, failed.Ended) >= min(step.BackupRetry, every) {
			continue
		}
		if at := v.LeadersTime(h, failed.Ended); at.After(last) && (of == nil || at.After(newest)) {
			of, newest = h, at
		}
	}
	if of != nil {
		t := of.Taken.LastFailed()
		v.Advise("backup-failed", t.Hint, "", "the last backup, by host {host}, failed; it is tried again: {error}", of.Host, t.Error)
	}
}

// lastWords is how old the newest backup is, for who has to take the next one.
func lastWords(v *step.View, last time.Time) words.Text {
	if last.IsZero() {
		return words.F("no backup was taken yet")
	}
	return words.F("the last backup is {age} old", v.Obs.At.Sub(last).Round(time.Second))
}

// TryOut has the newest backup restored into an etcd that is thrown away, when
// the last such drill is older than the interval. A host that carries no voter
// does it before one that does, and raft's leader last.
func TryOut(v *step.View) *decision.Decision {
	every, newest := v.Obs.Backups.DrillInterval, v.Obs.Backups.Newest
	if every <= 0 || len(newest) == 0 {
		return nil
	}
	last := v.Newer(time.Time{}, v.Obs.Backups.Drilled)
	for _, b := range newest {
		last = v.Newer(last, b.Drilled)
	}
	var best *cluster.HostReport
	rank := 0
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if t := h.Drill; t != nil {
			if t.Running {
				return nil
			}
			last = v.Newer(last, v.LeadersTime(h, t.Ended))
			if t.Error != "" && t.Command == "" { // a rehearsal with another release says nothing of the backup
				v.Notice("backup-drill", "etcdadm backup create", "host {host} tested the backup: it is not usable, or the test could not run: {why}", h.Host, t.Why())
			}
		}
		if !h.UnderFence || !h.CanRun(newest[0].Version) || newest[0].Encrypted && !h.Decrypts {
			continue
		}
		r := 3
		if s, ok := v.Roster.Seat(h.Local.Member); ok && !s.Learner {
			if r = 2; s.RaftLeader {
				r = 1
			}
		}
		if r > rank {
			best, rank = h, r
		}
	}
	switch {
	case v.Obs.At.Sub(last) < every:
		return nil
	case best == nil && newest[0].Encrypted:
		v.Notice("backup-drill", "", "backup {backup} is not tested: it is encrypted, and no host that could test it has a secret key; put the key where a daemon's --backup-identity-file names it", newest[0].Name)
		return nil
	case best == nil:
		return nil
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("test backup {backup} on host {host}, in a throw-away etcd", newest[0].Name, best.Host), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: "etcdadm backup drill " + newest[0].Name, Ops: []decision.HostOp{decision.OnHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Backup: newest[0].Name,
		})}},
	}
}
