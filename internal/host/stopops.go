package host

import (
	"context"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
)

// restart restarts the own member with other settings; with the same ones it
// is restarted as it is.
func (h *Host) restart(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.keeper.Now()
	l := s.Local
	switch {
	case l.State != cluster.MemberStarting && l.State != cluster.MemberStarted:
		return answer.Refused("host %s has no member to restart", s.Host)
	case member.Mismatch(op, l) != "":
		return answer.Refused("%s", member.Mismatch(op, l))
	case s.Halt() != nil:
		return answer.Refused("generation %d is halted, to be taken to etcd %s", l.Generation, s.Halt().To)
	case l.Generation < s.Floor():
		return answer.Refused("this host refuses generation %d: it accepts %d and higher", l.Generation, s.Floor())
	}
	if reason, hint := h.obstacle(s); reason != "" && h.o.Process.Status().State == cluster.ProcessStopped {
		return answer.RefusedWithHint(hint, "%s", reason)
	}
	launch := *s.Launch
	if !op.Version.IsZero() {
		if r := h.member.MayChangeRelease(ctx, op, launch.Version); r != nil {
			return *r
		}
		launch.Version = op.Version
	}
	if !slices.Contains(h.o.Releases(), launch.Version) {
		return answer.RefusedWithHint("install the release", "host %s does not have etcd %s", s.Host, launch.Version)
	}
	if len(op.PeerURLs) > 0 && !member.SameSet(op.PeerURLs, h.o.URLs.Peer) {
		return answer.Refused("the op restarts the member at %v, but this host listens at %v", op.PeerURLs, h.o.URLs.Peer)
	}
	if cluster.TurnsTLSOn(h.o.URLs.Peer, launch.URLs.Peer) {
		return answer.RefusedWithHint("restart the daemon with its former URLs", "the member of host %s uses TLS with its peers, but its daemon's URLs are without TLS now", s.Host)
	}
	launch.Quarantined, launch.Cut = op.Quarantined, op.Cut
	launch.URLs = h.settings.NextURLs(launch.URLs, len(op.PeerURLs) > 0)
	launch.Adopted = false
	launch.Options, _ = h.settings.Options(launch.Version)
	// A process that is stopped without its log there is lost for good.
	marked, wal, err := h.o.Disk.Data(l.Token, s.Disk)
	switch {
	case err != nil:
		return answer.Failed("look at the data directory: %v", err)
	case record.Judge(l, marked, wal) == record.Forgotten:
		return answer.Refused("the data of member %s is missing: a restart would not bring it back", l.Member)
	}
	if wal { // only the first start reads these, and no later one shall
		launch.InitialCluster, launch.Founding = nil, false
	}
	if op.Failed && launch.Version != s.Launch.Version {
		h.settings.FailRelease(s.Launch.Version)
	}
	return h.relaunch(ctx, s, launch)
}

func (h *Host) relaunch(ctx context.Context, s record.State, launch record.Launch) cluster.ApplyReply {
	same := launch.Same(*s.Launch)
	launch.Nonce = h.o.Mint()
	err := h.keeper.Change(ctx, func(now *record.State) {
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
		return answer.Failed("%v", err)
	}
	h.staging.DropUnstaged(s)
	if launch.Version != s.Launch.Version {
		h.backups.GiveUp()
	}
	if same && h.o.Process.Status().State != cluster.ProcessStopped {
		if err := stopWithin(ctx, h.o.Process); err != nil {
			return answer.Failed("stop member: %v", err)
		}
	}
	return h.ensure(ctx, launch)
}

// stopWithin stops the process, within its bound.
func stopWithin(ctx context.Context, p Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	return p.Stop(ctx)
}

// stop keeps the own member stopped, also over restarts of the daemon.
func (h *Host) stop(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.keeper.Now()
	if reason := member.Mismatch(op, s.Local); reason != "" {
		return answer.Refused("%s", reason)
	}
	if s.Launch == nil {
		return answer.Done("it was so already")
	}
	if err := h.keeper.Change(ctx, func(s *record.State) { s.Local.Run = false }); err != nil {
		return answer.Failed("%v", err)
	}
	if err := stopWithin(ctx, h.o.Process); err != nil {
		return answer.Failed("stop member: %v", err)
	}
	return answer.Done("")
}

// refuse promises never to run a member of a lower generation (rule 13).
func (h *Host) refuse(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	err := h.keeper.Change(ctx, func(s *record.State) {
		s.LowestGeneration = max(s.LowestGeneration, op.Generation)
		if s.Local.State != cluster.MemberNone && s.Local.Generation < s.LowestGeneration {
			s.Local.Run = false
		}
	})
	if err != nil {
		return answer.Failed("%v", err)
	}
	s := h.keeper.Now()
	if s.Launch != nil && s.Local.Generation < s.LowestGeneration {
		ctx, cancel := context.WithTimeout(ctx, stopDeadline)
		defer cancel()
		if err := h.o.Process.Kill(ctx); err != nil {
			return answer.Failed("stop member: %v", err)
		}
	}
	return answer.Done("")
}

// setAside stops a member for good and moves its data away. That it may be
// (rule 21) was decided by who asks; that it is this member's data, and nobody
// holds it, is looked at here.
func (h *Host) setAside(ctx context.Context, op cluster.Op, fence cluster.Fence) cluster.ApplyReply {
	s := h.keeper.Now()
	l := s.Local
	if s.Journal == nil {
		switch {
		case op.Member == 0:
			return answer.Refused("a set-aside that names no member")
		case l.State == cluster.MemberNone && s.GaveUp(op.Member):
			return answer.Done("it was so already")
		case l.State != cluster.MemberStarting && l.State != cluster.MemberStarted && l.State != cluster.MemberRemoved:
			return answer.Refused("host %s carries no member", s.Host)
		case op.Member != l.Member || op.Cluster != knownCluster(s):
			return answer.Refused("the op is about member %s of cluster %s, host %s carries member %s of cluster %s", op.Member, op.Cluster, s.Host, l.Member, l.Cluster)
		}
		op.Token = l.Token
		err := h.keeper.Change(ctx, func(s *record.State) {
			s.Local.State, s.Local.Run, s.Local.Cluster = cluster.MemberRemoved, false, op.Cluster
			s.Journal = &record.Entry{Op: op, Fence: fence, Step: record.MoveData}
		})
		if err != nil {
			return answer.Failed("%v", err)
		}
	} else if s.Journal.Op.Member != op.Member {
		return answer.Refused("the data of member %s is being set aside", s.Journal.Op.Member)
	}
	if err := h.resume(ctx); err != nil {
		return answer.Failed("%v", err)
	}
	return answer.Done("")
}

// knownCluster is the cluster ID of the host's member. A founder that never
// answered has it from the intent that it was founded by.
func knownCluster(s record.State) cluster.ClusterID {
	if s.Local.Cluster == 0 && s.Intent != nil && s.Intent.Generation == s.Local.Generation && s.Intent.Nonce == s.Local.Nonce {
		return s.Intent.Cluster
	}
	return s.Local.Cluster
}
