package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// obstacle says what keeps this host from running a member, "" when nothing
// does.
func (h *Host) obstacle(s record.State) (reason, hint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.blocked != "":
		return "a process is in the way that is not known to be ours: " + h.blocked, "end that process"
	case s.Journal != nil:
		return "the data of a former member is still being set aside", ""
	case h.rolledBack:
		return "a peer remembers a later beat of this disk: it went back in time", "reset this host and let it join anew"
	}
	return "", ""
}

// unfit is obstacle for a member that this host has not carried before: what
// else lies on the disk matters, too.
func (h *Host) unfit(s record.State) (reason, hint string) {
	if reason, hint := h.obstacle(s); reason != "" {
		return reason, hint
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.inventErr != nil:
		return fmt.Sprintf("what lies on the disk cannot be listed: %v", h.inventErr), "repair the disk"
	case h.theirs != nil:
		return "a member of etcd-manager lies on it: " + h.theirs.Waits, h.theirs.Hint
	case len(h.foreign) > 0:
		return fmt.Sprintf("%s is not accounted for: %s", h.foreign[0].Dir, h.foreign[0].Reason), foreignHint(h.foreign[0])
	}
	return "", ""
}

// prepare writes down which members exist before the one that this host will
// carry is added: the evidence for its first start (SAFETY.md, rule 8b).
func (h *Host) prepare(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	h.takeInventory()
	s := h.snapshot()
	want := cluster.LocalMember{
		State: cluster.MemberPrepared, Generation: op.Generation, Nonce: op.Nonce, Token: op.Token,
		Cluster: op.Cluster, Known: slices.Sorted(slices.Values(op.Known)),
	}
	if r := h.reachAll(ctx, op.Members); r != nil {
		return *r
	}
	if s.Local.State == cluster.MemberPrepared && samePreparation(s.Local, want) {
		return done("it was so already")
	}
	if reason, hint := h.unfit(s); reason != "" {
		return refusedWithHint(hint, "%s", reason)
	}
	switch {
	case s.Local.State != cluster.MemberNone && s.Local.State != cluster.MemberPrepared:
		return refused("host %s carries member %s (%s)", s.Host, s.Local.Member, s.Local.State)
	case op.Token == "" || op.Cluster == 0 || len(op.Known) == 0:
		return refused("a preparation without token, cluster or known members")
	case op.Generation < s.Floor():
		return refused("generation %d is refused: this host accepts %d and higher", op.Generation, s.Floor())
	case s.Intent != nil && s.Intent.Generation == op.Generation && s.Intent.Nonce != op.Nonce:
		return refused("generation %d has another nonce in the intent that this host keeps", op.Generation)
	}
	if r := h.requireEmpty(s, op.Token); r != nil {
		return *r
	}
	if err := h.save(ctx, func(s *record.State) { s.Local, s.Launch = want, nil }); err != nil {
		return failed("%v", err)
	}
	return done("")
}

// reachAll refuses where one of the members cannot be reached at its peer URLs.
// Before a member is added that votes before it was started, this is what can
// be found out about whether it will join.
func (h *Host) reachAll(ctx context.Context, members []cluster.Member) *cluster.ApplyReply {
	for _, m := range members {
		look, cancel := context.WithTimeout(ctx, reachTimeout)
		open, _ := h.o.Reacher.Reach(look, m.PeerURLs)
		cancel()
		if !open {
			r := refusedWithHint("let the peer ports through between the hosts", "host %s cannot reach member %s at %s", h.o.ID, m.ID, strings.Join(m.PeerURLs, ", "))
			return &r
		}
	}
	return nil
}

func samePreparation(a, b cluster.LocalMember) bool {
	return a.Generation == b.Generation && a.Nonce == b.Nonce && a.Token == b.Token && a.Cluster == b.Cluster && slices.Equal(a.Known, b.Known)
}

// requireEmpty makes sure that no member ever ran in the data directory.
func (h *Host) requireEmpty(s record.State, token string) *cluster.ApplyReply {
	_, wal, err := h.o.Disk.Data(token, s.Disk)
	var r cluster.ApplyReply
	switch {
	case err != nil:
		r = failed("look at the data directory: %v", err)
	case wal:
		r = refused("the data directory of %s holds a write-ahead log that the host's record does not know", token)
	default:
		return nil
	}
	return &r
}

