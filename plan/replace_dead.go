package plan

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
)

// replaceDead replaces one dead voter. Where etcd accepts a learner the
// successor is added and catches up first, then the dead voter is removed;
// where it refuses, or the successor needs the dead one's address, the dead
// voter goes first. Promotion follows by the next rule, since a voter is then
// missing. The fault tolerance never falls below what it already is.
//
// One that has to be waited for keeps no other from being replaced: that may be
// what it waits for, such as a free host.
func replaceDead(v *view) *Decision {
	if !v.repairs() {
		return nil
	}
	var waits *Decision
	for _, s := range v.roster.Voters() {
		dead, why := v.needs(s, remedyReplace)
		if !dead {
			v.noteOdd(s)
			v.notePatience(s)
			continue
		}
		if v.held() {
			// Once it is removed nothing would tell that a voter is missing.
			v.aside("dead-on-hold", v.deadByHand(s), "voter %s is dead (%s); it is not replaced while the spec is on hold", seatName(s), why)
			continue
		}
		d := v.replace(s, why)
		if d.Action != nil {
			return d
		}
		if waits == nil {
			waits = d
		}
	}
	return waits
}

// deadByHand is what a person may do about a dead voter on hold: replace it, where a host can
// take its place, or have one less.
func (v *view) deadByHand(s cluster.Seat) string {
	if h, _ := v.successor(carrierOf(s)); h != nil || v.comesBack(s) != "" {
		return "etcdadm member replace " + s.ID.String()
	}
	return removeHeld(s)
}

// noteDamaged says so at once, and what becomes of it. There is a command only where a
// person has to act.
func (v *view) noteDamaged(h *cluster.HostReport) {
	s, _ := v.roster.Seat(h.Local.Member)
	command, then := "", ""
	waits := v.waits(s, remedyReplace)
	switch free, _ := v.candidates(); {
	case !v.repairs() || s.ID == 0 || s.Learner || !v.roster.HasQuorum():
	case v.held():
		command, then = "etcdadm member replace "+s.ID.String(), "; it is not replaced by itself while the spec is on hold"
	case waits != "":
		then = "; it is replaced later, or when it counts as dead: " + waits
	default:
		who := "its own host joins anew"
		if len(free) > 0 {
			who = fmt.Sprintf("host %s takes its place", free[0].Host)
		}
		then = fmt.Sprintf("; it is replaced at %s UTC, %s, and its data is set aside", v.obs.Memory.Member(s.ID).DamagedSince.Add(damagedFor).UTC().Format(time.TimeOnly), who)
	}
	v.aside("data-damaged", command, "the member's data on host %s is damaged, and no restart helps: %s%s", h.Host, h.Process.Damaged, then)
}

// noteOdd says of a voter whose keys differ what its replacement waits for.
func (v *view) noteOdd(s cluster.Seat) {
	if s.Condition != cluster.ConditionDiffering || enoughToCompare(v, s) != "" {
		return
	}
	if waits := soundVotersUp(v, s); waits != "" {
		v.aside("corrupt", "", "the keys of %s are not those of the other voters; it is replaced once every other voter is up: %s", seatName(s), waits)
	}
}

// notePatience says of a voter that does not answer when it counts as dead.
func (v *view) notePatience(s cluster.Seat) {
	since := v.silentSince(s)
	switch {
	case s.Up || since.IsZero(), v.presence(s.HostID) == cluster.PresenceRefusing: // its host answers, and has not said how its member is
		v.noteServesOn(s)
		return
	case s.Host != nil && s.Host.Process.Damaged != "": // [view.noteDamaged] tells
		return
	case v.noteExcused(s):
		return
	}
	limit := v.deadAfter()
	v.aside("member-silent", "", "voter %s does not answer (%s); it counts as dead after %s, at %s", seatName(s), s.Why, limit, since.Add(limit).UTC().Format(time.TimeOnly)+" UTC")
}

// noteServesOn says of a voter whose host has not answered for long that it does not count
// as dead, since something answers at its peer port: its etcd may serve, beside a daemon
// that ended or hangs.
func (v *view) noteServesOn(s cluster.Seat) {
	is, since := v.obs.Presence(s.HostID)
	if s.Up || s.Host != nil || since.IsZero() || !v.answersOthers(s.ID) {
		return
	}
	gone := v.obs.At.Sub(since)
	if gone < v.deadAfter() {
		return
	}
	advice := fmt.Sprintf("look on host %s whether its etcd serves (etcdctl endpoint health): if it does, start the daemon; if its disk hangs, power the host off", s.HostID)
	if is.Occupied() {
		advice = fmt.Sprintf("look on host %s why its daemon does not get on; if its disk hangs, power the host off", s.HostID)
	}
	v.advise("member-silent", advice+", or have its voter replaced: etcdadm member replace "+ShellWord(string(s.HostID)), "",
		"host %s has not answered for %s, and its etcd answers at its peer port: voter %s does not count as dead, and is not replaced by itself", s.HostID, shortly(gone.Round(time.Minute)), seatName(s))
}

