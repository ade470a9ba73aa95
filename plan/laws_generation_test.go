package plan

import (
	"slices"

	"etcdadm.io/cluster"
)

// renewal: a new generation from data is written only with everything ready:
// the source under a token that no intent ever named, the voters of what it
// supersedes in the history, and its command in the list of those that were run.
func (l *laws) renewal(in *cluster.Intent) {
	old := l.in
	if !l.must(len(in.Founders) == 1, "a generation from data with %d founders", len(in.Founders)) {
		return
	}
	f := in.Founders[0]
	h, ok := l.o.Host(f.Host)
	if !l.must(ok && h.UnderFence && h.Disk == f.Disk && h.Staged != nil, "a founder with nothing staged") {
		return
	}
	s := h.Staged
	l.must(s.State == cluster.StageReady && s.Token == in.Token && s.Source == in.Source && s.Version == in.Version && s.Command == in.CommandID, "an intent that does not name what lies ready")
	l.must(slices.Contains(in.CommandsRun, in.CommandID), "a generation whose command may be run again")
	l.must(in.Source.RevisionTarget > l.o.Recorded.Revision, "a revision target below what was recorded")
	for _, g := range l.o.Hosts {
		l.must(in.Generation >= g.LowestGeneration, "a generation that host %s refuses", g.Host)
	}
	if old == nil {
		return
	}
	l.must(in.Token != old.Token && !old.ClosedCluster(s.Cluster), "a token that an intent named before")
	l.must(in.Generation > old.Generation, "a generation that is not higher")
	for _, c := range old.CommandsRun {
		l.must(slices.Contains(in.CommandsRun, c), "a command that was run is forgotten")
	}
	last := in.History[len(in.History)-1]
	l.must(last.Generation == old.Generation && last.Cluster == old.Cluster && (!last.Closed || old.Generation == 0), "what is superseded is not in the history, open")
	l.must(old.Generation == 0 || len(last.Voters) > 0, "what is superseded has no voters in the history")
	if len(old.Next) > 0 && len(last.Voters) > 0 {
		l.must(cluster.SameVoters(last.Voters[len(last.Voters)-1], old.Next), "a voter set that was about to be is not in the history")
	}
}

// closing: a generation is closed only on promises.
func (l *laws) closing(in *cluster.Intent) {
	for i, g := range in.History {
		if !g.Closed || i >= len(l.in.History) || l.in.History[i].Closed {
			continue
		}
		for _, set := range g.Voters {
			n := 0
			for _, w := range set {
				gone := slices.Contains(in.Lost, w.Host)
				for _, h := range l.o.Hosts {
					speaks := h.Host == w.Host || slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return slices.Contains(w.PeerURLs, u) })
					floor := h.LowestGeneration
					if h.Intent != nil {
						floor = max(floor, h.Intent.Generation)
					}
					gone = gone || speaks && h.UnderFence && h.Process.State == cluster.ProcessStopped && floor >= in.Generation
				}
				if gone {
					n++
				}
			}
			l.must(n >= cluster.Blocking(len(set)), "generation %d closed on %d promises of %d voters", g.Generation, n, len(set))
		}
	}
	if l.in.Quarantined && !in.Quarantined && l.in.Generation == in.Generation {
		l.must(len(l.roster.Up()) >= cluster.Quorum(l.spec.MemberCount) || l.spec.Hold, "a quarantine lifted before a majority of the spec is up")
	}
}

// source: the founder of a generation from data starts only what lies ready,
// when all before it is closed.
func (l *laws) source(op cluster.Op, h *cluster.HostReport) {
	if !l.in.Source.FromData() {
		return
	}
	open := slices.ContainsFunc(l.in.History, func(g cluster.PastGeneration) bool { return !g.Closed })
	l.must(!open && l.in.State == cluster.IntentFounding, "a start before every earlier generation is closed, or after the founding")
	l.must(op.Source != nil && *op.Source == l.in.Source && h.Staged != nil && h.Staged.Token == l.in.Token, "a start from something else than lies ready")
}

// generationOp are the laws of ops that only generations and backups have.
func (l *laws) generationOp(x HostOp, h *cluster.HostReport) bool {
	switch x.Op.Kind {
	case cluster.OpStage:
		l.must(x.Op.Source != nil && x.Op.Command != "" && h.CanRun(x.Op.Version) && len(h.Foreign) == 0, "a stage that host %s cannot make", h.Host)
	case cluster.OpBackup:
		s, listed := l.roster.Seat(h.Local.Member)
		l.must(listed && s.Up && !s.Learner, "a backup through a member that is no voter that is up")
	case cluster.OpDrill:
		l.must(x.Op.Backup != "", "a drill of no backup")
	case cluster.OpStop:
		l.must(!l.seen || !l.roster.HasQuorum(), "a member stopped that may be part of a quorum")
	default:
		return false
	}
	return true
}