// startMember starts a member for the first time, on evidence, or again when
// the record has it as started.
func (h *Host) startMember(ctx context.Context, op cluster.Op) cluster.ApplyReply {
	s := h.snapshot()
	switch s.Local.State {
	case cluster.MemberStarting, cluster.MemberStarted:
		return h.startAgain(ctx, op, s)
	case cluster.MemberRemoved:
		return refused("member %s of this host was removed, its data is to be set aside first", s.Local.Member)
	}
	h.takeInventory()
	if reason, hint := h.unfit(s); reason != "" {
		return refusedWithHint(hint, "%s", reason)
	}
	switch {
	case op.Member == 0:
		return refused("a start without a member ID")
	case s.GaveUp(op.Member):
		return refused("this disk carried member %s and gave it up; it is never started here again", op.Member)
	case op.Generation < s.Floor():
		return refused("generation %d is refused: this host accepts %d and higher", op.Generation, s.Floor())
	}
	var launch record.Launch
	var local cluster.LocalMember
	var r *cluster.ApplyReply
	if op.Founding {
		launch, local, r = h.foundersLaunch(ctx, op, s)
	} else {
		launch, local, r = h.joinersLaunch(op, s)
	}
	if r != nil {
		return *r
	}
	if !slices.Contains(h.o.Releases(), launch.Version) {
		return refusedWithHint("install the release", "host %s does not have etcd %s", s.Host, launch.Version)
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
				_ = h.save(ctx, func(s *record.State) { s.Staged = nil })
			}
			return failed("move what was made ready into place: %v", err)
		}
	} else {
		if r := h.requireEmpty(s, launch.Token); r != nil {
			return *r
		}
		if err := h.o.Disk.CreateData(launch.Token, s.Disk); err != nil {
			return failed("make data directory: %v", err)
		}
	}
	h.endBackup()
	launch.Name, launch.Nonce = s.Host, h.o.Mint()
	if launch.Options == nil || h.Spec() != nil { // else they are what the spec says
		launch.Options, _ = h.options(launch.Version)
	}
	local.State, local.Run, local.Known, local.Doubt = cluster.MemberStarting, true, nil, cluster.DoubtNone
	local.Version, local.URLs, local.Options, local.Quarantined = launch.Version, launch.URLs, launch.Options, launch.Quarantined
	err := h.save(ctx, func(now *record.State) {
		now.Local, now.Launch, now.Before = local, &launch, nil
		if fromData {
			now.Staged = nil
		}
	})
	if err != nil {
		return failed("%v", err)
	}
	return h.ensure(ctx, launch)
}

// ensure has the process run as recorded.
func (h *Host) ensure(ctx context.Context, l record.Launch) cluster.ApplyReply {
	ctx, cancel := context.WithTimeout(ctx, startDeadline+stopDeadline)
	defer cancel()
	if err := h.o.Process.Ensure(ctx, l, h.permit(l.Nonce)); err != nil {
		return failed("start member: %v", err)
	}
	h.clear("member-not-started")
	h.noticeLog()
	return done("")
}

// startAgain answers a start of a member that the record has as started.
func (h *Host) startAgain(ctx context.Context, op cluster.Op, s record.State) cluster.ApplyReply {
	switch {
	case s.Local.Member != op.Member || s.Local.Generation != op.Generation:
		return refused("host %s carries member %s of generation %d already", s.Host, s.Local.Member, s.Local.Generation)
	case s.Local.Generation < s.Floor():
		return refused("generation %d is refused: this host accepts %d and higher", op.Generation, s.Floor())
	}
	if reason, hint := h.obstacle(s); reason != "" {
		return refusedWithHint(hint, "%s", reason)
	}
	err := h.save(ctx, func(s *record.State) {
		s.Local.Run = true
		s.Unstage()
	})
	if err != nil {
		return failed("%v", err)
	}
	h.dropUnstaged(s)
	return h.ensure(ctx, *s.Launch)
}

