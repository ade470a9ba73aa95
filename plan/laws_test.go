package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// brokenLaws says which laws a decision breaks: DESIGN.md's laws of floor 0
// and the rules of SAFETY.md that one decision can break. It looks at the
// observation by itself and asks none of the planner's own questions.
func brokenLaws(g decision.Goal, o *cluster.Observation, d decision.Decision) []string {
	l := &laws{goal: g, o: o, d: d}
	l.in = o.Intent()
	l.roster, l.seen = o.Roster()
	if s := wanted(o, l.in); s != nil && s.Validate() == nil {
		l.spec = s
	}
	l.words()
	l.manual()
	if d.Action == nil {
		return l.broken
	}
	l.shape()
	if d.Action.Kind == decision.ActPause || d.Action.Kind == decision.ActManual { // it touches no host and no record
		return l.broken
	}
	l.calm()
	l.halted()
	if d.Action.Kind == decision.ActIntent {
		l.intent(d.Action.Intent)
		return l.broken
	}
	for _, op := range d.Action.Ops {
		l.op(op)
	}
	return l.broken
}

type laws struct {
	goal   decision.Goal
	o      *cluster.Observation
	d      decision.Decision
	in     *cluster.Intent
	spec   *cluster.Spec
	roster cluster.Roster
	seen   bool
	broken []string
}

func (l *laws) must(ok bool, format string, args ...any) bool {
	if !ok {
		l.broken = append(l.broken, fmt.Sprintf(format, args...)+fmt.Sprintf(" [%s: %s, action %s]", l.d.Rule, l.d.Reason, l.d.Action))
	}
	return ok
}

// words: what people read is there.
func (l *laws) words() {
	l.must(l.d.Rule != "" && l.d.Reason.String() != "", "a decision without a rule or a reason")
	for _, b := range l.d.Blockers {
		l.must(b.Code != "" && b.Sentence.String() != "", "a blocker without a code or a sentence: %+v", b)
	}
	l.must(l.d.Action == nil || !l.d.Done && !l.d.Refused, "an action in a decision that is done or refused")
	l.must(!l.d.Refused || len(l.d.Blockers) > 0, "refused without a blocker")
	if l.d.Done && l.goal.Kind == decision.Converge {
		ok := l.spec != nil && l.seen && (l.spec.Hold || len(l.roster.Voters()) == l.spec.MemberCount) && len(l.roster.Up()) == len(l.roster.Voters())
		l.must(ok, "done, and the voters are not what the spec asks for")
	}
}

// shape: one action, one carrier, several ops only side by side.
func (l *laws) shape() {
	a := l.d.Action
	switch a.Kind {
	case decision.ActIntent:
		writes := 0
		for _, in := range []*cluster.Intent{a.Intent.Create, a.Intent.Replace, a.Intent.Keep} {
			if in != nil {
				writes++
			}
		}
		l.must(writes == 1 && len(a.Ops) == 0, "an intent action that is not one write")
	case decision.ActHosts:
		l.must(a.Intent == nil && len(a.Ops) > 0, "a host action without ops")
		for _, op := range a.Ops[min(1, len(a.Ops)):] {
			l.must(op.Op.Kind == a.Ops[0].Op.Kind && (op.Op.Kind == cluster.OpStart && op.Op.Founding || op.Op.Kind == cluster.OpRefuse), "ops that may not run side by side")
		}
		l.must(a.Projection != nil, "a host action without a projection")
	case decision.ActSpec:
		l.putCount(a)
	case decision.ActPause:
		l.pause(a)
	case decision.ActManual:
		l.must(a.Manual != nil && a.Intent == nil && len(a.Ops) == 0 && l.goal.Kind == decision.AutoManage && (a.Manual.Now == nil) == l.goal.Manage.On, "a change of self-management that nobody asked for")
	case decision.ActQueue:
		l.must(a.Queue != nil && a.Intent == nil && len(a.Ops) == 0 && l.spec.AutoRecoverAfter > 0 && (!l.seen || !l.roster.HasQuorum()), "a recovery by itself that nobody asked for")
		l.must(!l.seen || !l.roster.Linearizable || l.roster.Cluster != l.in.Cluster, "a recovery by itself beside a quorum that serves")
	case decision.ActCommand:
		l.must(a.End != nil && a.Intent == nil && len(a.Ops) == 0 && a.End.Name != "" && a.End.Reason != "", "the end of a command without its name or a reason")
	default:
		l.must(false, "an action of kind %q", a.Kind)
	}
}

