package cluster

import "time"

// Halt stops every member of a generation, so that the next one is made from
// all that they have, with another release of etcd (docs/adr/017-any-version.md).
// It is a record in the intent, put there and taken back by compare-and-swap
// only. A host that keeps an intent with a halt in force runs no member of that
// generation; once the halt is taken back it starts its member again, as it was.
// So a generation that was made while it was halted, and one that goes on, cannot
// both be written.
type Halt struct {
	// ID was never used before: what was made ready under it is of no use under
	// another one.
	ID string `json:"id"`
	// Generation is the one that is halted. A later intent keeps the record, to
	// tell where it came from.
	Generation uint64 `json:"generation"`
	// From is what the members ran, To what the next generation is to run, and
	// Wanted what the spec asked for, to which To may only be on the way.
	From   Version `json:"from"`
	To     Version `json:"to"`
	Wanted Version `json:"wanted"`
	// Consent is a person's word for the outage, as the spec had it.
	Consent string `json:"consent,omitempty"`
	// Accept is the digest of the list of losses that a person accepted; empty:
	// nothing may be lost.
	Accept string `json:"accept,omitempty"`
	// At is when it was decided, by the clock of that leader.
	At time.Time `json:"at"`
	// Ended says why it was taken back, or what became of the generation that
	// was made; empty: it was not.
	Ended string `json:"ended,omitempty"`
}

// Halted is the halt that is in force over the intent's own generation; nil: none.
func (in *Intent) Halted() *Halt {
	if in == nil || in.Halt == nil || in.Halt.Ended != "" || in.Halt.Generation != in.Generation {
		return nil
	}
	return in.Halt
}

// ChangeFailed is a change of version through a halt that did not come to its
// end, for this wish; nil: there is none, and it may be begun.
func (in *Intent) ChangeFailed(wanted Version, consent string) *Halt {
	if in == nil || in.Halt == nil || in.Halt.Ended == "" || in.Halt.Wanted != wanted || in.Halt.Consent != consent {
		return nil
	}
	return in.Halt
}
