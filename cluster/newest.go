package cluster

import (
	"slices"
	"time"
)

// A generation that is being founded takes the place of one that may serve. Where it is on
// record in the store that is what was wanted a moment ago. Where only hosts remember it,
// or where that moment is long gone, nobody knows what clients have written since
// (SAFETY.md, rules 17 and 18).

// ConsentLasts is how long a restore, a recovery or an undo may wait in the queue.
const ConsentLasts = 10 * time.Minute

// FoundingDoubt is why a founding is not followed.
type FoundingDoubt string

const (
	// FoundingUnstored: hosts remember the founding, and the store does not have it.
	FoundingUnstored FoundingDoubt = "unstored"
	// FoundingUnknown: hosts remember the founding, and the store does not answer.
	FoundingUnknown FoundingDoubt = "unknown"
	// FoundingAged: it was written down longer ago than consent lasts.
	FoundingAged FoundingDoubt = "aged"
	// FoundingNeedless: it is a recovery, and what it was to take the place of serves.
	FoundingNeedless FoundingDoubt = "needless"
)

// Clock is what time it is by most of the hosts in sight: the middle of their clocks, of
// two in the middle the one nearer to the leader's; the leader's where no host says. Of
// three hosts one whose clock is off, be it the leader's, makes nothing older or younger
// than it is.
func (o *Observation) Clock() time.Time {
	var clocks []time.Time
	for i := range o.Hosts {
		if at := o.Hosts[i].Clock; !at.IsZero() {
			clocks = append(clocks, at)
		}
	}
	if len(clocks) == 0 {
		return o.At
	}
	slices.SortFunc(clocks, time.Time.Compare)
	below, above := clocks[(len(clocks)-1)/2], clocks[len(clocks)/2]
	if o.At.Sub(below).Abs() < o.At.Sub(above).Abs() {
		above = below
	}
	return above.Round(0)
}

// Intent is the newest intent in sight that is followed: the store's, or the highest that
// a host keeps when the store's is older or missing. A founding in doubt that the store
// has is given all the same, since nothing else can be written over it.
func (o *Observation) Intent() *Intent {
	best := o.Store.Intent
	for i := range o.Hosts {
		if in := o.Hosts[i].Intent; in != nil && in.Order(best) > 0 && !o.leaves(in) {
			best = in
		}
	}
	return best
}

// Followed is Intent, and the newest below it where that is in doubt: what hosts may be
// told.
func (o *Observation) Followed() *Intent {
	var best *Intent
	take := func(in *Intent) {
		if in != nil && in.Order(best) > 0 && o.DoubtOf(in) == "" {
			best = in
		}
	}
	take(o.Store.Intent)
	for i := range o.Hosts {
		take(o.Hosts[i].Intent)
	}
	return best
}

// Disputed reports whether it is being founded, and a host or the store has another
// founding of its number, or one that its history does not have.
func (o *Observation) Disputed(in *Intent) bool {
	if in == nil || in.State != IntentFounding {
		return false
	}
	return !in.Follows(o.Store.Intent) || slices.ContainsFunc(o.Hosts, func(h HostReport) bool { return !in.Follows(h.Intent) })
}

// Unfollowed are the foundings in doubt that hosts keep and the store does not have, one of
// each generation, and who keeps it.
func (o *Observation) Unfollowed() (out []Unfollowed) {
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if h.Intent == nil || !o.leaves(h.Intent) {
			continue
		}
		known := false
		for j := range out {
			if out[j].Intent.Generation == h.Intent.Generation {
				out[j].Hosts, known = append(out[j].Hosts, h.Host), true
			}
		}
		if !known {
			out = append(out, Unfollowed{Intent: h.Intent, Doubt: o.DoubtOf(h.Intent), Hosts: []HostID{h.Host}})
		}
	}
	return out
}

// Unfollowed is a founding that is remembered and not followed.
type Unfollowed struct {
	Intent *Intent
	Doubt  FoundingDoubt
	Hosts  []HostID
}

// leaves: it is a founding in doubt that the store does not have.
func (o *Observation) leaves(in *Intent) bool {
	switch o.DoubtOf(in) {
	case FoundingUnstored, FoundingUnknown:
		return true
	}
	return false
}

// DoubtOf is why a founding is not followed; empty: it is, or is none. One that so many
// voters of each generation before it have promised to make way for that the rest can
// never serve again is followed whatever else is true.
func (o *Observation) DoubtOf(in *Intent) FoundingDoubt {
	if in == nil || in.Adopted() || in.State != IntentFounding {
		return ""
	}
	st := o.Store.Intent
	stored := st != nil && st.Generation == in.Generation && st.Nonce == in.Nonce
	aged := o.At.Sub(time.Unix(0, in.Timestamp)) > ConsentLasts
	switch {
	case !stored && o.madeWay(in, false):
		return ""
	case !stored && !o.Store.Read:
		return FoundingUnknown
	case !stored:
		return FoundingUnstored
	case !in.Source.FromData():
		return ""
	case in.Source.Kind == SourceSurvivor && o.served(in):
		return FoundingNeedless
	case aged && (o.served(in) || !o.madeWay(in, true)):
		return FoundingAged
	}
	return ""
}

