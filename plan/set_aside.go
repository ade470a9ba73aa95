package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// setAside has a host stop a member that cannot come back, and move its data
// away, so that the host can be used again. That is a member that the
// cluster's own quorum removed, or one of a generation that the intent's
// history lists as closed (SAFETY.md, rule 21). Any other data is left alone.
func setAside(v *view) *Decision {
	if v.intent == nil {
		return nil
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if !h.UnderFence || !h.Carries() || h.Local.Member == 0 || v.cannotMove(h) {
			continue
		}
		switch {
		case v.superseded(h):
			return v.setAsideOp(h, cluster.AsideSuperseded, fmt.Sprintf("host %s carries a member of generation %d, which generation %d superseded", h.Host, h.Local.Generation, v.intent.Generation))
		case v.removed(h):
			if by, listed := v.listedBy(h.Local.Member); listed {
				v.aside("lists-differ", "", "member %s of host %s is not in the newest list of members, and in that of host %s it is: it is not set aside while the lists differ", h.Local.Member, h.Host, by)
				continue
			}
			if took, listed := v.roster.Seat(h.Local.Took); listed {
				// What ran as a member that is listed is looked at by a person.
				v.aside("other-member-id", "", "host %s holds what etcd wrote as member %s of host %s, which it took for its own: it is not set aside while that member is listed", h.Host, took.ID, seatName(took))
				continue
			}
			if !v.surelyPromisedBefore(h) {
				return &Decision{Reason: fmt.Sprintf("host %s carries member %s, which is not listed: look once more", h.Host, h.Local.Member), Again: soon}
			}
			return v.setAsideOp(h, cluster.AsideRemoved, fmt.Sprintf("member %s of host %s was removed from the cluster", h.Local.Member, h.Host))
		}
	}
	return nil
}

// cannotMove: the host has begun to set its data aside, cannot finish for now,
// and says so. It tries again by itself, and nothing else waits for it.
func (v *view) cannotMove(h *cluster.HostReport) bool {
	return h.Local.State == cluster.MemberRemoved && problem(h) != ""
}

func (v *view) setAsideOp(h *cluster.HostReport, reason, sentence string) *Decision {
	p := v.projection(0, 0)
	op := cluster.Op{Kind: cluster.OpSetAside, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster, Generation: h.Local.Generation, Reason: reason}
	return &Decision{
		Reason: sentence + ": stop it and set its data aside",
		Again:  soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(h, cluster.Guard{}, op)}},
	}
}

// superseded: the history lists the very cluster of the host's member as
// closed. Its generation alone says nothing, since another founding under the
// same name counts from one as well.
func (v *view) superseded(h *cluster.HostReport) bool {
	return h.Local.Generation < v.intent.Generation && v.intent.ClosedCluster(h.Local.Cluster)
}

// removed reports whether a current list of the host's own cluster does not
// hold the member that the host carries.
func (v *view) removed(h *cluster.HostReport) bool {
	adopted := h.TookOver() && h.Local.Adopted // whoever ran the others has removed it
	if !v.seen || !v.roster.Linearizable || h.Local.Generation != v.intent.Generation && !adopted {
		return false
	}
	if h.Local.Cluster != 0 && h.Local.Cluster != v.roster.Cluster {
		return false
	}
	_, listed := v.roster.Seat(h.Local.Member)
	return !listed
}

// listedBy names a host whose member lists, as of now, one that the roster lacks.
// Members whose lists differ for good do exist: each judges a change by its own
// release and options (ADR 016, ADR 022).
func (v *view) listedBy(id cluster.MemberID) (host cluster.HostID, listed bool) {
	for i := range v.obs.Hosts {
		o := &v.obs.Hosts[i]
		if o.View == nil || !o.View.Linearizable || o.View.Cluster != v.roster.Cluster {
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
func (v *view) surelyPromisedBefore(h *cluster.HostReport) bool {
	m, _ := v.obs.Memory.Host(h.Host)
	return m.Fence == v.obs.Fence && m.FenceSince.Before(v.obs.At)
}
