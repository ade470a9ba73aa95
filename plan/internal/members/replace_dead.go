package members

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// ReplaceDead replaces one dead voter. Where etcd accepts a learner the
// successor is added and catches up first, then the dead voter is removed;
// where it refuses, or the successor needs the dead one's address, the dead
// voter goes first. Promotion follows by the next rule, since a voter is then
// missing. The fault tolerance never falls below what it already is.
//
// One that has to be waited for keeps no other from being replaced: that may be
// what it waits for, such as a free host.
func ReplaceDead(v *step.View) *decision.Decision { return replaceFirst(v) }

func replaceFirst(v *step.View) *decision.Decision {
	if !v.Repairs() {
		return nil
	}
	var waits *decision.Decision
	for _, s := range v.Roster.Voters() {
		dead, why := Needs(v, s, RemedyReplace)
		if !dead {
			noteOdd(v, s)
			notePatience(v, s)
			continue
		}
		if v.Held() {
			// Once it is removed nothing would tell that a voter is missing.
			v.Notice("dead-on-hold", deadByHand(v, s), "voter {voter} is dead ({why}); it is not replaced while the spec is on hold", words.SeatName(s), why)
			continue
		}
		d := replace(v, s, why)
		if len(v.Roster.Voters()) <= v.Wanted() { // else the spec asks for one less
			d = v.Unasked(d)
		}
		if d != nil && d.Action != nil {
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
func deadByHand(v *step.View, s cluster.Seat) string {
	if h, _ := successor(v, decision.CarrierOf(s)); h != nil || comesBack(v, s) != "" {
		return "etcdadm member replace " + s.ID.String()
	}
	return removeHeld(s)
}

func replace(v *step.View, s cluster.Seat, why words.Text) *decision.Decision {
	if len(v.Roster.Voters()) > v.Wanted() {
		return step.RemoveDead(v, s, words.F("voter {voter} is dead ({why}), and the spec asks for {wanted}: remove it", words.SeatName(s), why, v.Wanted()))
	}
	own := comesBack(v, s)
	if own != "" && servesFalsely(s) {
		// What it acknowledges lies on no disk, or is not what the others have: it waits for nobody.
		return step.RemoveDead(v, s, comeBackWords(s, why, own))
	}
	for _, l := range v.Roster.Learners() {
		if v.CaughtUp(l) && len(v.Roster.Voters()) < v.Wanted() {
			return nil // it is promoted, for the voter that is missing
		}
		if v.CaughtUp(l) {
			return step.RemoveDead(v, s, words.F("voter {voter} is dead ({why}), and learner {learner} has caught up: remove the dead voter", words.SeatName(s), why, words.SeatName(l)))
		}
	}
	if learners := v.Roster.Learners(); len(learners) > 0 && (own == "" || slices.ContainsFunc(learners, onItsWay)) {
		// One at a time (SAFETY.md, rule 4), as long as that gets on.
		d := step.CatchingUp(v)
		d.Reason = words.F("voter {voter} is dead ({why}); {reason}", words.SeatName(s), why, d.Reason)
		return d
	}
	free, reasons := v.Candidates()
	if len(v.Roster.Voters()) < v.Wanted() && len(free) > 0 && v.GaveUp(free[0]) == 0 && v.AcceptsAdd() { // one at a time (SAFETY.md, rule 4)
		return step.Add(v, free[0], words.F("voter {voter} is dead ({why}), and another one is missing: add {host} for that one first", words.SeatName(s), why, free[0].Host))
	}
	if own != "" {
		return step.RemoveDead(v, s, comeBackWords(s, why, own))
	}
	if len(free) == 0 {
		if own := s.Owner; s.Host == nil && own != nil {
			reasons = append(reasons, fmt.Sprintf("%s, whose member it was, %s", own.Host, v.Unfit(own)))
		}
		if h := joinsWithTLS(v, s); h != "" {
			return step.RemoveDead(v, s, words.F("voter {voter} is dead ({why}): remove it; then the others can turn TLS on and host {host} can join", words.SeatName(s), why, h))
		}
		or, command := orRemove(v, s)
		return decision.Wait(false, "no-host", command, "voter {voter} is dead ({why}), and no host is free to take its place{because}; start another daemon, or bring the host back{or}", words.SeatName(s), why, words.Because(reasons), or)
	}
	if v.AcceptsAdd() {
		return step.Add(v, free[0], words.F("voter {voter} is dead ({why}): add {host}, which will take its place", words.SeatName(s), why, free[0].Host))
	}
	return step.RemoveDead(v, s, words.F("voter {voter} is dead ({why}), and etcd accepts no new member beside it: remove it; host {host} is ready", words.SeatName(s), why, free[0].Host))
}

func comeBackWords(s cluster.Seat, why words.Text, own cluster.HostID) words.Text {
	return words.F("voter {voter} is dead ({why}): remove it, so that host {host} can join again", words.SeatName(s), why, own)
}

// servesFalsely: it still answers, from memory only or with other keys than the others.
func servesFalsely(s cluster.Seat) bool {
	return s.Condition == cluster.ConditionVanished || s.Condition == cluster.ConditionDiffering
}

// onItsWay: the learner runs, or is about to.
func onItsWay(l cluster.Seat) bool {
	switch l.Condition {
	case cluster.ConditionUp, cluster.ConditionStarting, cluster.ConditionNeverStarted:
		return true
	default:
		return false
	}
}

// withoutSuccessor: nobody is there, or on the way, to take the place of the dead
// voter, so that it is neither replaced nor removed.
func withoutSuccessor(v *step.View, s cluster.Seat) bool {
	if !v.Repairs() || len(v.Roster.Voters()) > v.Wanted() || len(v.Roster.Learners()) > 0 || comesBack(v, s) != "" || joinsWithTLS(v, s) != "" {
		return false
	}
	free, _ := v.Candidates()
	return len(free) == 0
}

// comesBack names the host in sight that will join again once the dead
// voter's address is free: the wiped host itself, or the host whose member
// cannot start any more.
func comesBack(v *step.View, s cluster.Seat) cluster.HostID {
	switch {
	case s.Host != nil && Reusable(v, s.Host):
		return s.Host.Host
	case s.Owner != nil && (v.Unfit(s.Owner) == "" || tlsFollows(v, s.Owner, s)):
		return s.Owner.Host
	}
	return ""
}

// Reusable reports whether the host whose member is dead could carry another one, once its
// data is set aside, and with its certificates.
func Reusable(v *step.View, h *cluster.HostReport) bool {
	_, runs := v.VersionFor(h)
	return v.Named(h) && runs && h.UnderFence && len(h.Foreign) == 0 && h.Process.State != cluster.ProcessForeign && sight.Problem(h) == "" && !v.Barred(h.Local.Member)
}

// joinsWithTLS names a host of its own that could take a dead voter's place once
// the others speak TLS, for which they wait until the dead one is gone.
func joinsWithTLS(v *step.View, dead cluster.Seat) cluster.HostID {
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; !v.Roster.Seated(h.Host) && tlsFollows(v, h, dead) {
			return h.Host
		}
	}
	return ""
}

// tlsFollows: nothing but TLS keeps the host from joining again in the place of its
// dead voter, and nothing but dead voters keeps the others from turning TLS on.
// Each would wait for the other for ever, so the dead ones go first, one at a time.
func tlsFollows(v *step.View, h *cluster.HostReport, dead cluster.Seat) bool {
	why := sight.TlsBefore(v.Sight, h)
	secure := slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	if !secure || why == "" || v.Unfit(h) != why || len(v.Roster.Learners()) > 0 {
		return false
	}
	for _, s := range v.Roster.Voters() {
		gone, _ := Dead(v, s)
		if s.ID != dead.ID && !gone && (!s.Up || sight.IsPlain(s) && !cluster.TurnsTLSOn(s.PeerURLs, s.Host.URLs.Peer)) {
			return false
		}
	}
	return true
}

func removeHeld(s cluster.Seat) string { return "etcdadm member remove --hold " + s.ID.String() }

// orRemove offers the removal of a dead voter that has no successor where it keeps
// etcd from writing; otherwise whoever comes back late still counts.
func orRemove(v *step.View, s cluster.Seat) (says, command string) {
	if len(v.Roster.Alarms(cluster.AlarmNoSpace)) == 0 {
		return "", ""
	}
	return "; or remove it, which puts the spec on hold until etcdadm seed STORE --nodes N: etcd refuses writes (NOSPACE), and no member is restarted or defragmented beside it", removeHeld(s)
}

// HeldByDead names the dead voter that holds the cure of a full database up: it has
// no successor, so that it stays listed, and beside it no member is taken away
// (SAFETY.md, rules 1 and 4). Empty: there is none.
func HeldByDead(v *step.View) (says, command string) {
	for _, s := range v.Roster.Voters() {
		if dead, _ := Dead(v, s); dead && withoutSuccessor(v, s) {
			return fmt.Sprintf("; none is restarted or defragmented beside voter %s, which is dead and has no successor: bring its host back, start another daemon, or remove it, which puts the spec on hold until etcdadm seed STORE --nodes N", words.SeatName(s)), removeHeld(s)
		}
	}
	return "", ""
}