// madeWay: of each voter set of the generations before that are not closed, so many hosts
// keep this one, or refuse whatever is lower, that the rest is no quorum. What the store
// does not have may have closed the last of them on the word for hosts that serve now, so
// that it is asked all the same.
func (o *Observation) madeWay(in *Intent, stored bool) bool {
	for i, g := range in.History {
		if g.Closed && (stored || i < len(in.History)-1) {
			continue
		}
		for _, set := range g.Voters {
			n := 0
			for _, w := range set {
				if h, ok := o.Host(w.Host); ok && w.Host != "" && h.Floor() >= in.Generation {
					n++
				}
			}
			if n < Blocking(len(set)) {
				return false
			}
		}
	}
	return true
}

// Voice is the host in sight that can promise for a voter of a set: the one that the record
// names, whatever its disk; where that one is out of reach, one at the voter's peer
// address, unless the record names it for another voter. nil: none.
func (o *Observation) Voice(w Voter, set []Voter) *HostReport {
	if w.Host != "" {
		if h, ok := o.Host(w.Host); ok {
			return h
		}
		if is, _ := o.Presence(w.Host); is.Answers() {
			return nil // it answers, and speaks for itself
		}
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		named := slices.ContainsFunc(set, func(x Voter) bool { return x.Host == h.Host })
		if !named && overlap(h.URLs.Peer, w.PeerURLs) {
			return h
		}
	}
	return nil
}

// GivenUp reports whether a command in the queue names the voter as lost.
func (o *Observation) GivenUp(w Voter) bool {
	return slices.ContainsFunc(o.Commands, func(c Command) bool {
		return c.Malformed == "" && c.Ended == "" && (w.Host != "" && slices.Contains(c.Lost, w.Host) || slices.Contains(c.Lost, HostID(w.Member.String())))
	})
}

// Serves reports whether a cluster of the record reads through raft that is not closed: it
// has a quorum, whatever is seen of its members.
func (o *Observation) Serves(in *Intent) bool {
	if in == nil {
		return false
	}
	if in.Cluster != 0 && in.State == IntentFounded {
		for i := range o.Hosts {
			if v := o.Hosts[i].View; v != nil && v.Linearizable && v.Cluster == in.Cluster {
				return true
			}
		}
	}
	return o.served(in)
}

// served: a generation before, which is not closed, or was closed last, reads through raft.
func (o *Observation) served(in *Intent) bool {
	for last, g := range in.History {
		for i := range o.Hosts {
			open := !g.Closed || last == len(in.History)-1
			if v := o.Hosts[i].View; open && g.Cluster != 0 && v != nil && v.Linearizable && v.Cluster == g.Cluster {
				return true
			}
		}
	}
	return false
}

// Named reports whether any record in sight is of a generation with this token, followed
// or not.
func (o *Observation) Named(token string) bool {
	names := func(in *Intent) bool { return in != nil && token != "" && in.Token == token }
	return names(o.Store.Intent) || slices.ContainsFunc(o.Hosts, func(h HostReport) bool { return names(h.Intent) })
}

// Ran reports whether a generation was written for the command, by any record in sight.
func (o *Observation) Ran(name string) bool {
	if o.Store.Intent.Ran(name) {
		return true
	}
	for i := range o.Hosts {
		if o.Hosts[i].Intent.Ran(name) {
			return true
		}
	}
	return false
}

// EndOf is how a command ended, by any record in sight; false: it did not.
func (o *Observation) EndOf(name string) (EndedCommand, bool) {
	if end, ok := o.Store.Intent.EndOf(name); ok {
		return end, true
	}
	for i := range o.Hosts {
		if end, ok := o.Hosts[i].Intent.EndOf(name); ok {
			return end, true
		}
	}
	return EndedCommand{}, false
}

// overlap reports whether two lists of URLs have an address in common, with TLS or without: who listens there is one and the same.
func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool {
		return slices.ContainsFunc(b, func(t string) bool { return s == t || addressOf(s) == addressOf(t) })
	})
}

// Members is the best member list in sight: of the cluster that the intent
// names, of the newest generation, a linearizable one before one that is not,
// then of the furthest member. A host that runs a member of another cluster
// must not hide ours.
func (o *Observation) Members() (*MemberView, bool) {
	var best *HostReport
	in := o.Intent()
	better := func(a, b *HostReport) bool {
		if x, y := in.names(a), in.names(b); x != y {
			return x
		}
		if a.Local.Generation != b.Local.Generation {
			return a.Local.Generation > b.Local.Generation
		}
		if a.View.Linearizable != b.View.Linearizable {
			return a.View.Linearizable
		}
		return index(a) > index(b)
	}
	for i := range o.Hosts {
		if h := &o.Hosts[i]; h.View != nil && (best == nil || better(h, best)) {
			best = h
		}
	}
	if best == nil {
		return nil, false
	}
	return best.View, true
}
