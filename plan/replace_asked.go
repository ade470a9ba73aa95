package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// Replaced is the voter that a person wants replaced, as it was when that was asked
// for: once it is removed, only this tells what was wanted.
type Replaced struct {
	Member cluster.MemberID `json:"member"`
	Host   cluster.HostID   `json:"host,omitempty"` // whose member it was, where that is known
	Voters int              `json:"voters"`         // that there were, and are to be again
}

// notedReplaced is the goal with the voter that it is about.
func (g Goal) notedReplaced(o *cluster.Observation) Goal {
	r, _ := o.Roster()
	if g.Replaced != nil || !r.Linearizable {
		return g
	}
	for _, s := range r.Voters() {
		if g.names(s) {
			g.Replaced = &Replaced{Member: s.ID, Host: carrierOf(s), Voters: len(r.Voters())}
			if in := o.Intent(); in != nil && in.Replacing != nil && in.Replacing.Member == s.ID {
				g.Replaced.Voters = in.Replacing.Voters // it was asked for before, and its successor may have a vote already
			}
		}
	}
	return g
}

// carrierOf is whose member it is or was.
func carrierOf(s cluster.Seat) cluster.HostID {
	if s.HostID == "" && s.Owner != nil {
		return s.Owner.Host
	}
	return s.HostID
}

// replaceAsked has another member take the place of the voter that a person named. A
// backup comes first. Where a host is free and etcd accepts a learner, the successor is
// a voter before the other one is removed, so that never fewer are up than are now.
// Where etcd accepts none (two of three are up), or no host is free, the voter goes
// first, which only one that is not up does: the voters that are up, and how many of
// them may fail, stay what they are (SAFETY.md, rules 1 and 4). With no host free, its
// own host then carries the successor.
func replaceAsked(v *view) *Decision {
	r := v.goal.Replaced
	if r == nil {
		if _, d := v.target(); d != nil {
			return d
		}
		return refuse("not-a-voter", "etcdadm member remove "+v.goal.object(), "%s is a learner, which has no vote: remove it, and another is added in its place", v.goal.object())
	}
	s, listed := v.roster.Seat(r.Member)
	if !listed {
		return v.takePlace(r)
	}
	reason := fmt.Sprintf("replace %s, as asked", seatName(s))
	if d := v.backupFirstOr("etcdadm member replace "+seatName(s)+" --no-backup", backupBeforeChange, true, reason); d != nil {
		return d
	}
	if len(v.roster.Voters()) > r.Voters && (v.goal.By == "" || v.votes(v.goal.By)) {
		return v.takeAway(s, reason+": its successor is a voter")
	}
	if d := v.promoteSuccessor(); d != nil {
		return d
	}
	return v.succeed(s, reason)
}

// succeed begins with the successor of a voter that is listed.
func (v *view) succeed(s cluster.Seat, reason string) *Decision {
	h, why := v.successor(carrierOf(s))
	switch {
	case h != nil && (v.acceptsAdd() || s.Up):
		return v.add(h, fmt.Sprintf("%s: add %s, which will take its place", reason, h.Host))
	case h != nil:
		return v.takeAway(s, fmt.Sprintf("%s: remove it first, since etcd accepts no new member while it is down and listed; host %s is ready", reason, h.Host))
	case v.goal.By != "":
		return v.notYet("host-unfit", "host %s cannot take the place of %s%s", v.goal.By, seatName(s), because(why))
	case len(v.roster.Voters()) == 1:
		return v.notYet("no-host", "%s is the only voter, and no host is free to take its place%s: start a daemon on another host", seatName(s), because(why))
	case s.Up:
		return v.notYet("no-host", "no host is free to take the place of %s%s, and it is up, so that the cluster would survive less without it: start a daemon on another host; or, for a new disk, stop its daemon and its etcd and start the daemon on the empty disk, which joins by itself", seatName(s), because(why))
	case v.comesBack(s) == "":
		return v.notYet("no-host", "no host is free to take the place of %s%s: start a daemon on another host, or bring its host back", seatName(s), because(why))
	}
	return v.takeAway(s, fmt.Sprintf("%s: remove it, so that its host %s can join again with nothing of it", reason, carrierOf(s)))
}

// takePlace goes on once the voter is removed: its successor joins.
func (v *view) takePlace(r *Replaced) *Decision {
	if len(v.roster.Voters()) >= r.Voters && (v.goal.By == "" || v.votes(v.goal.By)) {
		return &Decision{Reason: fmt.Sprintf("member %s is replaced: %s there", r.Member, are(len(v.roster.Voters()), "voter")), Done: true}
	}
	if d := v.promoteSuccessor(); d != nil {
		return d
	}
	h, why := v.successor(r.Host)
	if h == nil && v.goal.By == "" {
		if own, ok := v.obs.Host(r.Host); ok && v.unfit(own) == "" {
			h = own
		}
	}
	if h == nil {
		return waitLater("no-host", "", "member %s is removed, and no host can take its place now%s", r.Member, because(why))
	}
	return v.add(h, fmt.Sprintf("add %s in place of member %s, as asked", h.Host, r.Member))
}

// successor is the host that takes the place of another one's member; nil: there is
// none, and in words why.
func (v *view) successor(of cluster.HostID) (*cluster.HostReport, []string) {
	free, why := v.candidates()
	for _, h := range free {
		if h.Host != of && (v.goal.By == "" || h.Host == v.goal.By) {
			return h, nil
		}
	}
	if _, ok := v.obs.Host(v.goal.By); v.goal.By != "" {
		switch {
		case !ok:
			why = []string{"it is not in sight"}
		case v.roster.Seated(v.goal.By):
			why = []string{"it carries a member"}
		}
	}
	return nil, why
}

// promoteSuccessor takes the learner that is on its way further: the one of the named
// host, or any.
func (v *view) promoteSuccessor() *Decision {
	learners := v.roster.Learners()
	for _, l := range learners {
		if (v.goal.By == "" || l.HostID == v.goal.By) && v.caughtUp(l) {
			return v.promoteSeat(l)
		}
	}
	if len(learners) > 0 {
		return v.catchingUp()
	}
	return nil
}

// takeAway removes the voter that is to be replaced.
func (v *view) takeAway(s cluster.Seat, reason string) *Decision {
	if gone, _ := v.needs(s, remedyReplace); gone {
		return v.removeDead(s, reason)
	}
	return v.takeOut(s, reason)
}

// votes: the host carries a voter.
func (v *view) votes(id cluster.HostID) bool {
	return slices.ContainsFunc(v.roster.Voters(), func(s cluster.Seat) bool { return s.HostID == id })
}

// notYet refuses a step that nothing was begun of, and waits where something was.
func (v *view) notYet(code, format string, args ...any) *Decision {
	if v.goal.Acted {
		return waitLater(code, "", format, args...)
	}
	return refuse(code, "", format, args...)
}
