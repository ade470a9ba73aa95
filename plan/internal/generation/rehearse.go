package generation

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

const (
	// rehearsedFor is how long a rehearsal counts.
	rehearsedFor = time.Hour
)

// rehearse has a backup of the running cluster restored with the tool of the
// release that is to come, and served by it, while nothing has happened yet; nil:
// it was, or it cannot be for now.
func rehearse(v *step.View, run cluster.Running, next path.Hop) *decision.Decision {
	if rehearsal(v, next) != nil || v.Obs.Backups.Interval <= 0 && next.Kind == path.Physical {
		return nil
	}
	for i := range v.Obs.Hosts {
		if t := v.Obs.Hosts[i].Drill; t != nil && t.Running {
			return &decision.Decision{Reason: words.F("host {host} is testing etcd {release} with what {triedWith}", v.Obs.Hosts[i].Host, next.To, triedWith(next)), Again: decision.Soon}
		}
	}
	if next.Kind == path.Logical && !next.From.Has(cluster.V3API) {
		if v.Obs.Backups.Interval > 0 && !v.Spec.WithoutBackup() {
			if _, d := BackupOf(v, run, words.F("stop all members, to go on with etcd {release}", next.To)); d != nil {
				return d
			}
		}
		return surveyLive(v, next)
	}
	newest, d := BackupOf(v, run, words.F("stop all members, to go on with etcd {release}", next.To))
	if d != nil {
		return d
	}
	best := rehearser(v, next, newest)
	if best == nil {
		return nil
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("test on host {host} whether etcd {release} serves backup {backup}, before anything stops", best.Host, next.To, newest.Name), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: step.UpgradeCommand(v), Ops: []decision.HostOp{decision.OnHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Backup: newest.Name, Version: next.To, Command: rehearsalName(v, next), Keys: next.Kind == path.Logical,
		})}},
	}
}

// rehearser is the host that tries a backup out with another release: one without
// a voter before one with, and raft's leader last. Key by key it has to have a voter.
func rehearser(v *step.View, next path.Hop, b cluster.Backup) (best *cluster.HostReport) {
	rank := 0
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if !h.UnderFence || !h.CanRun(next.To) || b.Encrypted && !h.Decrypts {
			continue
		}
		r := 3
		s, seated := v.Roster.Seat(h.Local.Member)
		switch {
		case next.Kind == path.Logical && h.Local.State != cluster.MemberStarted: // as the host itself says (host.takeDrill)
			continue
		case seated && !s.Learner && s.RaftLeader:
			r = 1
		case seated && !s.Learner:
			r = 2
		case next.Kind == path.Logical: // its own release is what reads the data
			continue
		}
		if r > rank {
			best, rank = h, r
		}
	}
	return best
}

// rehearsalName names the rehearsal for this wish: asked again, it is another one.
func rehearsalName(v *step.View, next path.Hop) string {
	return fmt.Sprintf("rehearse %s for %s", next.To, v.Spec.Consents())
}

// rehearsal is the last try for this wish that came to an end; nil: none did.
func rehearsal(v *step.View, next path.Hop) *cluster.Taken {
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if t := h.Drill; t != nil && !t.Running && t.Command == rehearsalName(v, next) && v.Ago(h, t.Ended) < rehearsedFor {
			return t
		}
	}
	return nil
}

// unrehearsed: it is not known that the new release serves what there is.
func unrehearsed(v *step.View, next path.Hop) bool {
	t := rehearsal(v, next)
	switch {
	case t == nil && v.Obs.Backups.Interval <= 0 && next.Kind == path.Physical:
		return false // nobody wants backups, so there is none to try
	case t == nil:
		_ = step.VersionWaits(v, "no host can test etcd {release} with what {triedWith}: it needs the release{needsBeside}", next.To, triedWith(next), needsBeside(next))
		return true
	case t.Error != "":
		_ = step.VersionWaits(v, "etcd {release} failed the test with what {triedWith}: {why}. Nothing was stopped; etcdadm upgrade {etcdVersion} --accept-outage tries again", next.To, triedWith(next), t.Why(), v.Spec.EtcdVersion)
		return true
	}
	return next.Kind == path.Logical && unlisted(v, next, t)
}

// triedWith says what a rehearsal is made with: of 2.x the newest data, which its
// members need not stream.
func triedWith(next path.Hop) string {
	if next.Kind == path.Logical && !next.From.Has(cluster.V3API) {
		return "a copy of a member's data holds"
	}
	return "a backup holds"
}

// needsBeside is what a host needs for a rehearsal, beside the release.
func needsBeside(next path.Hop) string {
	switch {
	case next.Kind == path.Physical:
		return ", and the key of an encrypted backup"
	case next.From.Has(cluster.V3API):
		return ", a voter that runs, and the key of an encrypted backup"
	}
	return ", and a voter that runs"
}

// A hop key by key goes as one by files does (docs/adr/017-any-version.md), but for
// two things: its rehearsal lists what cannot be carried over, which a person has to
// accept by the digest of that list; and what is staged is made by copying keys,
// which is refused when the list has become another one.

// surveyLive has a follower's host rehearse with a copy of what its running member
// has: of version 2 there are no snapshots.
func surveyLive(v *step.View, next path.Hop) *decision.Decision {
	best, rank := (*cluster.HostReport)(nil), 0
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		s, ok := v.Roster.Seat(h.Local.Member)
		if !ok || s.Learner || !s.Up || h.Local.State != cluster.MemberStarted || !h.UnderFence || !h.CanRun(next.To) {
			continue
		}
		r := 2
		if s.RaftLeader {
			r = 1
		}
		if r > rank {
			best, rank = h, r
		}
	}
	if best == nil {
		return nil
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("test on host {host} what etcd {release} would start with, on a copy of its data, before anything stops", best.Host, next.To), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: step.UpgradeCommand(v), Ops: []decision.HostOp{decision.OnHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Member: best.Local.Member, Cluster: best.Local.Cluster, Version: next.To, Command: rehearsalName(v, next), Keys: true,
		})}},
	}
}

// BackupOf is a fresh backup of what the members have now; or what is done to come
// by one. A backup of the generation before says nothing of what this one holds.
func BackupOf(v *step.View, run cluster.Running, reason words.Text) (cluster.Backup, *decision.Decision) {
	b, age := sight.LastBackup(v.Sight)
	if b.Version.SameMinor(run.High) && (b.Cluster == 0 || b.Cluster == v.Roster.Cluster) && age < sight.BackupFresh {
		return b, nil
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		switch t := h.Taken; {
		case t == nil:
		case t.Running:
			return b, &decision.Decision{Reason: words.F("a backup is taken first: {for}", reason), Again: decision.Soon}
		case t.Error != "" && v.Ago(h, t.Ended) < step.BackupRetry:
			return b, decision.WaitLater("backup-wanted", "etcdadm backup create", "{reason}; a backup has to come first, and the last try failed: {why}", reason, t.Why())
		}
	}
	d := step.TakeBackup(v, "", step.BackupBeforeVersion)
	if d == nil {
		return b, step.VersionSoon(v, "no member can take the backup that has to come first")
	}
	d.Reason = words.F("{backup}: {for}", d.Reason, reason)
	return b, d
}
