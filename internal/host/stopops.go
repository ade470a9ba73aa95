package host

import (
	"context"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// mismatch says that an op is about another member than the host's; "" when it
// is about this one, or names none.
func mismatch(op cluster.Op, l cluster.LocalMember) string {
	if op.Member != 0 && op.Member != l.Member || op.Cluster != 0 && l.Cluster != 0 && op.Cluster != l.Cluster {
		return "the op is about member " + op.Member.String() + " of cluster " + op.Cluster.String() +
			", the host carries member " + l.Member.String() + " of cluster " + l.Cluster.String()
	}
	return ""
}

// restart restarts the own member with other settings; with the same ones it
// is restarted as it is.
func (h *Host) restart(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.snapshot()
	l := s.Local
	switch {
	case l.State != cluster.MemberStarting && l.State != cluster.MemberStarted:
		return refused("host %s has no member to restart", s.Host)
	case mismatch(op, l) != "":
		return refused("%s", mismatch(op, l))
	case s.Halt() != nil:
		return refused("generation %d is halted, to be taken to etcd %s", l.Generation, s.Halt().To)
	case l.Generation < s.Floor():
		return refused("generation %d is refused: this host accepts %d and higher", l.Generation, s.Floor())
	}
	if reason, hint := h.obstacle(s); reason != "" && h.o.Process.Status().State == cluster.ProcessStopped {
		return refusedWithHint(hint, "%s", reason)
	}
	launch := *s.Launch
	if !op.Version.IsZero() {
		if r := h.mayChangeRelease(ctx, op, launch.Version); r != nil {
			return *r
		}
		launch.Version = op.Version
	}
	if !slices.Contains(h.o.Releases(), launch.Version) {
		return refusedWithHint("install the release", "host %s does not have etcd %s", s.Host, launch.Version)
	}
	if len(op.PeerURLs) > 0 && !sameSet(op.PeerURLs, h.o.URLs.Peer) {
		return refused("the op restarts the member at %v, this host listens at %v", op.PeerURLs, h.o.URLs.Peer)
	}
	if cluster.TurnsTLSOn(h.o.URLs.Peer, launch.URLs.Peer) {
		return refusedWithHint("restart its daemon with the URLs that it had", "the member of host %s speaks TLS with its peers, and would be started without certificates now", s.Host)
	}
	launch.Quarantined, launch.Cut = op.Quarantined, op.Cut
	launch.URLs = h.nextURLs(launch.URLs, len(op.PeerURLs) > 0)
	launch.Adopted = false
	launch.Options, _ = h.options(launch.Version)
	// A process that is stopped without its log there is lost for good.
	marked, wal, err := h.o.Disk.Data(l.Token, s.Disk)
	switch {
	case err != nil:
		return failed("look at the data directory: %v", err)
	case record.Judge(l, marked, wal) == record.Forgotten:
		return refused("the data of member %s is not there: it could not be started again", l.Member)
	}
	if wal { // only the first start reads these, and no later one shall
		launch.InitialCluster, launch.Founding = nil, false
	}
	if op.Failed && launch.Version != s.Launch.Version {
		h.mu.Lock()
		h.failedRelease = s.Launch.Version
		h.mu.Unlock()
	}
	return h.relaunch(ctx, s, launch)
}

// nextURLs are those that a member that listened at was is started with now. TLS
// for its peers is turned on on a leader's word only, because the others have to be
// able to follow, and never off.
func (h *Host) nextURLs(was cluster.URLs, told bool) cluster.URLs {
	next := record.CopyURLs(h.o.URLs)
	if !told && (cluster.TurnsTLSOn(was.Peer, next.Peer) || cluster.TurnsTLSOn(next.Peer, was.Peer)) {
		next.Peer = slices.Clone(was.Peer)
	}
	return next
}

// mayChangeRelease refuses a release that etcd would not start with beside the
// others: one below the line that the members have agreed on, or more than one
// above it. It asks the own member, so that no leader with an old idea of the
// cluster can put the member down for good. One that does not run has nothing to
// lose, and only its host's leader knows the others.
func (h *Host) mayChangeRelease(ctx context.Context, op cluster.Op, runs cluster.Version) *cluster.ApplyReply {
	if op.Version == runs {
		return nil
	}
	if !op.Changes {
		r := refused("the op restarts etcd %s, and host %s runs %s", op.Version, h.o.ID, runs)
		return &r
	}
	if p := h.o.Process.Status().State; op.Version.SameMinor(runs) || p == cluster.ProcessBackoff || p == cluster.ProcessStopped {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	a, err := h.member().Agreed(ctx)
	agreed, line := a.Version, op.Version.Base()
	var r cluster.ApplyReply
	switch {
	case err != nil:
		r = refused("host %s cannot tell which version the members have agreed on: %v", h.o.ID, err)
	case a.Downgrade && line != agreed:
		r = refused("etcd has a downgrade under way that etcd %s has no part in", op.Version)
	case agreed.IsZero(), line != agreed && !(line.Neighbours(agreed) && line.Compare(agreed) > 0):
		r = refused("the members have agreed on etcd %s, and etcd %s does not start beside that", agreed, op.Version)
	default:
		return nil
	}
	return &r
}

func (h *Host) relaunch(ctx context.Context, s record.State, launch record.Launch) cluster.ApplyReply {
	same := launch.Same(*s.Launch)
	launch.Nonce = h.o.Mint()
	err := h.save(ctx, func(now *record.State) {
		if launch.Version != now.Launch.Version {
			now.Local.Previous = now.Launch.Version
		}
		now.KeepBefore(launch)
		now.Launch = &launch
		now.Local.Cut, now.Local.Adopted = launch.Cut, launch.Adopted
		now.Local.Run, now.Local.Version, now.Local.URLs = true, launch.Version, launch.URLs
		now.Local.Options, now.Local.Quarantined = launch.Options, launch.Quarantined
		now.Unstage()
	})
	if err != nil {
		return failed("%v", err)
	}
	h.dropUnstaged(s)
	if launch.Version != s.Launch.Version {
		h.endBackup()
	}
	if same && h.o.Process.Status().State != cluster.ProcessStopped {
		if err := h.halt(ctx); err != nil {
			return failed("stop member: %v", err)
		}
	}
	return h.ensure(ctx, launch)
}

// halt stops the process, within its bound.
func (h *Host) halt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	return h.o.Process.Stop(ctx)
}

// stop keeps the own member stopped, also over restarts of the daemon.
func (h *Host) stop(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.snapshot()
	if reason := mismatch(op, s.Local); reason != "" {
		return refused("%s", reason)
	}
	if s.Launch == nil {
		return done("it was so already")
	}
	if err := h.save(ctx, func(s *record.State) { s.Local.Run = false }); err != nil {
		return failed("%v", err)
	}
	if err := h.halt(ctx); err != nil {
		return failed("stop member: %v", err)
	}
	return done("")
}

// refuse promises never to run a member of a lower generation (rule 13).
func (h *Host) refuse(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	err := h.save(ctx, func(s *record.State) {
		s.LowestGeneration = max(s.LowestGeneration, op.Generation)
		if s.Local.State != cluster.MemberNone && s.Local.Generation < s.LowestGeneration {
			s.Local.Run = false
		}
	})
	if err != nil {
		return failed("%v", err)
	}
	s := h.snapshot()
	if s.Launch != nil && s.Local.Generation < s.LowestGeneration {
		ctx, cancel := context.WithTimeout(ctx, stopDeadline)
		defer cancel()
		if err := h.o.Process.Kill(ctx); err != nil {
			return failed("stop member: %v", err)
		}
	}
	return done("")
}

// setAside stops a member for good and moves its data away. That it may be
// (rule 21) was decided by who asks; that it is this member's data, and nobody
// holds it, is looked at here.
func (h *Host) setAside(ctx context.Context, op cluster.Op, fence cluster.Fence) cluster.ApplyReply {
	s := h.snapshot()
	l := s.Local
	if s.Journal == nil {
		switch {
		case op.Member == 0:
			return refused("a set-aside that names no member")
		case l.State == cluster.MemberNone && s.GaveUp(op.Member):
			return done("it was so already")
		case l.State != cluster.MemberStarting && l.State != cluster.MemberStarted && l.State != cluster.MemberRemoved:
			return refused("host %s carries no member", s.Host)
		case op.Member != l.Member || op.Cluster != knownCluster(s):
			return refused("the op is about member %s of cluster %s, host %s carries member %s of cluster %s", op.Member, op.Cluster, s.Host, l.Member, l.Cluster)
		}
		op.Token = l.Token
		err := h.save(ctx, func(s *record.State) {
			s.Local.State, s.Local.Run, s.Local.Cluster = cluster.MemberRemoved, false, op.Cluster
			s.Journal = &record.Entry{Op: op, Fence: fence, Step: record.MoveData}
		})
		if err != nil {
			return failed("%v", err)
		}
	} else if s.Journal.Op.Member != op.Member {
		return refused("the data of member %s is being set aside", s.Journal.Op.Member)
	}
	if err := h.resume(ctx); err != nil {
		return failed("%v", err)
	}
	return done("")
}

// knownCluster is the cluster ID of the host's member. A founder that never
// answered has it from the intent that it was founded by.
func knownCluster(s record.State) cluster.ClusterID {
	if s.Local.Cluster == 0 && s.Intent != nil && s.Intent.Generation == s.Local.Generation && s.Intent.Nonce == s.Local.Nonce {
		return s.Intent.Cluster
	}
	return s.Local.Cluster
}
