package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// rehearse has a backup of the running cluster restored with the tool of the
// release that is to come, and served by it, while nothing has happened yet; nil:
// it was, or it cannot be for now.
func (v *view) rehearse(run cluster.Running, next Hop) *Decision {
	if v.rehearsal(next) != nil || v.obs.Backups.Interval <= 0 && next.Kind == Physical {
		return nil
	}
	for i := range v.obs.Hosts {
		if t := v.obs.Hosts[i].Drill; t != nil && t.Running {
			return &Decision{Reason: fmt.Sprintf("host %s tries out whether etcd %s serves what %s", v.obs.Hosts[i].Host, next.To, triedWith(next)), Again: soon}
		}
	}
	if next.Kind == Logical && !next.From.Has(cluster.V3API) {
		if v.obs.Backups.Interval > 0 && !v.spec.WithoutBackup() {
			if _, d := v.backupOf(run, fmt.Sprintf("stop all members, to go on with etcd %s", next.To)); d != nil {
				return d
			}
		}
		return v.surveyLive(next)
	}
	newest, d := v.backupOf(run, fmt.Sprintf("stop all members, to go on with etcd %s", next.To))
	if d != nil {
		return d
	}
	best := v.rehearser(next, newest)
	if best == nil {
		return nil
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("try out on host %s whether etcd %s serves what backup %s holds, before anything is stopped", best.Host, next.To, newest.Name), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: v.upgradeCommand(), Ops: []HostOp{onHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Backup: newest.Name, Version: next.To, Command: v.rehearsalName(next), Keys: next.Kind == Logical,
		})}},
	}
}

// rehearser is the host that tries a backup out with another release: one without
// a voter before one with, and raft's leader last. Key by key it has to have a voter.
func (v *view) rehearser(next Hop, b cluster.Backup) (best *cluster.HostReport) {
	rank := 0
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if !h.UnderFence || !h.CanRun(next.To) || b.Encrypted && !h.Decrypts {
			continue
		}
		r := 3
		s, seated := v.roster.Seat(h.Local.Member)
		switch {
		case next.Kind == Logical && h.Local.State != cluster.MemberStarted: // as the host itself says (host.takeDrill)
			continue
		case seated && !s.Learner && s.RaftLeader:
			r = 1
		case seated && !s.Learner:
			r = 2
		case next.Kind == Logical: // its own release is what reads the data
			continue
		}
		if r > rank {
			best, rank = h, r
		}
	}
	return best
}

// rehearsalName names the rehearsal for this wish: asked again, it is another one.
func (v *view) rehearsalName(next Hop) string {
	return fmt.Sprintf("rehearse %s for %s", next.To, v.spec.Consents())
}

// rehearsal is the last try for this wish that came to an end; nil: none did.
func (v *view) rehearsal(next Hop) *cluster.Taken {
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if t := h.Drill; t != nil && !t.Running && t.Command == v.rehearsalName(next) && v.ago(h, t.Ended) < rehearsedFor {
			return t
		}
	}
	return nil
}

// unrehearsed: it is not known that the new release serves what there is.
func (v *view) unrehearsed(next Hop) bool {
	t := v.rehearsal(next)
	switch {
	case t == nil && v.obs.Backups.Interval <= 0 && next.Kind == Physical:
		return false // nobody wants backups, so there is none to try
	case t == nil:
		_ = v.versionWaits("no host in sight can try out whether etcd %s serves what %s: it has to have the release%s", next.To, triedWith(next), needsBeside(next))
		return true
	case t.Error != "":
		_ = v.versionWaits("etcd %s does not serve what %s, as was tried: %s. Nothing was stopped; etcdadm upgrade %s --accept-outage tries it again", next.To, triedWith(next), t.Why(), v.spec.EtcdVersion)
		return true
	}
	return next.Kind == Logical && v.unlisted(next, t)
}

// triedWith says what a rehearsal is made with: of 2.x the newest data, which its
// members need not stream.
func triedWith(next Hop) string {
	if next.Kind == Logical && !next.From.Has(cluster.V3API) {
		return "a copy of a member's data holds"
	}
	return "a backup holds"
}

// needsBeside is what a host needs for a rehearsal, beside the release.
func needsBeside(next Hop) string {
	switch {
	case next.Kind == Physical:
		return ", and the key of an encrypted backup"
	case next.From.Has(cluster.V3API):
		return ", a voter that runs, and the key of an encrypted backup"
	}
	return ", and a voter that runs"
}
