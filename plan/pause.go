package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// PauseAsked is what a person wants of a pause.
type PauseAsked struct {
	For    time.Duration `json:"for"`
	Reason string        `json:"reason"`
	By     string        `json:"by,omitempty"`
	// Force: the host is paused also where no quorum would be left with all paused hosts off.
	Force bool `json:"force,omitempty"`
	// From is when the leader took it up first, by the clock of most hosts (see [Goal.Noted]).
	From time.Time `json:"from,omitzero"`
}

// PauseChange is one write of the pauses: it is made if they are what was seen.
type PauseChange struct {
	Was []cluster.Pause `json:"was"`
	Now []cluster.Pause `json:"now"`
}

func (c *PauseChange) String() string {
	var words []string
	for _, p := range c.Now {
		words = append(words, fmt.Sprintf("%s until %s", p.Host, clockWords(p.Until)))
	}
	if len(words) == 0 {
		return "that no host is paused"
	}
	return "which hosts are paused: " + strings.Join(words, ", ")
}

// clockWords is a time as a sentence has it that does not change from look to look.
func clockWords(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// notedPause is the goal with when it was taken up: planned again it is the same pause.
func (g Goal) notedPause(o *cluster.Observation) Goal {
	if g.Pause == nil || !g.Pause.From.IsZero() {
		return g
	}
	p := *g.Pause
	p.From = o.Clock().UTC().Truncate(time.Second)
	g.Pause = &p
	return g
}

// pauseAsked writes down that a host is off for a while on purpose. It is refused where the
// hosts that are paused, all off, would leave no quorum: who pauses a host is about to take
// it down.
func pauseAsked(v *view) *Decision {
	asked, id := v.goal.Pause, v.goal.Host
	switch {
	case asked == nil || id == "" || strings.TrimSpace(asked.Reason) == "":
		return refuse("host-paused", "", "a pause has a host, a time and a reason")
	case asked.For <= 0 || asked.For > cluster.MaxPause:
		return refuse("host-paused", "", "a pause of %s cannot be: a host is paused for %s at most; pause it again before that is over", shortly(asked.For), shortly(cluster.MaxPause))
	case !v.known(id):
		return refuse("no-such-host", "etcdadm status", "no host %s is known", id)
	}
	p := cluster.Pause{Host: id, From: asked.From, Until: asked.From.Add(asked.For), Reason: asked.Reason, By: asked.By}
	if slices.ContainsFunc(v.obs.Paused, p.Equal) {
		return &Decision{Reason: fmt.Sprintf("host %s is paused until %s", id, clockWords(p.Until)), Done: true}
	}
	if d := v.pausesUnknown(); d != nil {
		return d
	}
	after, words, d := v.whileOff(id, asked.Force)
	if d != nil {
		return d
	}
	command := fmt.Sprintf("etcdadm host pause %s --for %s --reason %s", ShellWord(string(id)), shortly(asked.For), ShellWord(asked.Reason))
	if asked.Force {
		command += " --force"
	}
	now := slices.DeleteFunc(v.obs.Pauses(), func(o cluster.Pause) bool { return o.Host == id })
	return v.writePauses(append(now, p), after, command, fmt.Sprintf("pause host %s until %s: its silence does not count until then; %s", id, clockWords(p.Until), words))
}

// resumeAsked ends a pause before its time.
func resumeAsked(v *view) *Decision {
	id := v.goal.Host
	if d := v.pausesUnknown(); d != nil {
		return d
	}
	_, paused := v.obs.PauseOf(id)
	switch {
	case paused:
		now := slices.DeleteFunc(v.obs.Pauses(), func(o cluster.Pause) bool { return o.Host == id })
		return v.writePauses(now, v.projection(0, 0), "etcdadm host resume "+ShellWord(string(id)), fmt.Sprintf("resume host %s: its silence counts from now", id))
	case v.goal.Acted:
		return &Decision{Reason: fmt.Sprintf("host %s is not paused any more; its silence counts from now", id), Done: true}
	case !v.known(id):
		return refuse("no-such-host", "etcdadm status", "no host %s is known", id)
	}
	return &Decision{Reason: fmt.Sprintf("host %s is not paused", id), Done: true}
}

func (v *view) writePauses(now []cluster.Pause, p cluster.Projection, command, reason string) *Decision {
	slices.SortStableFunc(now, func(a, b cluster.Pause) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return &Decision{
		Reason: reason, Again: soon,
		Action: &Action{Kind: ActPause, Pauses: &PauseChange{Was: v.obs.Paused, Now: now}, Projection: &p, Command: command},
	}
}

// pausesUnknown refuses while the store does not tell who is paused; nil: it does. Nothing
// is waited for: no repair is made while a person's step is at work.
func (v *view) pausesUnknown() *Decision {
	then := "the pauses are as they were; ask again when it answers"
	if v.goal.Acted {
		then = "whether they were written is not known: etcdadm status tells once it answers"
	}
	switch {
	case !v.obs.Store.Read:
		return refuse("store-silent", "", "pauses are kept in the backup store, and %s: %s", v.unreadWords(), then)
	case v.obs.PausesDamaged != "":
		return refuse("host-paused", "", "which hosts are paused cannot be read, and is not written over: %s", v.obs.PausesDamaged)
	case v.obs.PausesUnread != "":
		return refuse("host-paused", "", "which hosts are paused is not known: %s; %s", v.obs.PausesUnread, then)
	}
	return nil
}

// whileOff is what is left of the voters while a host is off together with all that are
// paused, in numbers and in words; or why the host is not paused.
func (v *view) whileOff(id cluster.HostID, force bool) (cluster.Projection, string, *Decision) {
	var left, with, back, down []string
	votes := false
	for _, s := range v.roster.Voters() {
		_, paused := v.obs.PauseOf(s.HostID)
		switch {
		case s.HostID == id:
			votes = true
		case paused:
			with = append(with, string(s.HostID))
			if s.Up {
				back = append(back, string(s.HostID))
			} else {
				down = append(down, seatName(s))
			}
		case s.Up:
			left = append(left, seatName(s))
		default:
			down = append(down, seatName(s))
		}
	}
	n := len(v.roster.Voters())
	p := v.projection(0, len(left)-len(v.roster.Up()))
	if !v.seen {
		if force {
			return p, "no member answers", nil
		}
		return p, "", refuse("host-paused", "", "no member answers, so that nobody can tell what would be left while host %s is off; --force pauses it all the same", id)
	}
	if !votes {
		words := "it carries no voter, so that the quorum does not hang on it"
		if slices.ContainsFunc(v.roster.Learners(), func(s cluster.Seat) bool { return s.HostID == id }) {
			words += fmt.Sprintf("; its learner is taken out after %s of silence all the same, and it joins again once it is back and a voter is missing", shortly(joinPatience))
		}
		return v.projection(0, 0), words, nil
	}
	beside := ""
	if len(with) > 0 {
		beside = fmt.Sprintf(" together with %s, paused too", strings.Join(with, ", "))
	}
	words := fmt.Sprintf("while it is off%s, %d of %d voters %s left%s and a quorum is %d", beside, len(left), n, isAre(len(left)), among(left), cluster.Quorum(n))
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
			command = "etcdadm host resume " + ShellWord(back[0])
		}
		return p, "", refuse("host-paused", command, "host %s is not paused: %s: clients could neither read nor write. %s", id, words, way)
	case margin < 0:
		return p, words + ": clients can neither read nor write then", nil
	case margin == 0:
		return p, words + ": the cluster does not survive one more failure", nil
	default:
		return p, fmt.Sprintf("%s: the cluster survives %s more", words, failures(margin)), nil
	}
}