// calm: nothing at all is done in another cluster's name, between two
// foundings, or without a credential.
func (l *laws) calm() {
	l.must(l.in == nil || l.in.Name == "" || l.in.Name == l.o.Cluster, "an action under another cluster's name")
	l.must(!l.in.Adopted() || l.d.Rule == "generation" && !l.o.Store.Joining || l.adopts(), "an action in a cluster that was not taken over")
	for _, h := range l.o.Hosts {
		if l.in != nil && h.Intent != nil && h.Intent.Generation == l.in.Generation {
			l.must(h.Intent.Nonce == l.in.Nonce, "an action between two foundings")
		}
		if l.in != nil && h.Carries() && h.Local.Generation < l.in.Generation && h.Local.Cluster != 0 && h.Local.Generation != 0 {
			l.must(slices.ContainsFunc(l.in.History, func(g cluster.PastGeneration) bool {
				return g.Generation == h.Local.Generation && (g.Cluster == h.Local.Cluster || g.Cluster == 0)
			}), "an action beside a member of another founding")
		}
		if l.in != nil && h.Status != nil && h.Status.Cluster == l.in.Cluster {
			l.must(!h.Status.Auth, "an action without a credential")
		}
	}
	if st := l.o.Store.Intent; st != nil && l.in != nil && st.Generation == l.in.Generation {
		l.must(st.Nonce == l.in.Nonce, "an action between two foundings, one of them the store's")
	}
	if l.seen && l.in != nil && l.in.State == cluster.IntentFounded && l.in.Cluster != 0 && l.in.Cluster != l.roster.Cluster {
		restart := l.d.Action.Kind == decision.ActHosts && l.d.Action.Ops[0].Op.Kind == cluster.OpRestart
		l.must(restart || l.d.Rule == "identity", "an action on the members of a foreign cluster")
	}
}

func (l *laws) intent(c *decision.IntentChange) {
	if c.Keep != nil {
		l.keep(c.Keep)
		return
	}
	l.must(l.o.Store.Read, "a write of the intent without having read the store")
	switch {
	case c.Create != nil && c.Create.Source.FromData() && c.Create.Nonce == "":
		l.renewal(c.Create)
	case c.Replace != nil && c.Replace.Source.FromData() && c.Replace.Nonce == "":
		l.renewal(c.Replace)
	case c.Create != nil && c.Create.Nonce == "":
		l.founding(c.Create)
	case l.adopts():
		l.adopting(c.Replace)
	case c.Replace != nil && c.Replace.Nonce == "":
		l.refounding(c.Replace)
	case c.Create != nil:
		l.must(!l.o.Store.Marker && c.Create.Order(l.in) == 0, "a marker created that is not what a host keeps")
	default:
		l.must(l.o.Store.Marker, "a marker replaced that does not exist")
		l.must(c.Replace.Order(l.o.Store.Intent) >= 0 && c.Replace.Nonce == l.in.Nonce, "an intent replaced by an older one")
		l.halting(c.Replace)
		l.closing(c.Replace)
	}
}

// keep: only for a person who allowed it, only while the store is silent, and
// nothing is left out of the record that may still be acted on.
func (l *laws) keep(in *cluster.Intent) {
	l.must(l.goal.NoStore && !l.o.Store.Read, "an intent for the hosts alone that nobody allowed")
	l.must(l.seen && l.roster.Linearizable && l.roster.HasQuorum(), "an intent for the hosts alone without a quorum's list")
	var now []cluster.Voter
	for _, s := range l.roster.Voters() {
		now = append(now, cluster.Voter{Member: s.ID})
	}
	l.must(cluster.SameVoters(in.Voters, now) && (cluster.SameVoters(l.in.Voters, now) || cluster.SameVoters(l.in.Next, now)), "an intent for the hosts alone that does not begin with the voters that are, as they were written down")
	l.must(in.Nonce == l.in.Nonce && in.Generation == l.in.Generation && in.Order(l.in) >= 0, "an intent for the hosts alone that is not the newest")
}

func (l *laws) founding(in *cluster.Intent) {
	l.must(l.in == nil && !l.o.Store.Marker, "a founding with an intent in sight")
	l.must(!l.seen, "a founding with members in sight")
	l.must(l.o.Store.Origin == nil, "an empty founding of a cluster that is to begin with data")
	for _, h := range l.o.Hosts {
		l.must(!h.Carries(), "a founding while host %s carries a member", h.Host)
	}
	l.founders(in)
}

