package generation

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// served: a quorum serves it, and the record is to say so.
func served(m *making) *decision.Decision {
	if m.Seen && m.Roster.Linearizable && m.Roster.HasQuorum() {
		return writeFounded(m.View)
	}
	return nil
}

// begin starts its first member on the host where its data lies ready, or says what that
// waits for.
func begin(m *making) *decision.Decision {
	v, in := m.View, m.Intent
	f := in.Founders[0]
	h, ok := v.Obs.Host(f.Host)
	switch {
	case !ok && v.AnswersSoon(f.Host):
		return &decision.Decision{Reason: words.F("generation {generation} starts on host {host} once that host is free", in.Generation, f.Host), Again: decision.Soon}
	case !ok || !h.UnderFence:
		return decision.Stuck("founder-silent", "", "generation {generation} needs host {host}{busyWith}, which is unreachable or follows another leader; if it is gone for good, queue the command again with --lost {host2}", in.Generation, f.Host, v.BusyWith(f.Host), f.Host)
	case h.LowestGeneration > in.Generation:
		return decision.Wait(true, "founding", "", "generation {generation} cannot begin on host {host}: it refuses generations below {lowestGeneration}{wayOut}", in.Generation, h.Host, h.LowestGeneration, wayOut(v))
	case h.Carries() && h.Local.Generation < in.Generation:
		if !sight.Superseded(v.Sight, h) {
			return decision.Stuck("foreign-data", "", "host {host} holds the data of member {member} of cluster {cluster}, which is not among the generations that were closed; move it away so that generation {generation} can begin there", h.Host, h.Local.Member, h.Local.Cluster, in.Generation)
		}
		return step.SetAsideOp(v, h, "superseded", words.F("host {host} has a member of generation {generation}, which generation {generation2} replaces", h.Host, h.Local.Generation, in.Generation))
	case h.Carries():
		if d := laterLine(v, h); d != nil {
			return d
		}
		return decision.Wait(true, "founding", "", "waiting for the first member of generation {generation} to serve on host {host}: its process is {process}{wayOut}", in.Generation, h.Host, words.ProcessWords(h.Process), wayOut(v))
	case h.Disk != f.Disk || h.Staged == nil || h.Staged.Token != in.Token || h.Staged.State != cluster.StageReady:
		return beginAgain(v, h)
	}
	if why := CannotFound(v, f, h); why != "" {
		return decision.Wait(true, "founding", "", "generation {generation} cannot begin on host {host}: it {why}{wayOut}", in.Generation, h.Host, why, wayOut(v))
	}
	src := in.Source
	return &decision.Decision{
		Reason: words.F("begin generation {generation} on host {host} from {source}", in.Generation, h.Host, SourceWords(src)), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &cluster.Projection{Voters: 1, VotersAfter: 1, UpAfter: 1}, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStart, Host: f.Host, Founding: true, Generation: in.Generation, Nonce: in.Nonce, Token: in.Token, Cluster: in.Cluster,
			Member: f.Member, Members: sight.FounderMembers(in), Version: in.Version, Quarantined: in.Quarantined, Source: &src,
		})}},
	}
}

// beginAgain makes a further generation of the same command, because what was
// staged for this one is gone with its disk. When the source is gone as well,
// nobody but a person can say what the cluster is to be made from.
func beginAgain(v *step.View, h *cluster.HostReport) *decision.Decision {
	for i := range v.Obs.Commands {
		if c := &v.Obs.Commands[i]; c.Name == v.Intent.CommandID {
			return beginGeneration(v, c)
		}
	}
	command, words := otherSource(v)
	return decision.Stuck("founder-forgot", command, "host {host} lost what generation {generation} was to be made from ({source}), and the command is no longer queued{remedy}",
		h.Host, v.Intent.Generation, SourceWords(v.Intent.Source), words)
}

// laterLine restarts the one founder of a generation made from data, whose
// process dies at each start, with the release line above: the data may be of a
// later line than anybody had on record, because it was taken from a host in the
// middle of a change. No older release starts on it, and nothing else serves. A
// backup says itself which release wrote it.
func laterLine(v *step.View, h *cluster.HostReport) *decision.Decision {
	fromHost := v.Intent.Source.Kind == cluster.SourceSurvivor || v.Intent.Source.Kind == cluster.SourceSetAside
	if !fromHost || !v.Stalled() || !h.UnderFence || h.Process.State != cluster.ProcessBackoff || !h.Local.HasData || h.Local.State != cluster.MemberStarted {
		return nil
	}
	var to cluster.Version
	for _, r := range h.Releases {
		if r.Neighbours(h.Local.Version) && r.Compare(h.Local.Version) > 0 && r.Runnable() == nil && r.Compare(to) > 0 {
			to = r
		}
	}
	if to.IsZero() {
		return nil
	}
	op := step.Restart(v, h, fmt.Sprintf("etcd %s does not start on the data", h.Local.Version))
	op.Version, op.Changes, op.Failed, op.Quarantined = to, true, true, v.Intent.Quarantined
	return &decision.Decision{
		Reason: words.F("the first member of generation {generation} does not start with etcd {release}: try {to}, which may have written its data", v.Intent.Generation, h.Local.Version, to), Again: decision.Later,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &cluster.Projection{Voters: 1, VotersAfter: 1}, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, op)}},
	}
}

// wayOut tells a person how to go on from a founding that has had its time.
func wayOut(v *step.View) string {
	if !v.Stalled() {
		return ""
	}
	return "; a further restore, recover or undo command makes a generation in its place"
}
