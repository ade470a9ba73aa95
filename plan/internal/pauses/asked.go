package pauses

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

// Asked writes down that a host is off for a while on purpose. It is refused where the
// hosts that are paused, all off, would leave no quorum: who pauses a host is about to take
// it down.
func Asked(v *step.View) *decision.Decision {
	asked, id := v.Goal.Pause, v.Goal.Host
	switch {
	case asked == nil || id == "" || strings.TrimSpace(asked.Reason) == "":
		return decision.Refuse("host-paused", "", "a pause needs a host, a time and a reason")
	case asked.For <= 0 || asked.For > cluster.MaxPause:
		return decision.Refuse("host-paused", "", "a pause of {for} is not possible: the most is {maxPause}; extend the pause before it ends", words.Shortly(asked.For), words.Shortly(cluster.MaxPause))
	case !sight.Known(v.Sight, id):
		return decision.Refuse("no-such-host", "etcdadm status", "no host {host} is known", id)
	}
	p := cluster.Pause{ID: asked.ID, Host: id, From: asked.From, For: asked.For, Reason: asked.Reason, By: asked.By}
	_, carries := seatOf(v, id)
	if waits := p.ID != "" && carries; !waits { // nobody has to let it go
		p.Until = asked.From.Add(asked.For)
	}
	if asked.ID == "" {
		p.For = 0
	}
	if slices.ContainsFunc(v.Obs.Paused, func(o cluster.Pause) bool { return p.Equal(o) || p.ID != "" && p.ID == o.ID }) {
		return &decision.Decision{Reason: saysPaused(p), Done: true}
	}
	if d := pausesUnknown(v); d != nil {
		return d
	}
	after, says, d := whileOff(v, id, asked.Force, p.Until.IsZero())
	if d != nil {
		return d
	}
	command := commandOf(cluster.Pause{Host: id, For: asked.For, Reason: asked.Reason})
	if asked.Force {
		command += " --force"
	}
	// Who asks again means another time.
	now := ended(v, kept(v), func(o cluster.Pause) bool { return o.Host == id && (o.By == p.By || o.ID == "") })
	p.Outage = asked.Force && p.ID != ""
	reason := words.F("pause host {host} until {until}: its silence does not count until then; {says}", id, words.ClockWords(p.Until), says)
	if p.Until.IsZero() {
		reason = words.F("pause host {host} for {for}, once it may go; {says}", id, words.Shortly(p.For), says)
	}
	return writePauses(v, append(now, p), after, command, reason)
}

func saysPaused(p cluster.Pause) words.Text {
	if p.Until.IsZero() {
		return words.F("host {host} is to be paused for {for}, once it may go", p.Host, words.Shortly(p.For))
	}
	return words.F("host {host} is paused until {until}", p.Host, words.ClockWords(p.Until))
}

// ResumeAsked ends a pause before its time.
func ResumeAsked(v *step.View) *decision.Decision {
	id := v.Goal.Host
	if d := pausesUnknown(v); d != nil {
		return d
	}
	here := func(p cluster.Pause) bool { return p.Host == id && !p.Ended }
	all := append(kept(v), heldBy(v, id)...)
	switch {
	case slices.ContainsFunc(all, here):
		by := ""
		if names := whose(slices.DeleteFunc(slices.Clone(all), func(p cluster.Pause) bool { return !here(p) })); names != "" {
			by = fmt.Sprintf(" (asked for by %s)", names)
		}
		return writePauses(v, ended(v, all, here), v.Projection(0, 0), "etcdadm host resume "+cluster.ShellWord(string(id)), words.F("resume host {host}{by}: its silence counts from now", id, by))
	case v.Goal.Acted:
		return &decision.Decision{Reason: words.F("host {host} is not paused any more; its silence counts from now", id), Done: true}
	case !sight.Known(v.Sight, id):
		return decision.Refuse("no-such-host", "etcdadm status", "no host {host} is known", id)
	}
	return &decision.Decision{Reason: words.F("host {host} is not paused", id), Done: true}
}

func writePauses(v *step.View, now []cluster.Pause, p cluster.Projection, command string, reason words.Text) *decision.Decision {
	slices.SortStableFunc(now, func(a, b cluster.Pause) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return &decision.Decision{
		Reason: reason, Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActPause, Pauses: &decision.PauseChange{Was: v.Obs.Paused, Now: now}, Projection: &p, Command: command},
	}
}

