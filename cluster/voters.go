package cluster

import "slices"

// Voter is a voter as the intent records it.
type Voter struct {
	Host     HostID   `json:"host,omitempty"`
	Disk     DiskID   `json:"disk,omitempty"`
	Member   MemberID `json:"member"`
	PeerURLs []string `json:"peerURLs,omitempty"`
}

// VoterChange is one change of the voters.
type VoterChange struct {
	Voter  Voter `json:"voter"`
	Remove bool  `json:"remove,omitempty"`
}

// MostPending is how many changes may be pending before no other is begun.
const MostPending = 4

// VoterSets are the sets that the voters of this generation are or may be by
// now, the one that was seen first: a later one asks for the promises of each
// (SAFETY.md, rule 13). A change that is pending may be made or not, alone or
// together with any of the others.
func (in *Intent) VoterSets() [][]Voter {
	if in == nil || len(in.Voters) == 0 {
		return nil
	}
	sets := [][]Voter{in.Voters}
	steps := [][]VoterChange{changes(in.Voters, in.Next)} // one call, whatever it changes
	for _, c := range in.Pending {
		steps = append(steps, []VoterChange{c})
	}
	for _, step := range steps {
		for _, changed := range slices.Clone(sets) {
			for _, c := range step {
				changed = c.made(changed)
			}
			if !slices.ContainsFunc(sets, func(o []Voter) bool { return SameVoters(o, changed) }) {
				sets = append(sets, changed)
			}
		}
	}
	return slices.DeleteFunc(sets, func(s []Voter) bool { return len(s) == 0 })
}

// Supersede puts another set in the place of Next (nil: none). The change that
// was written down there stays pending.
func (in *Intent) Supersede(next []Voter) {
	in.pend(changes(in.Voters, in.Next))
	in.Next = next
}

// Settle writes down what the voters are. What was to be, and is not seen in
// them, may still come on top of what happened in its place.
func (in *Intent) Settle(now []Voter) {
	in.pend(changes(in.Voters, in.Next))
	in.Replacing = in.Replacing.replaced(in.Voters, now)
	in.Voters, in.Next = now, nil
	pending := in.Pending
	in.Pending = nil
	in.pend(slices.DeleteFunc(slices.Clone(pending), func(c VoterChange) bool { return has(now, c.Voter) != c.Remove }))
}

func (in *Intent) pend(open []VoterChange) {
	for _, c := range open {
		if !slices.ContainsFunc(in.Pending, func(o VoterChange) bool { return o.Voter.is(c.Voter) && o.Remove == c.Remove }) {
			in.Pending = append(slices.Clip(in.Pending), c)
		}
	}
}

// changes are what makes next of the voters; nothing when next is nothing.
func changes(from, next []Voter) (out []VoterChange) {
	if len(next) == 0 {
		return nil
	}
	for _, v := range next {
		if !has(from, v) {
			out = append(out, VoterChange{Voter: v})
		}
	}
	for _, v := range from {
		if !has(next, v) {
			out = append(out, VoterChange{Voter: v, Remove: true})
		}
	}
	return out
}

// made is what the change makes of the voters. Member IDs are never given
// twice, so what is there already, or gone already, stays so.
func (c VoterChange) made(voters []Voter) []Voter {
	switch {
	case has(voters, c.Voter) != c.Remove:
		return voters
	case c.Remove:
		return slices.DeleteFunc(slices.Clone(voters), func(v Voter) bool { return v.is(c.Voter) })
	}
	return append(slices.Clone(voters), c.Voter)
}

func has(voters []Voter, v Voter) bool {
	return slices.ContainsFunc(voters, func(o Voter) bool { return o.is(v) })
}

// is goes by the member ID. One that is yet to be given by an add of a voter
// stands for the disk that the member is to be on.
func (v Voter) is(o Voter) bool {
	return v.Member == o.Member && (v.Member != 0 || v.Host == o.Host && v.Disk == o.Disk)
}

// Named is the set with the IDs that etcd has given since, by peer URL, to the
// voters that were written down before they had one.
func Named(next, now []Voter) []Voter {
	out := slices.Clone(next)
	for i, v := range out {
		if v.Member != 0 {
			continue
		}
		for _, n := range now {
			if slices.Equal(n.PeerURLs, v.PeerURLs) && !has(next, n) {
				out[i].Member = n.Member
			}
		}
	}
	return out
}

// SameVoters reports whether both sets hold the same member IDs.
func SameVoters(a, b []Voter) bool {
	if len(a) != len(b) {
		return false
	}
	for _, v := range a {
		if !has(b, v) {
			return false
		}
	}
	return true
}

// VoterHosts are the hosts of the voters, or else of the founders.
func (in *Intent) VoterHosts() []HostID {
	var out []HostID
	if in == nil {
		return nil
	}
	for _, v := range in.Voters {
		out = append(out, v.Host)
	}
	if len(out) == 0 {
		for _, f := range in.Founders {
			out = append(out, f.Host)
		}
	}
	return out
}
