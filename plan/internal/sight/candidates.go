package sight

import (
	"cmp"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// Candidates are hosts that could carry a new member now, and in words why the
// others could not. The first are those that gave up the fewest members of this
// generation: one on which etcd never starts, for a reason that its daemon does
// not see, would be tried for ever while another one is free.
func (v *Sight) Candidates() (free []*cluster.HostReport, why []string) {
	free, why = v.CandidatesBeside(v.Roster)
	slices.SortStableFunc(free, func(a, b *cluster.HostReport) int { return cmp.Compare(v.GaveUp(a), v.GaveUp(b)) })
	return free, why
}

// GaveUp is how many members the host's disk gave up that never had a vote there: one that
// served, and went because its host was off for long, or with its generation, tells nothing
// against the host.
func (v *Sight) GaveUp(h *cluster.HostReport) int {
	n := len(h.GaveUp)
	for _, id := range h.GaveUp {
		voted := slices.Contains(h.Voted, id) ||
			v.Intent != nil && slices.ContainsFunc(v.Intent.History, func(g cluster.PastGeneration) bool { return g.Voted(id) })
		if voted {
			n--
		}
	}
	return n
}

func (v *Sight) CandidatesBeside(r cluster.Roster) (free []*cluster.HostReport, why []string) {
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if r.Seated(h.Host) {
			continue
		}
		if reason := v.Unfit(h); reason != "" {
			why = append(why, fmt.Sprintf("%s %s", h.Host, reason))
			continue
		}
		free = append(free, h)
	}
	for _, n := range v.Obs.Incompatible {
		if n.Host == "" || !r.Seated(n.Host) {
			why = append(why, fmt.Sprintf("the daemon at %s%s does not talk with the leading one: %s", n.Endpoint, words.SaidToBe(n.Host), n.Why))
		}
	}
	return free, why
}

// Unfit says why a host cannot be given a member; empty: it can.
func (v *Sight) Unfit(h *cluster.HostReport) string {
	switch {
	case !h.UnderFence:
		return "has not accepted this leader's fence"
	case !v.Named(h):
		return "is not among the hosts that the spec names"
	case len(h.Paused) > 0:
		return "is paused and may go at any moment"
	case len(h.Foreign) > 0:
		return HoldsForeign(h)
	case h.Predecessor != nil:
		return "holds a member of etcd-manager: " + h.Predecessor.Waits
	case h.Carries():
		return fmt.Sprintf("still holds data of member %s", h.Local.Member)
	case len(h.URLs.Peer) == 0:
		return "has no peer URL"
	case v.Intent != nil && v.Intent.State == cluster.IntentFounded && h.LowestGeneration > v.Intent.Generation:
		return fmt.Sprintf("has permanently fenced off generation %d: stop its daemon, move its data directory away and start it on an empty one", v.Intent.Generation)
	}
	if p := Problem(h); p != "" {
		return p
	}
	if !h.Free() {
		return "is not free: its process is " + string(h.Process.State)
	}
	if v.Seen {
		if want, ok := v.VersionFor(h); !ok {
			return fmt.Sprintf("has no etcd %s", want)
		}
		return TlsBefore(v, h)
	}
	return ""
}

// HoldsForeign names what a host holds that is not this cluster's. A host whose
// own state cannot be used names no directory.
func HoldsForeign(h *cluster.HostReport) string {
	f := h.Foreign[0]
	if f.Dir == "" {
		return "cannot use what its data directory holds: " + f.Reason
	}
	return "holds data that nothing accounts for: " + f.Dir
}

// Problem is what the host reports that keeps it from carrying a member, to go on with
// after its name; the blocker of that code has the sentence.
func Problem(h *cluster.HostReport) string {
	for _, p := range h.Problems {
		if p.Unfit {
			return "reports " + p.Code
		}
	}
	return ""
}
