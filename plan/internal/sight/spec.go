package sight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Wanted is the number of voters that the goal asks for. Without a usable
// spec, or when it is on hold, it is what is there, and where the spec is refused also
// what was there before a repair that is under way; a person who takes a
// voter out then asks for one less.
func (v *Sight) Wanted() int {
	n, _ := v.Roster.Count()
	switch {
	case v.Spec != nil && !v.Spec.Hold && !v.Goal.Hold:
		return v.Spec.MemberCount
	case v.Goal.Kind == decision.Leave:
		return n - 1
	default:
		return standingCount(v, n)
	}
}

// A replacement is several changes of the voters, and whoever leads may end between
// two of them. How many voters there were, and which one goes, is in the record with
// the first change ([cluster.Replacing]): a spec that is refused says no count, and a
// person's step is not in the spec.

// Repairs reports whether dead members may be replaced. A spec says how many members are wanted; one
// that is refused leaves it at those that are.
func (v *Sight) Repairs() bool { return v.Spec != nil || v.Standing != nil }

// SpecRefused reports whether there is a spec in the store, and it cannot be followed.
func (v *Sight) SpecRefused() bool {
	return v.Spec == nil && (v.Obs.Spec != nil || slices.ContainsFunc(v.Obs.Gaps, func(g cluster.Gap) bool { return g.Kind == cluster.GapSpec }))
}

// Held reports whether a person keeps the voters as they are.
func (v *Sight) Held() bool {
	return v.Spec != nil && v.Spec.Hold || v.Standing != nil && v.Standing.Hold
}

// DeadAfter is how long a voter has to be silent to count as dead.
func (v *Sight) DeadAfter() time.Duration {
	switch {
	case v.Spec != nil:
		return v.Spec.DeadAfterOrDefault()
	case v.Standing != nil:
		return v.Standing.DeadAfterOrDefault()
	}
	return cluster.DefaultDeadAfter
}

// Named reports whether the host may carry a member, since it is named, or none is.
func (v *Sight) Named(h *cluster.HostReport) bool {
	var hosts []cluster.HostID
	switch {
	case v.Spec != nil:
		hosts = v.Spec.Hosts
	case v.Standing != nil:
		hosts = v.Standing.Hosts
	}
	return len(hosts) == 0 || slices.Contains(hosts, h.Host)
}

// ReplacingListed reports whether the voter that is being replaced still is one.
func (v *Sight) ReplacingListed() bool {
	r := v.Intent.Underway()
	return r != nil && slices.ContainsFunc(v.Roster.Voters(), func(s cluster.Seat) bool { return s.ID == r.Member })
}

// standingCount is how many voters there are to be where no spec says it: those that are
// listed; fewer only where a person's step has one too many on the way. While the spec is
// refused also one that a repair has removed and not replaced yet.
func standingCount(v *Sight, listed int) int {
	switch r := v.Intent.Underway(); {
	case r == nil:
		return listed
	case v.ReplacingListed():
		return min(listed, r.Voters)
	case v.Standing == nil || v.Goal.Hold:
		return listed
	default:
		return max(listed, r.Voters)
	}
}

// StandingWords is what goes on while the spec is refused.
func StandingWords(v *Sight) string {
	if v.Held() {
		return "the settings beside it put it on hold, so that no dead voter is replaced either"
	}
	return fmt.Sprintf("a dead voter is replaced after %s, and backups go on", v.DeadAfter())
}

// SpecUnread reports whether the spec in sight is an older one, because it could not be read now.
func (v *Sight) SpecUnread() bool {
	for _, g := range v.Obs.Gaps {
		if g.Kind == cluster.GapSpec || g.Kind == cluster.GapStore {
			return true
		}
	}
	return false
}

// Unfounded reports whether there is no record of ours of this cluster.
func (v *Sight) Unfounded() bool { return v.Intent == nil || v.Intent.Adopted() }

// EnoughForClients is a majority of the spec. Only a spec that is on hold, so
// that the cluster will not grow to it, makes it one of the voters that there
// are: a person's step with --hold does not.
func (v *Sight) EnoughForClients() int {
	if v.Spec.Hold {
		return cluster.Quorum(len(v.Roster.Voters()))
	}
	return cluster.Quorum(v.Spec.MemberCount)
}

// UnreadWords is why nothing in the store is gone by. One that refuses to be read has
// answered, and what it said is told beside this.
func (v *Sight) UnreadWords() string {
	if v.Obs.Store.Untried {
		return "the backup store cannot be relied on"
	}
	return "the backup store cannot be read"
}

// Store is the store as a person names it in a command.
func (v *Sight) Store() string { return cluster.ShellWord(cmp.Or(v.Obs.Store.URL, "STORE")) }
