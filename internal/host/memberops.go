package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/answer"
	"etcdadm.io/internal/host/first"
	"etcdadm.io/internal/host/record"
)

// obstacle says what keeps this host from running a member, "" when nothing
// does.
func (h *Host) obstacle(s record.State) (reason, hint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.blocked.why != "":
		return h.blocked.why, h.blocked.hint
	case s.Journal != nil:
		return "the data of a former member is still being moved aside", ""
	case h.WentBack():
		return "another host has seen a later epoch of this disk: it was rolled back", "reset this host and let it rejoin"
	}
	return "", ""
}

// unfit is obstacle for a member that this host has not carried before: what
// else lies on the disk matters, too.
func (h *Host) unfit(s record.State) (reason, hint string) {
	if reason, hint := h.obstacle(s); reason != "" {
		return reason, hint
	}
	_, foreign, unlisted := h.inventory.Listed()
	theirs := h.takeover.Waits()
	switch {
	case unlisted != nil:
		return fmt.Sprintf("the data directory cannot be listed: %v", unlisted), "repair the disk"
	case theirs != nil:
		return "a member of etcd-manager lies on it: " + theirs.Waits, theirs.Hint
	case len(foreign) > 0:
		return fmt.Sprintf("%s is not accounted for: %s", foreign[0].Dir, foreign[0].Reason), foreignHint(foreign[0])
	}
	return "", ""
}

// prepare writes down which members exist before the one that this host will
// carry is added: the evidence for its first start (SAFETY.md, rule 8b).
func (h *Host) prepare(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	h.inventory.Refresh()
	s := h.keeper.Now()
	want := cluster.LocalMember{
		State: cluster.MemberPrepared, Generation: op.Generation, Nonce: op.Nonce, Token: op.Token,
		Cluster: op.Cluster, Known: slices.Sorted(slices.Values(op.Known)),
	}
	if r := reachAll(ctx, h.o.ID, h.o.Reacher, op.Members); r != nil {
		return *r
	}
	if s.Local.State == cluster.MemberPrepared && samePreparation(s.Local, want) {
		return answer.Done("it was so already")
	}
	if reason, hint := h.unfit(s); reason != "" {
		return answer.RefusedWithHint(hint, "%s", reason)
	}
	switch {
	case s.Local.State != cluster.MemberNone && s.Local.State != cluster.MemberPrepared:
		return answer.Refused("host %s carries member %s (%s)", s.Host, s.Local.Member, s.Local.State)
	case op.Token == "" || op.Cluster == 0 || len(op.Known) == 0:
		return answer.Refused("a preparation without token, cluster or known members")
	case op.Generation < s.Floor():
		return answer.Refused("this host refuses generation %d: it accepts %d and higher", op.Generation, s.Floor())
	case s.Intent != nil && s.Intent.Generation == op.Generation && s.Intent.Nonce != op.Nonce:
		return answer.Refused("generation %d has another nonce in the intent that this host keeps", op.Generation)
	}
	if r := requireEmpty(h.o.Disk, s, op.Token); r != nil {
		return *r
	}
	if err := h.keeper.Change(ctx, func(s *record.State) { s.Local, s.Launch = want, nil }); err != nil {
		return answer.Failed("%v", err)
	}
	return answer.Done("")
}

// reachAll refuses where one of the members cannot be reached at its peer URLs.
// Before a member is added that votes before it was started, this is what can
// be found out about whether it will join.
func reachAll(ctx context.Context, from cluster.HostID, by Reacher, members []cluster.Member) *cluster.ApplyReply {
	for _, m := range members {
		look, cancel := context.WithTimeout(ctx, reachTimeout)
		open, _ := by.Reach(look, m.PeerURLs)
		cancel()
		if !open {
			r := answer.RefusedWithHint("open the peer ports between the hosts", "host %s cannot reach member %s at %s", from, m.ID, strings.Join(m.PeerURLs, ", "))
			return &r
		}
	}
	return nil
}

func samePreparation(a, b cluster.LocalMember) bool {
	return a.Generation == b.Generation && a.Nonce == b.Nonce && a.Token == b.Token && a.Cluster == b.Cluster && slices.Equal(a.Known, b.Known)
}

// requireEmpty makes sure that no member ever ran in the data directory.
func requireEmpty(disk Disk, s record.State, token string) *cluster.ApplyReply {
	_, wal, err := disk.Data(token, s.Disk)
	var r cluster.ApplyReply
	switch {
	case err != nil:
		r = answer.Failed("look at the data directory: %v", err)
	case wal:
		r = answer.Refused("the data directory of %s holds a write-ahead log that this host's state does not list", token)
	default:
		return nil
	}
	return &r
}

