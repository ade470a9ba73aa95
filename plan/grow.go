package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// grow adds learners, as many at a time as etcd takes, until the voters and
// learners are as many as the spec asks for.
func grow(v *view) *Decision {
	if !v.repairs() {
		return nil
	}
	have := len(v.roster.Seats)
	switch {
	case len(v.roster.Voters()) >= v.wanted():
		return nil
	case have >= v.wanted():
		return v.catchingUp()
	case !v.acceptsAdd():
		return v.noAdd(fmt.Sprintf("%s wanted and %s there", are(v.wanted(), "voter"), are(have, "member")))
	}
	free, why := v.candidates()
	if len(free) == 0 {
		if len(v.roster.Learners()) > 0 {
			return v.catchingUp()
		}
		v.aside("no-host", "", "%s wanted, %s there, and no host is free%s; start another daemon", are(v.wanted(), "voter"), are(len(v.roster.Voters()), "voter"), because(why))
		return nil // the rest can go on without
	}
	reason := fmt.Sprintf("%s wanted and %s there: add %s", are(v.wanted(), "voter"), are(have, "member"), free[0].Host)
	if len(v.roster.Learners()) == 0 {
		if d := v.backupFirst(false, reason); d != nil {
			return d
		}
	}
	return v.add(free[0], reason)
}

// noAdd waits until etcd would accept a new member.
func (v *view) noAdd(reason string) *Decision {
	d := wait(false, "waiting-for-voters", "", "%s; etcd accepts no new member until more voters are up%s", reason, because(v.downVoters()))
	d.Again = later
	return d
}

func versionWords(r cluster.Version) string {
	if r.IsZero() {
		return "of an unknown version"
	}
	return r.String()
}

// catchingUp waits for learners that are on their way.
func (v *view) catchingUp() *Decision {
	s := v.roster.Learners()[0]
	if s.Host == nil {
		return &Decision{Reason: fmt.Sprintf("learner %s waits for its host", seatName(s)), Again: later}
	}
	return &Decision{Reason: fmt.Sprintf("learner %s is catching up: %s", seatName(s), lag(v, s)), Again: soon}
}

// inVain is how many members a host gave up before that is told: one goes as
// hosts come and go.
const inVain = 2

// add takes a host one step towards being a learner: prepare it, then add it.
// Its start is finish-joining's.
func (v *view) add(h *cluster.HostReport, reason string) *Decision {
	if n := v.gaveUp(h); n >= inVain {
		reason += fmt.Sprintf(" (host %s gave up %d members before: look at its etcd.log)", h.Host, n)
	}
	switch run := v.version(); {
	case run.IsZero():
		return wait(true, "settling", "", "%s; once it is known which release the members run", reason)
	case !run.HasLearners():
		return v.addVoter(h, reason)
	case len(v.roster.Learners()) >= v.mostLearners():
		return v.catchingUp()
	case !v.acceptsAdd():
		return v.noAdd(reason)
	}
	if starting := v.startingLearner(); starting != "" {
		// Two joiners that start together wait for each other's answers.
		return &Decision{Reason: fmt.Sprintf("%s; once the member of %s serves", reason, starting), Again: soon}
	}
	if !v.preparedNow(h) {
		return v.prepare(h, nil, reason)
	}
	op := cluster.Op{Kind: cluster.OpAddLearner, Host: h.Host, PeerURLs: h.URLs.Peer}
	return v.membership(v.projection(0, 0), op, 0, addCommand(h), reason)
}

func addCommand(h *cluster.HostReport) string { return "etcdadm member add " + string(h.Host) }

// prepare has a host write down the members that are, and reach those that it
// has to before it says that it did.
func (v *view) prepare(h *cluster.HostReport, reach []cluster.Member, reason string) *Decision {
	p := v.projection(0, 0)
	return &Decision{
		Reason: reason + ", which first writes down the members that are",
		Action: &Action{Kind: ActHosts, Projection: &p, Command: addCommand(h), Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpPrepare, Host: h.Host, Known: v.roster.Guard().Members, Members: reach, Cluster: v.roster.Cluster,
			Generation: v.intent.Generation, Nonce: v.intent.Nonce, Token: v.intent.Token,
		})}},
	}
}

// mostLearners is how many learners every member accepts at a time. Each applies
// an add by its own limit, so that members with different ones end up with
// different lists; where nobody knows what a voter runs, it may have the lowest.
func (v *view) mostLearners() int {
	for _, s := range v.roster.Voters() {
		if s.Release().IsZero() || s.Host.Local.Adopted {
			return 1
		}
	}
	return v.roster.Running().Low.MaxLearners()
}

// preparedNow: the host has written down exactly the members that are listed
// now, so that the one to be added is the only one that it may start.
func (v *view) preparedNow(h *cluster.HostReport) bool {
	return h.Local.State == cluster.MemberPrepared && h.Local.Cluster == v.roster.Cluster &&
		h.Local.Generation == v.intent.Generation && slices.Equal(h.Local.Known, v.roster.Guard().Members)
}
