package plan

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
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
	l.count(in)
	for _, g := range l.o.Hosts {
		l.must(in.Generation >= g.LowestGeneration, "a generation that host %s refuses", g.Host)
	}
	if old == nil {
		return
	}
	l.must(in.Token != old.Token && !old.ClosedCluster(s.Cluster), "a token that an intent named before")
	l.must(in.Generation > old.Generation, "a generation that is not higher")
	l.must(in.Source.RevisionTarget >= old.Source.RevisionTarget+cluster.RevisionMargin, "a revision target that the generation before may have reached")
	for _, c := range old.CommandsRun {
		l.must(slices.Contains(in.CommandsRun, c), "a command that was run is forgotten")
	}
	last := in.History[len(in.History)-1]
	l.must(last.Generation == old.Generation && last.Cluster == old.Cluster && (!last.Closed || old.Generation == 0), "what is superseded is not in the history, open")
	l.must(old.Generation == 0 || len(last.Voters) > 0, "what is superseded has no voters in the history")
	has := func(set []cluster.Voter) bool {
		return len(set) == 0 || len(last.Voters) == 0 || slices.ContainsFunc(last.Voters, func(o []cluster.Voter) bool { return cluster.SameVoters(o, set) })
	}
	l.must(has(old.Next), "a voter set that was about to be is not in the history")
	var now []cluster.Voter
	for _, s := range l.roster.Voters() {
		now = append(now, cluster.Voter{Member: s.ID})
	}
	l.must(!l.seen || old.Cluster == 0 || l.roster.Cluster != old.Cluster || has(now), "the voters in sight are not in the history")
	l.founderFit(h, s)
	l.survivor(in, h)
	l.fromHalted(in, h)
	l.consent(in)
}

// founderFit: what would keep the founder from being started is known before
// anything is stopped, and its quarantine can be lifted.
func (l *laws) founderFit(h *cluster.HostReport, s *cluster.Staged) {
	l.must(len(h.Foreign) == 0 && h.Process.State != cluster.ProcessForeign && !slices.ContainsFunc(h.Problems, func(p cluster.Problem) bool { return p.Unfit }), "a founder that cannot be started")
	l.must(slices.Equal(s.PeerURLs, h.URLs.Peer), "a founder that listens elsewhere than its data was built for")
	able, spec := 0, wanted(l.o, written(l.d.Action.Intent))
	for _, o := range l.o.Hosts {
		if o.CanRun(s.Version) || spec.EtcdVersion.SameMinor(s.Version) && o.CanRun(spec.EtcdVersion) {
			able++
		}
	}
	l.must(able >= min(cluster.Quorum(spec.MemberCount), len(l.o.Hosts)), "a generation of etcd %s, which %d hosts in sight have", s.Version, able)
}

// survivor: its member is stopped, and the furthest of so many logs that none
// with an acknowledged write can be missing, but for those a person called lost.
func (l *laws) survivor(in *cluster.Intent, h *cluster.HostReport) {
	if in.Source.Kind != cluster.SourceSurvivor {
		return
	}
	l.must(!h.Local.Run && h.Process.State == cluster.ProcessStopped && h.Log != nil, "a survivor that may have written since its log was read")
	if h.Log == nil || in.CommandID == l.in.CommandID || h.Local.Generation != l.in.Generation {
		return
	}
	known := 0
	for _, w := range l.in.Voters {
		i := slices.IndexFunc(l.o.Hosts, func(o cluster.HostReport) bool { return o.Local.Member == w.Member && o.Log != nil })
		if i >= 0 {
			l.must(!h.Log.Before(*l.o.Hosts[i].Log), "a survivor behind host %s", l.o.Hosts[i].Host)
		}
		if i >= 0 || slices.Contains(in.Lost, w.Host) {
			known++
		}
	}
	l.must(known >= cluster.Blocking(len(l.in.Voters)), "a survivor of which nobody knows whether it is the furthest: %d logs of %d", known, len(l.in.Voters))
}

// consent: whom a person calls lost is not alive as far as can be known.
func (l *laws) consent(in *cluster.Intent) {
	if !l.seen || !l.roster.Linearizable || l.roster.Cluster != l.in.Cluster {
		return
	}
	rest := 0
	for _, s := range l.roster.Voters() {
		if s.Host != nil || !slices.Contains(in.Lost, s.HostID) {
			rest++
		}
	}
	l.must(rest >= cluster.Quorum(len(l.roster.Voters())), "hosts named lost of which some just took part in a read")
}

// closing: a generation is closed only on promises.
func (l *laws) closing(in *cluster.Intent) {
	for _, h := range l.o.Hosts {
		l.must(l.in.Covers(h.Intent) || !l.closes(in), "a generation closed while host %s keeps voters of it that nobody asked", h.Host)
	}
	for i, g := range in.History {
		if !g.Closed || i >= len(l.in.History) || l.in.History[i].Closed {
			continue
		}
		for _, set := range g.Voters {
			n := 0
			for _, w := range set {
				gone := slices.Contains(in.Lost, w.Host)
				for _, h := range l.o.Hosts {
					speaks := h.Host == w.Host || !slices.ContainsFunc(set, func(o cluster.Voter) bool { return o.Host == h.Host }) &&
						slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return slices.Contains(w.PeerURLs, u) })
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

// closes: the write closes a generation that was open.
func (l *laws) closes(in *cluster.Intent) bool {
	for i, g := range in.History {
		if g.Closed && i < len(l.in.History) && !l.in.History[i].Closed {
			return true
		}
	}
	return false
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
func (l *laws) generationOp(x decision.HostOp, h *cluster.HostReport) bool {
	switch x.Op.Kind {
	case cluster.OpStage:
		l.must(x.Op.Source != nil && x.Op.Command != "" && h.CanRun(x.Op.Version) && len(h.Foreign) == 0, "a stage that host %s cannot make", h.Host)
	case cluster.OpBackup:
		s, listed := l.roster.Seat(h.Local.Member)
		l.must(listed && s.Up && !s.Learner, "a backup through a member that is no voter that is up")
	case cluster.OpDrill:
		l.must(x.Op.Backup != "" || x.Op.Keys && !x.Op.Version.IsZero(), "a drill of no backup")
	case cluster.OpPrune:
		l.prune(x, h)
	case cluster.OpStop:
		l.must(!l.seen || !l.roster.HasQuorum(), "a member stopped that may be part of a quorum")
	default:
		return false
	}
	return true
}