// pausesUnknown refuses while the store does not tell who is paused; nil: it does. Nothing
// is waited for: no repair is made while a person's step is at work.
func pausesUnknown(v *step.View) *decision.Decision {
	then := "the pauses are as they were; ask again when it answers"
	if v.Goal.Acted {
		then = "whether they were written is not known: etcdadm status tells once it answers"
	}
	switch {
	case !v.Obs.Store.Read:
		return decision.Refuse("store-silent", "", "pauses are kept in the backup store, and {unread}: {then}", v.UnreadWords(), then)
	case v.Obs.PausesDamaged != "":
		return decision.Refuse("host-paused", "", "the list of paused hosts is damaged, and is not overwritten: {pausesDamaged}", v.Obs.PausesDamaged)
	case v.Obs.PausesUnread != "":
		return decision.Refuse("host-paused", "", "the list of paused hosts is unknown: {pausesUnread}; {then}", v.Obs.PausesUnread, then)
	}
	return nil
}

// whileOff is what is left of the voters while a host is off together with all that are
// paused, in numbers and in words; or why the host is not paused.
//
// Who waits for the word that the host may go is asked nothing about others that are paused:
// it does not come beside them.
func whileOff(v *step.View, id cluster.HostID, force, waits bool) (cluster.Projection, string, *decision.Decision) {
	var left, with, back, down []string
	votes := false
	for _, s := range v.Roster.Voters() {
		_, paused := v.Obs.PauseOf(s.HostID)
		switch {
		case waits && s.HostID != id:
			left = append(left, words.SeatName(s))
		case s.HostID == id:
			votes = true
		case paused:
			with = append(with, string(s.HostID))
			if s.Up {
				back = append(back, string(s.HostID))
			} else {
				down = append(down, words.SeatName(s))
			}
		case s.Up:
			left = append(left, words.SeatName(s))
		default:
			down = append(down, words.SeatName(s))
		}
	}
	n := len(v.Roster.Voters())
	p := v.Projection(0, len(left)-len(v.Roster.Up()))
	if !v.Seen {
		if force {
			return p, "no member answers", nil
		}
		return p, "", decision.Refuse("host-paused", "", "no member answers, so what remains without host {host} is unknown; --force pauses it anyway", id)
	}
	if !votes {
		says := "it carries no voter, so that the quorum does not hang on it"
		if slices.ContainsFunc(v.Roster.Learners(), func(s cluster.Seat) bool { return s.HostID == id }) {
			says += fmt.Sprintf("; its learner is taken out after %s of silence all the same, and it joins again once it is back and a voter is missing", words.Shortly(sight.JoinPatience))
		}
		return v.Projection(0, 0), says, nil
	}
	beside := ""
	if len(with) > 0 {
		beside = fmt.Sprintf(" together with %s, paused too", strings.Join(with, ", "))
	}
	says := fmt.Sprintf("while it is off%s, %d of %d voters %s left%s and a quorum is %d", beside, len(left), n, words.IsAre(len(left)), words.Among(left), cluster.Quorum(n))
	switch margin := p.MarginAfter(); {
	case margin < 0 && !force:
		command, way := "", "With 1 voter every host is needed; --force pauses it all the same"
		switch {
		case len(down) > 0:
			way = "Wait until " + strings.Join(down, ", ") + " is up, or pause it all the same with --force"
		case n == 2:
			way = "With 2 voters every host is needed; --force pauses it all the same"
		case n > 2:
			way = "Wait for the end of the other pause, or pause it all the same with --force"
		}
		if len(back) > 0 && len(left)+1 >= cluster.Quorum(n) { // one that is off counts as little without its pause
			command = "etcdadm host resume " + cluster.ShellWord(back[0])
		}
		return p, "", decision.Refuse("host-paused", command, "host {host} is not paused: {says}: clients could neither read nor write. {way}", id, says, way)
	case margin < 0:
		return p, says + ": clients can neither read nor write then", nil
	case margin == 0:
		return p, says + ": the cluster does not survive one more failure", nil
	default:
		return p, fmt.Sprintf("%s: the cluster survives %s more", says, words.Failures(margin)), nil
	}
}
