package sight

import (
	"slices"

	"etcdadm.io/cluster"
)

// Past is the present generation as an entry of the history: open, until
// enough of its voters have promised to refuse it. The predecessor's, which
// names no voters, is closed by the command itself. Voters that somebody made by
// hand and that are not written down yet count as well.
func (v *Sight) Past() cluster.PastGeneration {
	in := v.Intent.Clone()
	g := cluster.PastGeneration{Generation: in.Generation, Cluster: in.Cluster, Write: in.Write, Closed: in.Generation == 0}
	if len(in.Voters) == 0 {
		in.Voters = FounderVoters(in)
	}
	g.Voters = in.VoterSets()
	if v.Seen && v.Roster.Cluster == in.Cluster && in.Cluster != 0 {
		now := v.VotersNow()
		if len(now) > 0 && !slices.ContainsFunc(g.Voters, func(set []cluster.Voter) bool { return cluster.SameVoters(set, now) }) {
			g.Voters = append(g.Voters, now)
		}
	}
	return g
}

// A generation may start once so many voters of every voter set of each open
// generation before it refuse theirs, or are named lost, that the rest is no
// quorum (SAFETY.md, rule 13).

// Open lists the generations before the one that would be next, which are not
// closed.
func (v *Sight) Open(intents bool) []cluster.PastGeneration {
	if v.Intent == nil {
		return nil
	}
	past := slices.Clone(v.Intent.History)
	if intents {
		past = append(past, v.Past())
	}
	return slices.DeleteFunc(past, func(g cluster.PastGeneration) bool { return g.Closed })
}

// NextGeneration is above the present one and above what any host promised.
func (v *Sight) NextGeneration() uint64 {
	next := uint64(1)
	if v.Intent != nil {
		next = v.Intent.Generation + 1
	}
	for i := range v.Obs.Hosts {
		next = max(next, v.Obs.Hosts[i].LowestGeneration)
		if in := v.Obs.Hosts[i].Intent; in != nil && v.Intent.Order(in) < 0 { // one that is not followed is not named twice
			next = max(next, in.Generation+1)
		}
	}
	return next
}

// Forgotten are entries of the history for foundings that hosts remember and nobody
// follows: a further generation has their promise as well.
func Forgotten(v *Sight) (out []cluster.PastGeneration) {
	for _, u := range v.Obs.Unfollowed() {
		if v.Intent != nil && u.Intent.Generation <= v.Intent.Generation {
			continue
		}
		out = append(out, cluster.PastGeneration{Generation: u.Intent.Generation, Cluster: u.Intent.Cluster, Write: u.Intent.Write, Voters: [][]cluster.Voter{FounderVoters(u.Intent)}})
	}
	return out
}

// Union is a with what of b it lacks, in their order.
func Union(a, b []cluster.HostID) []cluster.HostID {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