func (l *laws) founders(in *cluster.Intent) {
	if !l.must(l.spec != nil, "a founding without a spec") {
		return
	}
	n := len(in.Founders)
	l.must(n <= l.spec.MemberCount && n >= cluster.Quorum(l.spec.MemberCount), "%d founders for %d members", n, l.spec.MemberCount)
	l.must(in.Name == l.o.Cluster && in.State == cluster.IntentFounding && in.Version == l.spec.EtcdVersion, "a founding intent with the wrong fixed part")
	l.must(l.o.Store.Conditional || len(l.spec.Hosts) > 0, "a founding that nothing keeps unique")
	if !l.o.Store.Conditional {
		under := 0
		for _, h := range l.o.Hosts {
			if h.UnderFence && slices.Contains(l.spec.Hosts, h.Host) {
				under++
			}
		}
		l.must(under >= cluster.Quorum(len(l.spec.Hosts)), "an unconditional founding without a majority of the named hosts")
	}
	for i, f := range in.Founders {
		h, ok := l.o.Host(f.Host)
		l.must(ok && h.UnderFence && h.Disk == f.Disk && !h.Carries() && h.CanRun(in.Version), "founder %s is not fit", f.Host)
		for _, p := range in.Founders[:i] {
			l.must(p.Host != f.Host && !slices.ContainsFunc(p.URLs.Peer, func(u string) bool { return slices.Contains(f.URLs.Peer, u) }), "founders %s and %s share what must be one's own", p.Host, f.Host)
		}
		l.must(len(l.spec.Hosts) == 0 || slices.Contains(l.spec.Hosts, f.Host), "founder %s is not named by the spec", f.Host)
	}
}

// refounding: SAFETY.md, rule 13, for the one case that needs no person.
func (l *laws) refounding(in *cluster.Intent) {
	old := l.in
	if !l.must(old != nil && old.State == cluster.IntentFounding && in.Generation == old.Generation+1, "a new generation that supersedes no founding") {
		return
	}
	promised := 0
	for _, f := range old.Founders {
		h, ok := l.o.Host(f.Host)
		if ok && h.Disk == f.Disk && h.UnderFence && !h.Carries() && h.Process.State == cluster.ProcessStopped && h.LowestGeneration >= in.Generation {
			promised++
		}
	}
	l.must(promised >= cluster.Blocking(len(old.Founders)), "a new generation with %d promises of %d", promised, len(old.Founders))
	watched := l.o.Memory.Founding.Generation == old.Generation && !l.o.Memory.Founding.Seen.IsZero() && l.o.At.Sub(l.o.Memory.Founding.Seen) >= sight.FoundingStalled
	l.must(watched || l.o.At.Sub(time.Unix(0, old.Timestamp)) >= sight.FoundingStalled, "a founding superseded too early")
	l.founders(in)
}

func (l *laws) op(x decision.HostOp) {
	h, ok := l.o.Host(x.Host)
	if !l.must(ok, "an op for a host that is not in sight") {
		return
	}
	l.must(h.UnderFence, "an op for host %s, which promised nothing", h.Host)
	l.must(x.Disk == h.Disk && x.Stamp == h.Stamp, "an op that names another disk or look of host %s", h.Host)
	l.stays(x)
	if x.Op.Kind.Membership() {
		l.membership(x, h)
		return
	}
	if l.generationOp(x, h) || l.upkeepOp(x, h) {
		return
	}
	switch x.Op.Kind {
	case cluster.OpPrepare:
		l.must(!h.Carries() && len(h.Foreign) == 0, "host %s is prepared and holds data", h.Host)
		l.must(l.seen && l.roster.Linearizable && slices.Equal(x.Op.Known, l.roster.Guard().Members), "a preparation that does not list the members")
	case cluster.OpStart:
		l.start(x.Op, h)
	case cluster.OpRestart:
		l.restart(x, h)
	case cluster.OpRefuse:
		l.must(l.in.Source.FromData() && x.Op.Generation == l.in.Generation || !h.Carries() && l.in.State == cluster.IntentFounding, "host %s is to refuse a generation that it may have started", h.Host)
	case cluster.OpSetAside:
		l.setAside(h)
	case cluster.OpPause:
		l.granted(x, h)
	default:
		l.must(false, "an op of kind %q", x.Op.Kind)
	}
}

