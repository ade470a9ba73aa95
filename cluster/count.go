package cluster

// Over reports whether the spec still is the one that the count was to change.
func (c *CountChange) Over(s *Spec) bool {
	return c != nil && s != nil && s.MemberCount == c.Was && s.EtcdVersion == c.Version
}

// InForce reports whether the count goes for that of the spec.
func (c *CountChange) InForce(s *Spec) bool { return c.Over(s) && !c.Done }

// Left reports whether the spec is as the command left it.
func (c *CountChange) Left(s *Spec) bool {
	return c != nil && s != nil && c.Done && s.MemberCount == c.Members && s.EtcdVersion == c.Version
}

// On is the count for a spec as it is now; nil: a person changed that since the
// command was queued. One that is as the command before this one left it counts
// as unchanged, since both were queued before.
func (c *CountChange) On(s *Spec, before *CountChange) *CountChange {
	if c == nil || s == nil {
		return nil
	}
	if !c.Over(s) && (!before.Left(s) || c.Version != before.Version) {
		return nil
	}
	if before.Left(s) && c.Members == s.MemberCount { // it is so already, and by a command
		n := *before
		return &n
	}
	return &CountChange{Members: c.Members, Was: s.MemberCount, Version: s.EtcdVersion}
}

// Apply is the spec with the count. Who asks for a count does not want the
// voters to stay as they are.
func (c *CountChange) Apply(s Spec) Spec {
	s.MemberCount, s.Hold = c.Members, false
	return s
}

// Wanted is the spec that is in force: the one that was read, but for a member
// count that the present generation's command asked for and that the spec does
// not have yet. Nil: there is none.
func (o *Observation) Wanted() *Spec {
	in := o.Intent()
	if in == nil || !in.Count.InForce(o.Spec) {
		return o.Spec
	}
	s := in.Count.Apply(*o.Spec)
	return &s
}
