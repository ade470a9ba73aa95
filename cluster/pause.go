package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A pause records that a person took a host down on purpose: its silence makes
// nobody dead before the pause is over (SAFETY.md, rule 4). Everything else goes on: who
// votes and what a quorum is stay as they are, and what a host says itself, such as that
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
	return p.Host != "" && left > 0 && left <= MaxPause+pauseSkew
}

// Equal reports whether both are the same word.
func (p Pause) Equal(o Pause) bool {
	return p.Host == o.Host && p.From.Equal(o.From) && p.Until.Equal(o.Until) && p.Reason == o.Reason && p.By == o.By
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
