package cluster

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
