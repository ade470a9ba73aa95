package record

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// SetAside has a host stop a member that cannot come back, and move its data
// away, so that the host can be used again. That is a member that the
// cluster's own quorum removed, or one of a generation that the intent's
// history lists as closed (SAFETY.md, rule 21). Any other data is left alone.
func SetAside(v *step.View) *decision.Decision {
	if v.Intent == nil {
		return nil
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if !h.UnderFence || !h.Carries() || h.Local.Member == 0 || cannotMove(v, h) {
			continue
		}
		switch {
		case sight.Superseded(v.Sight, h):
			return step.SetAsideOp(v, h, cluster.AsideSuperseded, words.F("host {host} has a member of generation {generation}, which generation {generation2} replaced", h.Host, h.Local.Generation, v.Intent.Generation))
		case Removed(v, h):
			if by, listed := listedBy(v, h.Local.Member); listed {
				v.Notice("lists-differ", "", "member {member} of host {host} is not in the newest list of members, and in that of host {host2} it is: it is not set aside while the lists differ", h.Local.Member, h.Host, by)
				continue
			}
			if took, listed := v.Roster.Seat(h.Local.Took); listed {
				// What ran as a member that is listed is looked at by a person.
				v.Notice("other-member-id", "", "host {host} holds what etcd wrote as member {member} of host {host2}, which it took for its own: it is not set aside while that member is listed", h.Host, took.ID, words.SeatName(took))
				continue
			}
			if !surelyPromisedBefore(v, h) {
				return &decision.Decision{Reason: words.F("host {host} has member {member}, which is not listed: look once more", h.Host, h.Local.Member), Again: decision.Soon}
			}
			return step.SetAsideOp(v, h, cluster.AsideRemoved, words.F("member {member} of host {host} was removed from the cluster", h.Local.Member, h.Host))
		}
	}
	return nil
}

// cannotMove: the host has begun to set its data aside, cannot finish for now,
// and says so. It tries again by itself, and nothing else waits for it.
func cannotMove(v *step.View, h *cluster.HostReport) bool {
	return h.Local.State == cluster.MemberRemoved && sight.Problem(h) != ""
}

// Removed reports whether a current list of the host's own cluster does not
// hold the member that the host carries.
func Removed(v *step.View, h *cluster.HostReport) bool {
	adopted := h.TookOver() && h.Local.Adopted // whoever ran the others has removed it
	if !v.Seen || !v.Roster.Linearizable || h.Local.Generation != v.Intent.Generation && !adopted {
		return false
	}
	if h.Local.Cluster != 0 && h.Local.Cluster != v.Roster.Cluster {
		return false
	}
	_, listed := v.Roster.Seat(h.Local.Member)
	return !listed
}

// listedBy names a host whose member lists, as of now, one that the roster lacks.
// Members whose lists differ for good do exist: each judges a change by its own
// release and options (ADR 016, ADR 022).
func listedBy(v *step.View, id cluster.MemberID) (host cluster.HostID, listed bool) {
	for i := range v.Obs.Hosts {
		o := &v.Obs.Hosts[i]
		if o.View == nil || !o.View.Linearizable || o.View.Cluster != v.Roster.Cluster {
			continue
		}
		if slices.ContainsFunc(o.View.Members, func(m cluster.Member) bool { return m.ID == id }) {
			return o.Host, true
		}
	}
	return "", false
}

// surelyPromisedBefore: the list that does not hold the member was read after
// the host could no longer start it for anybody else. The host promised this
// fence in an observation before this one, so whatever other leaders had it
// start was added before this list was read.
func surelyPromisedBefore(v *step.View, h *cluster.HostReport) bool {
	m, _ := v.Obs.Memory.Host(h.Host)
	return m.Fence == v.Obs.Fence && m.FenceSince.Before(v.Obs.At)
}
