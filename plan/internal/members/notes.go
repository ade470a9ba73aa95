package members

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// NoteDamaged says so at once, and what becomes of it. There is a command only where a
// person has to act.
func NoteDamaged(v *step.View, h *cluster.HostReport) {
	s, _ := v.Roster.Seat(h.Local.Member)
	command, then := "", ""
	waits := waits(v, s, RemedyReplace)
	switch free, _ := v.Candidates(); {
	case !v.Repairs() || s.ID == 0 || s.Learner || !v.Roster.HasQuorum():
	case v.Held():
		command, then = "etcdadm member replace "+s.ID.String(), "; it is not replaced by itself while the spec is on hold"
	case waits != "":
		then = "; it is replaced later, or when it counts as dead: " + waits
	default:
		who := "its own host joins anew"
		if len(free) > 0 {
			who = fmt.Sprintf("host %s takes its place", free[0].Host)
		}
		then = fmt.Sprintf("; it is replaced at %s UTC, %s, and its data is set aside", v.Obs.Memory.Member(s.ID).DamagedSince.Add(DamagedFor).UTC().Format(time.TimeOnly), who)
	}
	v.Notice("data-damaged", command, "the member's data on host {host} is damaged, and no restart helps: {damaged}{then}", h.Host, h.Process.Damaged, then)
}

// noteOdd says of a voter whose keys differ what its replacement waits for.
func noteOdd(v *step.View, s cluster.Seat) {
	if s.Condition != cluster.ConditionDiffering || enoughToCompare(v, s) != "" {
		return
	}
	if waits := soundVotersUp(v, s); waits != "" {
		v.Notice("corrupt", "", "the keys of {member} differ from the other voters'; it is replaced once every other voter is up: {waits}", words.SeatName(s), waits)
	}
}

// notePatience says of a voter that does not answer when it counts as dead.
func notePatience(v *step.View, s cluster.Seat) {
	since := v.SilentSince(s)
	switch {
	case s.Up || since.IsZero(), v.Presence(s.HostID) == cluster.PresenceRefusing: // its host answers, and has not said how its member is
		noteServesOn(v, s)
		return
	case s.Host != nil && s.Host.Process.Damaged != "": // NoteDamaged tells
		return
	case pauses.NoteExcused(v, s):
		return
	}
	limit := v.DeadAfter()
	v.Notice("member-silent", "", "voter {voter} does not answer ({why}); it counts as dead after {limit}, at {at}", words.SeatName(s), s.Why, limit, since.Add(limit).UTC().Format(time.TimeOnly)+" UTC")
}

// noteServesOn says of a voter whose host has not answered for long that it does not count
// as dead, since something answers at its peer port: its etcd may serve, beside a daemon
// that ended or hangs.
func noteServesOn(v *step.View, s cluster.Seat) {
	is, since := v.Obs.Presence(s.HostID)
	if s.Up || s.Host != nil || since.IsZero() || !v.AnswersOthers(s.ID) {
		return
	}
	gone := v.Obs.At.Sub(since)
	if gone < v.DeadAfter() {
		return
	}
	advice := fmt.Sprintf("look on host %s whether its etcd serves (etcdctl endpoint health): if it does, start the daemon; if its disk hangs, power the host off", s.HostID)
	if is.Occupied() {
		advice = fmt.Sprintf("look on host %s why its daemon does not get on; if its disk hangs, power the host off", s.HostID)
	}
	v.Advise("member-silent", advice+", or have its voter replaced: etcdadm member replace "+cluster.ShellWord(string(s.HostID)), "",
		"host {host} has not answered for {gone}, and its etcd answers at its peer port: voter {voter} does not count as dead, and is not replaced by itself", s.HostID, gone.Round(time.Minute), words.SeatName(s))
}