// foundersLaunch is the first start of a founder: the intent, as this host
// reads it by itself, names this disk, and is still being founded. Later than
// that the member list has to have the member (SAFETY.md, rule 12).
func (h *Host) foundersLaunch(ctx context.Context, op cluster.Op, s record.State) (l record.Launch, m cluster.LocalMember, r *cluster.ApplyReply) {
	no := func(format string, args ...any) (record.Launch, cluster.LocalMember, *cluster.ApplyReply) {
		x := refused(format, args...)
		return record.Launch{}, cluster.LocalMember{}, &x
	}
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	in, err := h.o.Intents.ReadIntent(ctx)
	switch {
	case err != nil:
		return no("host %s cannot read the intent by itself: %v", s.Host, err)
	case in == nil || in.Adopted():
		return no("there is no intent in the store that host %s reads", s.Host)
	case in.Name != h.o.ClusterName:
		return no("the intent is of the cluster %q", in.Name)
	case in.Generation != op.Generation || in.Nonce != op.Nonce:
		return no("host %s reads generation %d with nonce %q, the op is for generation %d with nonce %q", s.Host, in.Generation, in.Nonce, op.Generation, op.Nonce)
	case in.Token == "":
		return no("the intent has no token")
	}
	f, named := in.Founder(s.Host, s.Disk)
	switch {
	case !named:
		return no("the intent does not name disk %s of host %s as a founder", s.Disk, s.Host)
	case f.Member != op.Member:
		return no("the intent gives this founder member %s, the op member %s", f.Member, op.Member)
	case !sameSet(f.URLs.Peer, h.o.URLs.Peer):
		return no("the intent was written for the peer URLs %v, this host listens at %v", f.URLs.Peer, h.o.URLs.Peer)
	case !op.Version.IsZero() && !in.Version.IsZero() && op.Version != in.Version:
		return no("the intent founds with etcd %s, the op with %s", in.Version, op.Version)
	}
	fromData := op.Source != nil && op.Source.FromData()
	if in.Source.FromData() != fromData || fromData && (*op.Source != in.Source || h.o.Sources == nil) {
		return no("the intent makes generation %d from another source than the op", in.Generation)
	}
	if fromData {
		if why := h.sourceLaunch(in, f, s); why != "" {
			return no("%s", why)
		}
	}
	switch in.State {
	case cluster.IntentFounding:
	case cluster.IntentFounded:
		if _, listed := find(cluster.MemberView{Members: op.Members}, op.Member); !listed {
			return no("generation %d is founded, and member %s is not in its list", in.Generation, op.Member)
		}
	default:
		return no("the intent is in the state %q", in.State)
	}
	l = record.Launch{Version: in.Version, Token: in.Token, URLs: h.o.URLs, Founding: true, Quarantined: op.Quarantined || in.Quarantined}
	if l.Version.IsZero() {
		l.Version = op.Version
	}
	for _, f := range in.Founders {
		l.InitialCluster = append(l.InitialCluster, cluster.Member{ID: f.Member, Name: string(f.Host), PeerURLs: slices.Clone(f.URLs.Peer)})
	}
	m = cluster.LocalMember{Generation: in.Generation, Nonce: in.Nonce, Token: in.Token, Cluster: in.Cluster, Member: f.Member}
	return l, m, nil
}

// joinersLaunch is the first start of a member that was added to a cluster:
// this disk holds a preparation from before the add (SAFETY.md, rule 8b).
func (h *Host) joinersLaunch(op cluster.Op, s record.State) (l record.Launch, m cluster.LocalMember, r *cluster.ApplyReply) {
	no := func(format string, args ...any) (record.Launch, cluster.LocalMember, *cluster.ApplyReply) {
		x := refused(format, args...)
		return record.Launch{}, cluster.LocalMember{}, &x
	}
	p := s.Local
	own, listed := find(cluster.MemberView{Members: op.Members}, op.Member)
	switch {
	case p.State != cluster.MemberPrepared:
		return no("host %s holds no preparation for a member, so nothing proves that its disk never forgot member %s", s.Host, op.Member)
	case p.Generation != op.Generation || p.Nonce != op.Nonce || p.Cluster != op.Cluster:
		return no("host %s is prepared for generation %d of cluster %s, the op is for generation %d of cluster %s", s.Host, p.Generation, p.Cluster, op.Generation, op.Cluster)
	case slices.Contains(p.Known, op.Member):
		return no("member %s existed before host %s was prepared, so it is not this disk's", op.Member, s.Host)
	case !listed:
		return no("the op's member list does not have member %s", op.Member)
	case !sameSet(own.PeerURLs, h.o.URLs.Peer):
		return no("member %s was added with the peer URLs %v, this host listens at %v", op.Member, own.PeerURLs, h.o.URLs.Peer)
	}
	l = record.Launch{Version: op.Version, Token: p.Token, URLs: h.o.URLs, Quarantined: op.Quarantined}
	l.InitialCluster = namedMembers(op.Members, op.Member, s.Host)
	p.Member, p.State = op.Member, cluster.MemberStarting
	return l, p, nil
}

// forget drops a preparation that was never started.
func (h *Host) forget(ctx context.Context) cluster.ApplyReply {
	s := h.snapshot()
	switch s.Local.State {
	case cluster.MemberNone:
		return done("it was so already")
	case cluster.MemberPrepared:
	default:
		return refused("host %s carries member %s (%s): that is set aside, not forgotten", s.Host, s.Local.Member, s.Local.State)
	}
	if err := h.save(ctx, func(s *record.State) { s.Local, s.Launch = cluster.LocalMember{}, nil }); err != nil {
		return failed("%v", err)
	}
	return done("")
}
