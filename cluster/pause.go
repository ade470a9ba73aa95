package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A pause records that somebody takes a host down on purpose. From the word that it may go,
// its silence makes nobody dead before the pause is over (SAFETY.md, rule 4), and while the
// host itself reports the pause nobody else is taken away (rule 1; docs/adr/039-a-pause-is-a-permission.md).
// Who votes and what a quorum is stay as they are, and what a host says itself, such as that
// its disk is empty, counts as ever.

// MaxPause is how long a host may be paused at a time.
const MaxPause = 24 * time.Hour

// pauseSkew is how far the clocks that a pause is read by may differ from those that it was
// written by, where it is as long as one may be.
const pauseSkew = time.Minute

// InForce reports whether the pause is not over. One that had more left than any may last
// was written by a clock that was off, or by hand, and is none.
func (p Pause) InForce(now time.Time) bool {
	left := p.Until.Sub(now)
	return p.Host != "" && !p.Ended && left > 0 && left <= MaxPause+pauseSkew
}

// Asked reports whether somebody waits for the word that the host may go, or for it to be
// granted again after its host came back. Its time may be up all the same.
func (p Pause) Asked(now time.Time) bool {
	return p.ID != "" && p.Host != "" && !p.Ended && p.For > 0 && p.For <= MaxPause && (p.Until.IsZero() || p.InForce(now))
}

// Timed reports whether the end on record leaves the host at least half of its time, and not more than all of it: one
// written by a clock that was ahead would be granted again and again.
func (p Pause) Timed(now time.Time) bool {
	left := p.Until.Sub(now)
	return !p.Until.IsZero() && left >= p.For/2 && left <= p.For+pauseSkew
}

// Over reports whether nothing of the pause is left to be known: an ended one is, as long as
// its host may not have heard of it.
func (p Pause) Over(now time.Time) bool {
	if p.Ended {
		return now.Sub(p.Until) > MaxPause
	}
	return !p.Asked(now) && !p.InForce(now)
}

// Equal reports whether both are the same word.
func (p Pause) Equal(o Pause) bool {
	times := p.From.Equal(o.From) && p.Until.Equal(o.Until)
	p.From, p.Until = o.From, o.Until
	return times && p == o
}

// SamePauses reports whether both lists say the same.
func SamePauses(a, b []Pause) bool { return slices.EqualFunc(a, b, Pause.Equal) }

// PauseOf is the pause of a host that is in force, by the clock of most hosts.
func (o *Observation) PauseOf(id HostID) (Pause, bool) {
	if len(o.Paused) == 0 { // nearly always
		return Pause{}, false
	}
	now := o.Clock()
	for _, p := range o.Paused {
		if p.Host == id && p.InForce(now) {
			return p, true
		}
	}
	return Pause{}, false
}

// Pauses are those in force, sorted by host.
func (o *Observation) Pauses() (out []Pause) {
	if len(o.Paused) == 0 {
		return nil
	}
	now := o.Clock()
	for _, p := range o.Paused {
		if p.InForce(now) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Pause) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return out
}

// Granted reports whether the host itself says that it may go by this pause.
func (h *HostReport) Granted(id string) bool {
	return id != "" && slices.ContainsFunc(h.Paused, func(p Pause) bool { return p.ID == id })
}

// EndedPauses are the IDs of those that were ended, for their hosts to hear.
func EndedPauses(all []Pause) (out []string) {
	for _, p := range all {
		if p.Ended && p.ID != "" {
			out = append(out, p.ID)
		}
	}
	return out
}

// foldExcused notes whose silence does not count, and from when on that of others does. A
// leader that does not know yet who is paused excuses everybody.
func foldExcused(before []Excused, o *Observation) []Excused {
	if len(before) == 0 && len(o.Paused) == 0 && o.PausesUnread == "" {
		return nil
	}
	var out []Excused
	if o.PausesUnread != "" {
		out = append(out, Excused{From: o.At, InForce: true})
	}
	for _, p := range o.Pauses() {
		out = append(out, Excused{Host: p.Host, From: o.At, InForce: true})
	}
	for _, b := range before {
		switch {
		case slices.ContainsFunc(out, func(e Excused) bool { return e.Host == b.Host }):
		case b.InForce: // it ended since the last look
			out = append(out, Excused{Host: b.Host, From: o.At})
		case o.At.Sub(b.From) <= MaxUnseen:
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b Excused) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// Hostless is for how long the host of a member has not answered, as far as that counts; zero: it answers, or that is not remembered.
func (m Memory) Hostless(member MemberID, host HostID, now time.Time) time.Duration {
	since := m.Counts(m.Member(member).HostlessSince, host)
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}

// Counts is since when something that lasts on a host counts: since it began, and not
// since before the end of the host's pause. Zero stays zero.
func (m Memory) Counts(since time.Time, host HostID) time.Time {
	for _, e := range m.Excused {
		if !since.IsZero() && (e.Host == host || e.Host == "") && e.From.After(since) {
			since = e.From
		}
	}
	return since
}
