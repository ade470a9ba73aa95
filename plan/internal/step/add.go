package step

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

// inVain is how many members a host gave up before that is told: one goes as
// hosts come and go.
const inVain = 2

func addCommand(h *cluster.HostReport) string { return "etcdadm member add " + string(h.Host) }

// NoAdd waits until etcd would accept a new member.
func NoAdd(v *View, reason words.Text) *decision.Decision {
	d := decision.Wait(false, "waiting-for-voters", "", "{reason}; etcd accepts no new member until more voters are up{because}", reason, words.Because(v.DownVoters()))
	d.Again = decision.Later
	return d
}

// CatchingUp waits for learners that are on their way.
func CatchingUp(v *View) *decision.Decision {
	s := v.Roster.Learners()[0]
	if s.Host == nil {
		return &decision.Decision{Reason: words.F("learner {learner} waits for its host", words.SeatName(s)), Again: decision.Later}
	}
	return &decision.Decision{Reason: words.F("learner {learner} is catching up: {lag}", words.SeatName(s), sight.Lag(v.Sight, s)), Again: decision.Soon}
}

// Add takes a host one step towards being a learner: prepare it, then add it.
// Its start is finish-joining's.
func Add(v *View, h *cluster.HostReport, reason words.Text) *decision.Decision {
	if n := v.GaveUp(h); n >= inVain {
		reason = words.F("{what} (host {host} gave up {members} members before: look at its etcd.log)", reason, h.Host, n)
	}
	switch run := v.Version(); {
	case run.IsZero():
		return decision.Wait(true, "settling", "", "{reason}; once it is known which release the members run", reason)
	case !run.HasLearners():
		return addVoter(v, h, reason)
	case len(v.Roster.Learners()) >= v.MostLearners():
		return CatchingUp(v)
	case !v.AcceptsAdd():
		return NoAdd(v, reason)
	}
	if starting := v.StartingLearner(); starting != "" {
		// Two joiners that start together wait for each other's answers.
		return &decision.Decision{Reason: words.F("{reason}; once the member of {starting} serves", reason, starting), Again: decision.Soon}
	}
	if !preparedNow(v, h) {
		return prepare(v, h, nil, reason)
	}
	op := cluster.Op{Kind: cluster.OpAddLearner, Host: h.Host, PeerURLs: h.URLs.Peer}
	return Membership(v, v.Projection(0, 0), op, 0, addCommand(h), reason)
}

// Releases before 3.4 have no learners: what is added votes at once, before it
// was ever started (docs/adr/020-old-releases.md). So nobody is added unless
// every voter is up, and the host that is to run it has just said, under this
// fence, that it holds a preparation for exactly these members, has the release,
// and reaches each of them. From one voter to two there is no quorum until the
// second one serves; its preparation is its right to start without one.

// addVoter takes a host one step towards being a voter of a release without
// learners.
func addVoter(v *View, h *cluster.HostReport, reason words.Text) *decision.Decision {
	if !v.AcceptsAdd() {
		return NoAdd(v, reason)
	}
	if len(v.Roster.Voters()) > 1 {
		if d := AwaitAway(v, cluster.Seat{}, words.F("{what}, which votes at once", reason)); d != nil {
			return d
		}
	}
	if !preparedNow(v, h) {
		return prepare(v, h, v.Members(), reason)
	}
	p := v.Projection(1, 0)
	next := append(v.VotersNow(), cluster.Voter{Host: h.Host, Disk: h.Disk, PeerURLs: slices.Clone(sight.Sorted(h.URLs.Peer))})
	op := cluster.Op{Kind: cluster.OpAddVoter, Host: h.Host, PeerURLs: h.URLs.Peer}
	return changeVoters(v, next, p, op, 0, addCommand(h), words.F("{what}, which votes at once in the release that the members run", reason))
}

// prepare has a host write down the members that are, and reach those that it
// has to before it says that it did.
func prepare(v *View, h *cluster.HostReport, reach []cluster.Member, reason words.Text) *decision.Decision {
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("{what}; first it records the current members", reason),
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: addCommand(h), Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpPrepare, Host: h.Host, Known: v.Roster.Guard().Members, Members: reach, Cluster: v.Roster.Cluster,
			Generation: v.Intent.Generation, Nonce: v.Intent.Nonce, Token: v.Intent.Token,
		})}},
	}
}

// preparedNow: the host has written down exactly the members that are listed
// now, so that the one to be added is the only one that it may start.
func preparedNow(v *View, h *cluster.HostReport) bool {
	return h.Local.State == cluster.MemberPrepared && h.Local.Cluster == v.Roster.Cluster &&
		h.Local.Generation == v.Intent.Generation && slices.Equal(h.Local.Known, v.Roster.Guard().Members)
}

func StartJoiner(v *View, h *cluster.HostReport, m cluster.Member) *decision.Decision {
	release, ok := v.VersionFor(h)
	if !ok {
		command, elsewise := path.Download(release)
		return decision.Wait(false, "no-release", command, "host {host} has no etcd {release}, which the cluster runs; {elsewise}", h.Host, release, elsewise)
	}
	p := v.Projection(0, 0)
	m.Name = string(h.Host)
	members := v.Members()
	for i := range members {
		if members[i].ID == m.ID {
			members[i] = m
		}
	}
	return &decision.Decision{
		Reason: words.F("member {member} was added for {host}: start it there", m.ID, h.Host),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: "etcdadm member add " + string(h.Host), Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStart, Host: h.Host, Member: m.ID, Cluster: v.Roster.Cluster, Generation: v.Intent.Generation, Nonce: v.Intent.Nonce,
			Token: v.Intent.Token, Members: members, Version: release, Quarantined: JoinsQuarantined(v, m.ID),
		})}},
	}
}

// JoinsQuarantined reports whether the learner is to be started in quarantine. The one that
// completes the majority of the spec when it is promoted is not: the quarantine
// is lifted at that moment, and until then a learner takes no writes.
func JoinsQuarantined(v *View, id cluster.MemberID) bool {
	if !v.Intent.Quarantined || v.Spec == nil {
		return v.Intent.Quarantined
	}
	n := len(v.Roster.Voters())
	for _, s := range v.Roster.Learners() {
		if n++; s.ID == id {
			break
		}
	}
	return n < v.EnoughForClients()
}
