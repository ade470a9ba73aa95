package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// refound supersedes a founding that cannot come to a quorum: so many of its
// founders promise never to start it that the rest are no quorum (SAFETY.md,
// rule 13). No write can have been acknowledged by it.
func (v *view) refound() *Decision {
	if !v.stalled() || v.spec == nil || !v.obs.Store.Read {
		return nil
	}
	next := v.intent.Generation + 1
	var ops []HostOp
	promised := 0
	for _, f := range v.intent.Founders {
		h := v.promiser(f)
		switch {
		case h == nil:
		case h.LowestGeneration >= next:
			promised++
		default:
			ops = append(ops, onHost(h, cluster.Guard{}, cluster.Op{Kind: cluster.OpRefuse, Host: h.Host, Generation: next}))
		}
	}
	n := len(v.intent.Founders)
	if promised+len(ops) < cluster.Blocking(n) {
		return nil
	}
	fresh, d := v.founders(v.spec.MemberCount)
	if d != nil {
		return d
	}
	if promised < cluster.Blocking(n) {
		return &Decision{
			Reason: fmt.Sprintf("generation %d never served and cannot: ask its founders in sight to promise that they never start it", v.intent.Generation),
			Again:  soon,
			Action: &Action{Kind: ActHosts, Ops: ops, Projection: &cluster.Projection{Voters: n, VotersAfter: n}},
		}
	}
	in := &cluster.Intent{
		Name: v.obs.Cluster, Generation: next, Version: v.spec.EtcdVersion,
		Source: cluster.Source{Kind: cluster.SourceNothing}, State: cluster.IntentFounding, Founders: asFounders(fresh),
		History: append(slices.Clone(v.intent.History), cluster.PastGeneration{
			Generation: v.intent.Generation, Cluster: v.intent.Cluster, Voters: [][]cluster.Voter{founderVoters(v.intent)}, Closed: true,
		}),
	}
	return &Decision{
		Reason: fmt.Sprintf("generation %d never served, and %d of its %d founders promised never to start it: found generation %d on %s", v.intent.Generation, promised, n, next, hostNames(fresh)),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}, Command: v.seedCommand()},
	}
}

// promiser is the founder's host if its very disk never started the founding.
// A wiped founder is no promiser: it cannot know whether it served before, so
// that case is left to a person.
func (v *view) promiser(f cluster.Founder) *cluster.HostReport {
	h, ok := v.obs.Host(f.Host)
	if !ok || h.Disk != f.Disk || !h.UnderFence || h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
		return nil
	}
	return h
}