func (l *laws) start(op cluster.Op, h *cluster.HostReport) {
	l.must(!h.Carries(), "host %s is to start a member over data", h.Host)
	l.must(op.Generation == l.in.Generation && op.Nonce == l.in.Nonce && op.Generation >= h.LowestGeneration, "a start of another generation")
	l.must(op.Token == l.in.Token && op.Cluster == l.in.Cluster, "a start of another cluster")
	if op.Founding {
		l.source(op, h)
		f, ok := l.in.Founder(h.Host, h.Disk)
		l.must(ok && f.Member == op.Member, "host %s is to start as a founder and is not that founder", h.Host)
		if l.seen && l.in.State == cluster.IntentFounded {
			_, listed := l.roster.Seat(op.Member)
			l.must(listed, "a founder is to start that is not listed any more")
		}
		return
	}
	s, listed := l.roster.Seat(op.Member)
	if op.Version.HasLearners() {
		l.must(listed && s.Learner && l.roster.Linearizable, "a joiner is to start that is no listed learner")
	} else if l.must(listed && s.Name == "", "a joiner is to start that is no voter which was added") && !l.roster.HasQuorum() {
		l.must(len(l.roster.Seats) == 2 && len(h.Local.Known) == 1, "a joiner is to start without a quorum, and is not the second voter")
	}
	l.must(h.Local.State == cluster.MemberPrepared && !slices.Contains(h.Local.Known, op.Member), "joiner %s has no preparation older than its member", h.Host)
	l.must(h.CanRun(op.Version), "joiner %s cannot run %s", h.Host, op.Version)
}

func (l *laws) restart(x decision.HostOp, h *cluster.HostReport) {
	l.must(h.Local.State == cluster.MemberStarted && x.Op.Member == h.Local.Member && x.Op.Changes == (x.Op.Version != h.Local.Version), "a restart of what host %s does not carry", h.Host)
	if x.Op.Changes {
		l.release(x, h)
	}
	s, listed := l.roster.Seat(h.Local.Member)
	if !l.seen || !l.roster.Linearizable || !l.roster.HasQuorum() {
		m := l.o.Memory.Member(h.Local.Member)
		l.must(x.Op.Failed && h.Process.State == cluster.ProcessBackoff || !h.Local.Run || !m.LeaderlessSince.IsZero() && l.o.At.Sub(m.LeaderlessSince) >= time.Minute, "a restart without a quorum before its time")
		reads := slices.ContainsFunc(l.o.Hosts, func(o cluster.HostReport) bool {
			return o.Local.Generation == l.in.Generation && o.Status != nil && o.Status.Healthy && !o.Status.Learner
		})
		l.must(!reads || l.roster.HasQuorum() || !h.Local.Run, "a restart of what a quorum may hang on that answers reads")
		return
	}
	if !l.must(listed, "a restart of a member that is not listed") || s.Learner || !s.Up {
		return
	}
	l.must(l.othersUp(s.ID), "a planned restart while another voter is not up")
	l.must(len(l.roster.Voters()) == 1 || !s.RaftLeader && x.Guard.NotLeader || s.RaftLeader && !sight.HandsOver(s), "a planned restart of the raft leader")
}

// setAside: SAFETY.md, rule 21.
func (l *laws) setAside(h *cluster.HostReport) {
	if h.Local.Generation < l.in.Generation {
		l.must(slices.ContainsFunc(l.in.History, func(g cluster.PastGeneration) bool {
			return g.Closed && g.Cluster != 0 && g.Cluster == h.Local.Cluster
		}), "data of a cluster that is not closed set aside")
		return
	}
	_, listed := l.roster.Seat(h.Local.Member)
	l.must(l.seen && l.roster.Linearizable && l.roster.HasQuorum() && !listed && h.Local.Generation == l.in.Generation, "data set aside without a quorum's list that does not hold the member")
	l.must(h.Local.Cluster == 0 || h.Local.Cluster == l.roster.Cluster, "data of another cluster set aside")
	m, _ := l.o.Memory.Host(h.Host)
	l.must(m.Fence == l.o.Fence && m.FenceSince.Before(l.o.At), "data set aside on a list that may be older than the promise")
}

