package plan

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
)

// A hop key by key goes as one by files does (docs/adr/017-any-version.md), but for
// two things: its rehearsal lists what cannot be carried over, which a person has to
// accept by the digest of that list; and what is staged is made by copying keys,
// which is refused when the list has become another one.

// surveyLive has a follower's host rehearse with a copy of what its running member
// has: of version 2 there are no snapshots.
func (v *view) surveyLive(next Hop) *Decision {
	best, rank := (*cluster.HostReport)(nil), 0
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		s, ok := v.roster.Seat(h.Local.Member)
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
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("try out on host %s what etcd %s would begin with, on a copy of its data, before anything is stopped", best.Host, next.To), Again: soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: v.upgradeCommand(), Ops: []HostOp{onHost(best, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpDrill, Host: best.Host, Member: best.Local.Member, Cluster: best.Local.Cluster, Version: next.To, Command: v.rehearsalName(next), Keys: true,
		})}},
	}
}

// losses is what the rehearsal of a hop key by key has listed; never nil.
func (v *view) losses(next Hop) *cluster.Survey {
	if t := v.rehearsal(next); t != nil && t.Survey != nil && next.Kind == Logical {
		return t.Survey
	}
	return &cluster.Survey{}
}

// unlisted: the rehearsal came to its end, and does not show that the change can be
// made: it made no list for this version, as that of a daemon which knows of backups
// only, or took so long that a halt would be taken back before the copy is ready.
func (v *view) unlisted(next Hop, t *cluster.Taken) bool {
	switch took := t.Ended.Sub(t.Began); {
	case t.Survey == nil || t.Survey.To != next.To:
		_ = v.versionWaits("etcd %s was tried out without a list of what cannot be carried over: the daemon that did it does not make one. Bring all daemons to one release; then etcdadm upgrade %s --accept-outage tries it again. Nothing was stopped", next.To, v.spec.EtcdVersion)
	case took > haltMost/2:
		_ = v.versionWaits("the copy of every key took %s when it was tried out, and members that are stopped go on after %s: it might not be ready by then. Fewer keys or faster disks make it shorter; etcdadm upgrade %s --accept-outage tries it again. Nothing was stopped", took.Round(time.Second), haltMost, v.spec.EtcdVersion)
	default:
		return false
	}
	return true
}

// lossNotAccepted: not everything can be carried over, and nobody has accepted this
// very list of what cannot.
func (v *view) lossNotAccepted(next Hop) bool {
	s := v.losses(next)
	if !s.Loses() || v.spec.AcceptedLoss() == s.Digest {
		return false
	}
	other := ""
	if v.spec.AcceptedLoss() != "" {
		other = "; another list was accepted, and it has changed since"
	}
	v.aside("version-loss", fmt.Sprintf("etcdadm upgrade %s --accept-outage --accept-loss=%s", v.spec.EtcdVersion, s.Digest),
		"the members run etcd %s and the spec asks for %s: %d of %d keys are carried over, key by key, and not everything as it is: %s%s. Nothing was stopped", v.runningWords(), v.spec.EtcdVersion, s.Carried, s.Keys, s.Words(), other)
	return true
}

// VersionSurvey is the newest list of what would be lost on the way to a version,
// key by key; nil: none was made.
func VersionSurvey(o *cluster.Observation, to cluster.Version) (newest *cluster.Survey) {
	var at cluster.Taken
	for i := range o.Hosts {
		if t := o.Hosts[i].Drill; t != nil && t.Survey != nil && t.Survey.To == to && (newest == nil || t.Ended.After(at.Ended)) {
			newest, at = t.Survey, *t
		}
	}
	return newest
}