// startMember starts a member for the first time, on evidence, or again when
// the record has it as started.
func (h *Host) startMember(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.keeper.Now()
	switch s.Local.State {
	case cluster.MemberStarting, cluster.MemberStarted:
		return h.startAgain(ctx, op, s)
	case cluster.MemberRemoved:
		return answer.Refused("member %s was removed from this host; its data must be set aside first", s.Local.Member)
	}
	h.inventory.Refresh()
	if reason, hint := h.unfit(s); reason != "" {
		return answer.RefusedWithHint(hint, "%s", reason)
	}
	switch {
	case op.Member == 0:
		return answer.Refused("a start without a member ID")
	case s.GaveUp(op.Member):
		return answer.Refused("this disk gave up member %s and never starts it again", op.Member)
	case op.Generation < s.Floor():
		return answer.Refused("this host refuses generation %d: it accepts %d and higher", op.Generation, s.Floor())
	}
	var launch record.Launch
	var local cluster.LocalMember
	var r *cluster.ApplyReply
	if op.Founding {
		launch, local, r = first.Own{Cluster: h.o.ClusterName, URLs: h.o.URLs, Sources: h.o.Sources != nil}.Founder(ctx, h.o.Intents, op, s)
	} else {
		launch, local, r = first.Own{Cluster: h.o.ClusterName, URLs: h.o.URLs, Sources: h.o.Sources != nil}.Joiner(op, s)
	}
	if r != nil {
		return *r
	}
	if !slices.Contains(h.o.Releases(), launch.Version) {
		return answer.RefusedWithHint("install the release", "host %s does not have etcd %s", s.Host, launch.Version)
	}
	return h.firstStart(ctx, s, launch, local, op.Founding && op.Source != nil && op.Source.FromData())
}

// firstStart makes the directory, then the record, then the process. A crash
// after the directory leaves an empty directory of ours; one after the record
// is finished by the next Run.
func (h *Host) firstStart(ctx context.Context, s record.State, launch record.Launch, local cluster.LocalMember, fromData bool) cluster.ApplyReply {
	if fromData {
		if err := h.o.Sources.Install(launch.Token, s.Disk); err != nil {
			if errors.Is(err, fs.ErrNotExist) { // somebody took it away: the leader is to know
				_ = h.keeper.Change(ctx, func(s *record.State) { s.Staged = nil })
			}
			return answer.Failed("move the prepared data into place: %v", err)
		}
	} else {
		if r := requireEmpty(h.o.Disk, s, launch.Token); r != nil {
			return *r
		}
		if err := h.o.Disk.CreateData(launch.Token, s.Disk); err != nil {
			return answer.Failed("make data directory: %v", err)
		}
	}
	h.backups.GiveUp()
	launch.Name, launch.Nonce = s.Host, h.o.Mint()
	if launch.Options == nil || h.Spec() != nil { // else they are what the spec says
		launch.Options, _ = h.settings.Options(launch.Version)
	}
	local.State, local.Run, local.Known, local.Doubt = cluster.MemberStarting, true, nil, cluster.DoubtNone
	local.Version, local.URLs, local.Options, local.Quarantined = launch.Version, launch.URLs, launch.Options, launch.Quarantined
	err := h.keeper.Change(ctx, func(now *record.State) {
		now.Local, now.Launch, now.Before = local, &launch, nil
		if fromData {
			now.Staged = nil
		}
	})
	if err != nil {
		return answer.Failed("%v", err)
	}
	return h.ensure(ctx, launch)
}

// ensure has the process run as recorded.
func (h *Host) ensure(ctx context.Context, l record.Launch) cluster.ApplyReply {
	ctx, cancel := context.WithTimeout(ctx, startDeadline+stopDeadline)
	defer cancel()
	if err := h.o.Process.Ensure(ctx, l, h.evidence.Permit(l.Nonce)); err != nil {
		return answer.Failed("start member: %v", err)
	}
	h.notes.Clear("member-not-started")
	h.evidence.NoticeLog()
	return answer.Done("")
}

// startAgain answers a start of a member that the record has as started.
func (h *Host) startAgain(ctx context.Context, op cluster.Op, s record.State) cluster.ApplyReply {
	switch {
	case s.Local.Member != op.Member || s.Local.Generation != op.Generation:
		return answer.Refused("host %s carries member %s of generation %d already", s.Host, s.Local.Member, s.Local.Generation)
	case s.Local.Generation < s.Floor():
		return answer.Refused("this host refuses generation %d: it accepts %d and higher", op.Generation, s.Floor())
	}
	if reason, hint := h.obstacle(s); reason != "" {
		return answer.RefusedWithHint(hint, "%s", reason)
	}
	err := h.keeper.Change(ctx, func(s *record.State) {
		s.Local.Run = true
		s.Unstage()
	})
	if err != nil {
		return answer.Failed("%v", err)
	}
	h.staging.DropUnstaged(s)
	return h.ensure(ctx, *s.Launch)
}

// forget drops a preparation that was never started.
func (h *Host) forget(ctx context.Context) cluster.ApplyReply {
	s := h.keeper.Now()
	switch s.Local.State {
	case cluster.MemberNone:
		return answer.Done("it was so already")
	case cluster.MemberPrepared:
	default:
		return answer.Refused("host %s carries member %s (%s): set its data aside instead", s.Host, s.Local.Member, s.Local.State)
	}
	if err := h.keeper.Change(ctx, func(s *record.State) { s.Local, s.Launch = cluster.LocalMember{}, nil }); err != nil {
		return answer.Failed("%v", err)
	}
	return answer.Done("")
}