func (v *view) replace(s cluster.Seat, why string) *Decision {
	if len(v.roster.Voters()) > v.wanted() {
		return v.removeDead(s, fmt.Sprintf("voter %s is dead (%s), and %d are wanted: remove it", seatName(s), why, v.wanted()))
	}
	if own := v.comesBack(s); own != "" {
		return v.removeDead(s, fmt.Sprintf("voter %s is dead (%s): remove it, so that host %s can join again", seatName(s), why, own))
	}
	for _, l := range v.roster.Learners() {
		if v.caughtUp(l) {
			return v.removeDead(s, fmt.Sprintf("voter %s is dead (%s), and learner %s has caught up to take its place: remove it", seatName(s), why, seatName(l)))
		}
	}
	if len(v.roster.Learners()) > 0 {
		// One successor at a time: a second one would be one too many.
		d := v.catchingUp()
		d.Reason = fmt.Sprintf("voter %s is dead (%s); %s", seatName(s), why, d.Reason)
		return d
	}
	free, reasons := v.candidates()
	if len(free) == 0 {
		if own := s.Owner; s.Host == nil && own != nil {
			reasons = append(reasons, fmt.Sprintf("%s, whose member it was, %s", own.Host, v.unfit(own)))
		}
		if h := v.joinsWithTLS(s); h != "" {
			return v.removeDead(s, fmt.Sprintf("voter %s is dead (%s): remove it, so that the others can turn TLS on, and host %s can join then", seatName(s), why, h))
		}
		or, command := v.orRemove(s)
		return wait(false, "no-host", command, "voter %s is dead (%s), and no host is free to take its place%s; start another daemon, or bring the host back%s", seatName(s), why, because(reasons), or)
	}
	if v.acceptsAdd() {
		return v.add(free[0], fmt.Sprintf("voter %s is dead (%s): add %s, which will take its place", seatName(s), why, free[0].Host))
	}
	return v.removeDead(s, fmt.Sprintf("voter %s is dead (%s), and etcd accepts no new member while it is listed: remove it; host %s is ready to take its place", seatName(s), why, free[0].Host))
}

// withoutSuccessor: nobody is there, or on the way, to take the place of the dead
// voter, so that it is neither replaced nor removed.
func (v *view) withoutSuccessor(s cluster.Seat) bool {
	if !v.repairs() || len(v.roster.Voters()) > v.wanted() || len(v.roster.Learners()) > 0 || v.comesBack(s) != "" || v.joinsWithTLS(s) != "" {
		return false
	}
	free, _ := v.candidates()
	return len(free) == 0
}

// comesBack names the host in sight that will join again once the dead
// voter's address is free: the wiped host itself, or the host whose member
// cannot start any more.
func (v *view) comesBack(s cluster.Seat) cluster.HostID {
	switch {
	case s.Host != nil && v.reusable(s.Host):
		return s.Host.Host
	case s.Owner != nil && (v.unfit(s.Owner) == "" || v.tlsFollows(s.Owner, s)):
		return s.Owner.Host
	}
	return ""
}

// reusable: the host whose member is dead could carry another one, once its
// data is set aside.
func (v *view) reusable(h *cluster.HostReport) bool {
	_, runs := v.versionFor(h)
	return v.named(h) && runs && h.UnderFence && len(h.Foreign) == 0 && h.Process.State != cluster.ProcessForeign && problem(h) == ""
}

// removeDead removes a voter that is dead, if the voters that are up are a
// quorum of the remaining.
func (v *view) removeDead(s cluster.Seat, reason string) *Decision {
	p := v.projection(-1, 0)
	serves := s.Condition == cluster.ConditionVanished || s.Condition == cluster.ConditionDiffering && s.Host != nil && s.Host.Status != nil && s.Host.Status.Healthy
	if serves && s.RaftLeader && s.Host.UnderFence && s.Host.Status != nil && handsOver(s) {
		return v.handOver(s, reason, nil) // it still leads raft, from memory or with other keys
	}
	if !p.Keeps(v.wanted()) {
		return wait(true, "waiting-for-voters", "", "voter %s is dead and cannot be removed now: %s", seatName(s), p)
	}
	return v.removeVoter(s, p, reason)
}

func (v *view) removeVoter(s cluster.Seat, p cluster.Projection, reason string) *Decision {
	next := v.voters(func(x cluster.Seat) bool { return !x.Learner && x.ID != s.ID })
	op := cluster.Op{Kind: cluster.OpRemove, Member: s.ID, Host: s.HostID}
	return v.changeVoters(next, p, op, s.ID, "etcdadm member remove "+s.ID.String(), reason)
}

// acceptsAdd predicts etcd's answer to an add: with one voter always yes,
// otherwise a quorum of one more has to be connected.
func (v *view) acceptsAdd() bool {
	n := len(v.roster.Voters())
	if !v.version().HasLearners() { // what is added has a vote at once
		return len(v.downVoters()) == 0
	}
	return n == 1 || len(v.roster.Up()) >= cluster.Quorum(n+1)
}