// outOfMemory: of two voters the one goes whose data is gone, while the other one is up and
// a read went through both (docs/adr/027-one-gate.md).
func (l *laws) outOfMemory(op cluster.Op) bool {
	id := op.Member
	if op.Kind == cluster.OpMoveLeader { // it leads raft: the other one does, first
		id = 0
		for _, s := range l.roster.Voters() {
			if s.RaftLeader {
				id = s.ID
			}
		}
	}
	s, _ := l.roster.Seat(id)
	return (op.Kind == cluster.OpRemove || op.Kind == cluster.OpMoveLeader) && s.Condition == cluster.ConditionVanished && len(l.roster.Voters()) == 2 && len(l.roster.Up()) == 1
}

func (l *laws) membership(x decision.HostOp, h *cluster.HostReport) {
	if !l.must(l.seen && l.roster.Linearizable && (l.roster.HasQuorum() || l.outOfMemory(x.Op)), "a membership call without a quorum's list") {
		return
	}
	want := l.roster.Guard()
	l.must(x.Guard.Cluster == want.Cluster && slices.Equal(x.Guard.Members, want.Members) && slices.Equal(x.Guard.Voters, want.Voters), "a membership call with another guard than the roster")
	p := l.d.Action.Projection
	if p == nil {
		return
	}
	l.must(p.Voters == len(l.roster.Voters()) && p.Up == len(l.roster.Up()), "a projection that does not begin with what is")
	speaker, ok := l.roster.Seat(h.Local.Member)
	handsOver := x.Op.Kind == cluster.OpMoveLeader && h.UnderFence && (h.Vanished() || l.odd(h.Local.Member)) // it leads raft, from memory or with other keys
	l.databaseOp(x)
	l.must(ok && (speaker.Up || handsOver) && !speaker.Learner, "a membership call through a member that is no voter that is up")
	s, listed := l.roster.Seat(x.Op.Member)
	switch x.Op.Kind {
	case cluster.OpAddLearner:
		l.add(x.Op)
	case cluster.OpAddVoter:
		l.addVoter(x.Op, *p)
	case cluster.OpPromote:
		if l.must(listed && s.Learner, "a promotion of what is no learner") {
			l.promote(s, *p)
		}
	case cluster.OpRemove:
		if l.must(listed, "a removal of what is not listed") && !s.Learner {
			l.must(speaker.ID != s.ID, "a member is to remove itself")
			l.remove(s, *p)
		}
	case cluster.OpUpdateURL:
		l.must(listed && !s.Learner, "an update of the URL of what is no voter")
		for _, other := range l.roster.Seats {
			l.must(other.ID == s.ID || !slices.ContainsFunc(other.PeerURLs, func(u string) bool { return slices.Contains(x.Op.PeerURLs, u) }), "an update to a URL of another member")
		}
	case cluster.OpMoveLeader:
		l.must(listed && s.Up && !s.Learner && speaker.RaftLeader, "raft's leadership moved by or to what cannot")
	}
}

func (l *laws) add(op cluster.Op) {
	h, ok := l.o.Host(op.Host)
	l.must(ok && h.UnderFence && !h.Carries() && h.Local.State == cluster.MemberPrepared && slices.Equal(h.Local.Known, l.roster.Guard().Members), "a learner added for a host that is not prepared for exactly this")
	low := cluster.Version{Major: 99}
	for _, s := range l.roster.Up() {
		if v := s.Host.Local.Version; v.Compare(low) < 0 {
			low = v
		}
	}
	l.must(low.Major == 99 || low.IsZero() || len(l.roster.Learners()) < low.MaxLearners(), "more learners than etcd %s takes", low)
	n := len(l.roster.Voters())
	l.must(n == 1 || len(l.roster.Up()) >= cluster.Quorum(n+1), "an add that etcd refuses")
}

func (l *laws) promote(s cluster.Seat, p cluster.Projection) {
	l.voters(s, p, true)
	if l.in.Quarantined && s.Host != nil && l.spec != nil && !l.spec.Hold {
		l.must(s.Host.Local.Quarantined || p.VotersAfter >= cluster.Quorum(l.spec.MemberCount), "a voter outside of the quarantine before there is a majority of the spec")
	}
	if !l.must(s.Up && s.Host.Status.Learner, "a promotion of a learner that is not up") {
		return
	}
	var top uint64
	for _, x := range l.roster.Seats {
		if x.Host != nil && x.Host.Status != nil {
			top = max(top, x.Host.Status.Index)
		}
	}
	ah, al := bits.Mul64(s.Host.Status.Applied, 10)
	bh, bl := bits.Mul64(top, 9)
	l.must(ah > bh || ah == bh && al >= bl, "a promotion of a learner at %d of %d", s.Host.Status.Applied, top)
}

