package pauses

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// NotePauses tells of pauses that go on as the leader has read them, and not as the store
// has them: the next leader would not know of them.
func NotePauses(v *step.View) {
	var hosts []cluster.HostID
	for _, p := range v.Obs.Pauses() {
		hosts = append(hosts, p.Host)
	}
	switch {
	case v.Obs.PausesDamaged != "" && len(hosts) > 0:
		v.Notice("host-paused", "", "the list of paused hosts is damaged; pauses read before stay in force while this daemon leads ({hosts}): {pausesDamaged}", words.IdList(hosts), v.Obs.PausesDamaged)
	case v.Obs.PausesDamaged != "":
		v.Notice("host-paused", "", "the list of paused hosts is damaged: {pausesDamaged}", v.Obs.PausesDamaged)
	case v.Obs.PausesLost && len(hosts) > 0:
		v.Advise("host-paused", "pause again (etcdadm host pause) or resume (etcdadm host resume) one of them, which writes it anew", "", "control/etcdadm-paused.json is gone from the store; pauses read before stay in force while this daemon leads: {hosts}", words.IdList(hosts))
	}
}

// NoteExcused says of a silent voter that its silence does not count now, and why; false:
// it does.
func NoteExcused(v *step.View, s cluster.Seat) bool {
	if p, paused := v.Obs.PauseOf(s.HostID); paused {
		then := "it is not replaced, and its silence counts from then on"
		if n := len(v.Roster.Voters()); n > v.Wanted() {
			first := "a voter that is down goes first, paused or not"
			if v.Spec != nil && len(v.Spec.Hosts) > 0 {
				first = "a voter on a host that the spec does not name goes first, then one that is down, paused or not"
			}
			then = fmt.Sprintf("its silence counts from then on. %d voters present, %d wanted: %s", n, v.Wanted(), first)
		}
		v.Advise("host-paused", "nothing while the host is off on purpose; once it is back, etcdadm host resume "+cluster.ShellWord(string(p.Host))+" ends the pause", "", "voter {voter} does not answer ({why}), and host {host} is paused until {until} ({reason}): {then}", words.SeatName(s), s.Why, p.Host, words.ClockWords(p.Until), p.Reason, then)
		return true
	}
	if why := v.Obs.PausesUnread; why != "" {
		v.Notice("host-paused", "", "voter {voter} does not answer ({why}), and the list of paused hosts is unknown ({why2}): no silent voter is replaced until it is known", words.SeatName(s), s.Why, why)
		return true
	}
	return false
}

// NotePausedAway says of a host that is paused and not in sight that the quorum waits for
// it; false: it is not.
func NotePausedAway(v *step.View, id cluster.HostID) bool {
	p, paused := v.Obs.PauseOf(id)
	if _, there := v.Obs.Host(id); there || !paused {
		return false
	}
	v.Advise("host-paused", "bring host "+string(id)+" back; where it is gone for good, end its pause: etcdadm host resume "+cluster.ShellWord(string(id)), "", "host {host} is paused until {until} ({reason}), and its voter is missing for the quorum", id, words.ClockWords(p.Until), p.Reason)
	return true
}
