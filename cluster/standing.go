package cluster

import (
	"maps"
	"slices"
	"time"
)

// Standing is what repairs go by while the spec in the store is refused and none
// before it is known: the settings beside it, which could be read, or which there are
// none of. A count and a version are not in it. There are to be as many voters as
// there are, of what they run.
type Standing struct {
	Hosts     []HostID          `json:"hosts,omitempty"`
	Hold      bool              `json:"hold,omitempty"`
	DeadAfter time.Duration     `json:"deadAfter,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
}

// Standing is what is left of a spec that is refused.
func (s Spec) Standing() *Standing {
	return &Standing{Hosts: slices.Clone(s.Hosts), Hold: s.Hold, DeadAfter: s.DeadAfter, Options: maps.Clone(s.Options)}
}

// DeadAfterOrDefault is as that of a spec.
func (s Standing) DeadAfterOrDefault() time.Duration {
	return Spec{DeadAfter: s.DeadAfter}.DeadAfterOrDefault()
}

// Equal reports whether both say the same; both may be nil.
func (s *Standing) Equal(o *Standing) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Hold == o.Hold && s.DeadAfter == o.DeadAfter && slices.Equal(s.Hosts, o.Hosts) && maps.Equal(s.Options, o.Options)
}

// Replacing is a voter whose place another one takes, as the record keeps it: from
// the write before the first change of the voters that this needs until they are as
// many again and it is not among them, or until something else became of it. It is
// replaced, never changed in place.
type Replacing struct {
	Member MemberID `json:"member"`
	Host   HostID   `json:"host,omitempty"` // whose member it is or was, where that is known
	Voters int      `json:"voters"`         // that there were, and are to be again
}

// replaced is what is left of the replacement once the voters are these.
func (r *Replacing) replaced(before, now []Voter) *Replacing {
	if r == nil {
		return nil
	}
	member := Voter{Member: r.Member}
	switch listed := has(now, member); {
	case !listed && len(now) >= r.Voters: // done
		return nil
	case listed && len(now) < len(before): // another one was taken out
		return nil
	}
	return r
}

// Underway is the replacement that the record has; nil: none.
func (in *Intent) Underway() *Replacing {
	if in == nil {
		return nil
	}
	return in.Replacing
}