// addVoter: SAFETY.md, rule 3, and what rule 11 wants written down.
func (l *laws) addVoter(op cluster.Op, p cluster.Projection) {
	h, ok := l.o.Host(op.Host)
	if !l.must(ok && h.UnderFence && !h.Carries(), "a voter added for a host that is not there") {
		return
	}
	l.must(!l.roster.Running().Low.HasLearners(), "a voter added where etcd has learners")
	l.must(l.othersUp(0) && p.VotersAfter == p.Voters+1 && p.UpAfter == p.Up, "a voter added while another one is not up")
	l.must(h.Local.State == cluster.MemberPrepared && slices.Equal(h.Local.Known, l.roster.Guard().Members), "a voter added for a host that is not prepared")
	l.must(l.o.Store.Read && slices.ContainsFunc(l.in.Next, func(w cluster.Voter) bool { return w.Host == h.Host && w.Disk == h.Disk }), "a voter added that is not written down")
}

func (l *laws) othersUp(id cluster.MemberID) bool {
	answers := func(s cluster.Seat) bool { return s.Host != nil && s.Host.Status != nil }
	victim, _ := l.roster.Seat(id)
	for _, s := range l.roster.Voters() {
		if s.ID != id && !s.Up && !(l.odd(s.ID) && (answers(s) || !answers(victim))) {
			return false
		}
	}
	return true
}

// remove: SAFETY.md, rules 3 and 4. A removal with all the others up needs
// no knowledge of the victim; any other one needs its death.
func (l *laws) remove(s cluster.Seat, p cluster.Projection) {
	l.voters(s, p, false)
	l.must(!s.RaftLeader || !s.Up, "the raft leader is to be removed")
	l.excused(s)
	if l.othersUp(s.ID) {
		return
	}
	l.must(!s.Up, "a healthy voter is to be removed while another is not up")
	since := l.o.Memory.Member(s.ID).SilentSince
	limit := cluster.DefaultDeadAfter
	if l.spec != nil && l.spec.DeadAfter > 0 {
		limit = l.spec.DeadAfter
	}
	wiped := s.Host == nil && s.Owner != nil && s.Owner.UnderFence && !s.Owner.Carries() && len(s.Owner.Foreign) == 0 && s.Owner.Process.State == cluster.ProcessStopped
	l.must(!since.IsZero() && (wiped || l.o.At.Sub(since) >= limit), "a voter is to be removed that is not known to be dead")
}

// voters: what holds for every change of the voters (rules 1 and 11).
func (l *laws) voters(s cluster.Seat, p cluster.Projection, joins bool) {
	wanted := p.VotersAfter
	if l.spec != nil && !l.spec.Hold && !l.goal.Hold {
		wanted = l.spec.MemberCount
	}
	l.must(p.Keeps(wanted), "a change of the voters that the margin forbids: %s", p)
	want := p.Voters - 1
	up := p.Up
	if joins {
		want, up = p.Voters+1, p.Up+1
	} else if s.Up {
		up--
	}
	l.must(p.VotersAfter == want && p.UpAfter == up, "a projection that does not end with what will be: %s", p)
	var next []cluster.Voter
	for _, x := range l.roster.Seats {
		if keep := !x.Learner && x.ID != s.ID || joins && x.ID == s.ID; keep {
			next = append(next, cluster.Voter{Member: x.ID})
		}
	}
	if !l.o.Store.Read {
		l.kept(next)
		return
	}
	l.must(l.o.Store.Intent != nil && cluster.SameVoters(l.o.Store.Intent.Next, next), "a change of the voters that is not written down")
}

// kept: a quorum of the voters' hosts keeps the change durably, so that no set
// of hosts that could prove the old voters gone leaves all of them out.
func (l *laws) kept(next []cluster.Voter) {
	l.must(l.goal.NoStore, "a change of the voters without the store that nobody allowed")
	keep := 0
	for _, s := range l.roster.Voters() {
		if s.Host != nil && s.Host.UnderFence && s.Host.Intent != nil && s.Host.Intent.Order(l.in) == 0 && cluster.SameVoters(s.Host.Intent.Next, next) {
			keep++
		}
	}
	l.must(keep >= cluster.Quorum(len(l.roster.Voters())), "a change of the voters that %d hosts keep", keep)
}
