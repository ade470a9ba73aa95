package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// HaltedSince is since when this halt is watched; zero: it is not.
func (m Memory) HaltedSince(halt *Halt) time.Time {
	if halt == nil || m.Halting.ID != halt.ID {
		return time.Time{}
	}
	return m.Halting.Since
}

// MissingSince is when the voter that has been missing for the longest time was
// seen to be in order last; zero: none is missing, or nothing is known of this halt.
func (m Memory) MissingSince(halt *Halt) (first time.Time) {
	if halt == nil || m.Halting.ID != halt.ID {
		return time.Time{}
	}
	for _, x := range m.Halting.Missing {
		if first.IsZero() || x.Since.Before(first) {
			first = x.Since
		}
	}
	return first
}

// foldHalting notes who is missing at a halt. A host that comes and goes begins
// anew each time; one whose log is being read is not missing as long as that goes on.
func foldHalting(before Halting, o *Observation) Halting {
	in := o.Intent()
	halt := in.Halted()
	if halt == nil {
		return Halting{}
	}
	if before.ID != halt.ID {
		before = Halting{}
	}
	now := Halting{ID: halt.ID, Since: since(before.Since, true, o.At)}
	for _, set := range in.VoterSets() {
		for _, w := range set {
			h, why := o.HaltedHost(w, halt)
			if why == "" || slices.ContainsFunc(now.Missing, func(m Missing) bool { return m.Member == w.Member }) {
				continue
			}
			m := Missing{Member: w.Member, Since: o.At}
			if h != nil && h.Reading != nil {
				m.Read = h.Reading.Bytes
			}
			if i := slices.IndexFunc(before.Missing, func(b Missing) bool { return b.Member == w.Member }); i >= 0 && m.Read <= before.Missing[i].Read {
				m = before.Missing[i]
			}
			now.Missing = append(now.Missing, m)
		}
	}
	return now
}

// HaltedHost is the host of a voter, once it is known to keep the halt, to run
// nothing, and to have its log; or why it does not count, with the host where it
// is in sight.
func (o *Observation) HaltedHost(w Voter, halt *Halt) (*HostReport, string) {
	i := slices.IndexFunc(o.Hosts, func(h HostReport) bool {
		return h.Local.Member == w.Member && h.Local.Generation == halt.Generation
	})
	if i < 0 {
		name := w.Host
		name = cmp.Or(name, HostID(w.Member.String()))
		return nil, fmt.Sprintf("%s is unreachable", name)
	}
	h := &o.Hosts[i]
	kept := h.Intent.Halted()
	switch {
	case !h.UnderFence || kept == nil || kept.ID != halt.ID:
		return h, fmt.Sprintf("%s has not heard of it", h.Host)
	case h.Process.State != ProcessStopped:
		return h, fmt.Sprintf("%s: its process is %s", h.Host, h.Process.Words())
	case h.Local.State != MemberStarted || !h.Local.HasData:
		return h, fmt.Sprintf("%s does not hold its data", h.Host)
	case h.Log == nil && h.Reading != nil:
		return h, fmt.Sprintf("the log of %s is being read: %s", h.Host, h.Reading)
	case h.Log == nil:
		return h, fmt.Sprintf("the end of the log of %s was not read yet", h.Host)
	}
	return h, ""
}

func (r LogReading) String() string {
	return fmt.Sprintf("%d of %d MiB", r.Bytes>>20, r.Of>>20)
}