func failures(n int) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func among(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// shortly is a time as people write it, such as 30m and not 30m0s.
func shortly(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// known: the host is in sight, or somebody has a record of it.
func (v *view) known(id cluster.HostID) bool {
	if _, there := v.obs.Host(id); there || v.heardOf(id) || v.roster.Seated(id) {
		return true
	}
	_, seen := v.obs.Memory.Host(id)
	return seen || slices.ContainsFunc(v.obs.AtOdds, func(n cluster.Neighbour) bool { return n.Host == id })
}

// silentSince is since when a member's silence counts. That of a member which a person has
// taken out or replaced counts as ever: it is their word, as the pause was. So does that of
// a learner, which has no vote to lose.
func (v *view) silentSince(s cluster.Seat) time.Time {
	since := v.obs.Memory.Member(s.ID).SilentSince
	if s.Learner {
		return since
	}
	if (v.goal.Kind == Leave || v.goal.Kind == Replace) && v.goal.names(s) {
		return since
	}
	return v.obs.Memory.Counts(since, s.HostID)
}

// noteExcused says of a silent voter that its silence does not count now, and why; false:
// it does.
func (v *view) noteExcused(s cluster.Seat) bool {
	if p, paused := v.obs.PauseOf(s.HostID); paused {
		then := "it is not replaced, and its silence counts from then on"
		if n := len(v.roster.Voters()); n > v.wanted() {
			then = fmt.Sprintf("its silence counts from then on. %s wanted and %d are there: a voter that is down goes first, paused or not", are(v.wanted(), "voter"), n)
		}
		v.advise("host-paused", "nothing while the host is off on purpose; once it is back, etcdadm host resume "+ShellWord(string(p.Host))+" ends the pause", "", "voter %s does not answer (%s), and host %s is paused until %s (%s): %s", seatName(s), s.Why, p.Host, clockWords(p.Until), p.Reason, then)
		return true
	}
	if why := v.obs.PausesUnread; why != "" {
		v.aside("host-paused", "", "voter %s does not answer (%s), and which hosts are paused is not known (%s): nobody is replaced for silence before that", seatName(s), s.Why, why)
		return true
	}
	return false
}

// notePausedAway says of a host that is paused and not in sight that the quorum waits for
// it; false: it is not.
func (v *view) notePausedAway(id cluster.HostID) bool {
	p, paused := v.obs.PauseOf(id)
	if _, there := v.obs.Host(id); there || !paused {
		return false
	}
	v.advise("host-paused", "bring host "+string(id)+" back; where it is gone for good, end its pause: etcdadm host resume "+ShellWord(string(id)), "", "host %s is paused until %s (%s), and its voter is missing for the quorum", id, clockWords(p.Until), p.Reason)
	return true
}

// notePauses tells of pauses that go on as the leader has read them, and not as the store
// has them: the next leader would not know of them.
func (v *view) notePauses() {
	var hosts []cluster.HostID
	for _, p := range v.obs.Pauses() {
		hosts = append(hosts, p.Host)
	}
	switch {
	case v.obs.PausesDamaged != "" && len(hosts) > 0:
		v.aside("host-paused", "", "which hosts are paused cannot be read any more, and the pauses read before go on while this daemon leads (%s): %s", idList(hosts), v.obs.PausesDamaged)
	case v.obs.PausesDamaged != "":
		v.aside("host-paused", "", "which hosts are paused cannot be read: %s", v.obs.PausesDamaged)
	case v.obs.PausesLost && len(hosts) > 0:
		v.advise("host-paused", "pause again (etcdadm host pause) or resume (etcdadm host resume) one of them, which writes it anew", "", "control/etcdadm-paused.json is gone from the store, and the pauses read before go on while this daemon leads: %s", idList(hosts))
	}
}

// excused are those of the hosts whose silence does not count now.
func (v *view) excused(of []cluster.HostID) (out []cluster.HostID) {
	for _, id := range of {
		if _, paused := v.obs.PauseOf(id); paused || v.obs.PausesUnread != "" {
			out = append(out, id)
		}
	}
	return out
}
