package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// fallBack gives the only voter that is down the release that the others run,
// when it does not start with the one that it was given: a new release that needs
// another flag, or a data file that it cannot read. Where all others run that one, it
// gets back the one that it came from: without it the cluster has not agreed on a
// higher line. The host remembers that, and it is not tried again by itself.
func (v *view) fallBack(run cluster.Running) *Decision {
	var broken, other cluster.Seat
	for _, s := range v.roster.Voters() {
		switch {
		case !s.Up && broken.ID != 0:
			return nil
		case !s.Up:
			broken = s
		case other.ID == 0 || s.Release().Compare(other.Release()) < 0:
			other = s
		}
	}
	if due, _ := v.needs(broken, remedyGiveBack); other.ID == 0 || !due {
		return nil
	}
	to, was, words := other.Release(), broken.Release(), "as the others"
	if to == was && !run.Downgrade && !run.Agreed.IsZero() && run.Agreed.Compare(was.Base()) < 0 {
		to, words = previous(broken.Host, was), "as before"
	}
	if to == was || to.IsZero() || to.Base().Compare(run.Agreed) < 0 || !broken.Host.CanRun(to) {
		return nil
	}
	if v.keptBack(broken, to) {
		v.aside("version-paused", "etcdadm upgrade --resume", "the voter that is kept on etcd %s, as asked, does not start (%s: %s). It has served with that, so what it does not start with is something else, as an option or a certificate: see its log on that host. Resumed, it is given etcd %s as the others, and the way back is closed with that; so it is when it counts as dead and is replaced",
			was, seatName(broken), processWords(broken.Host.Process), to)
		return nil
	}
	why := fmt.Sprintf("etcd %s does not start there", was)
	op := v.restart(broken.Host, why)
	op.Version, op.Changes, op.Failed = to, true, true
	return v.restartSeat(broken, fmt.Sprintf("restart the member of %s with etcd %s, %s: %s (%s)", seatName(broken), to, words, why, processWords(broken.Host.Process)), op, nil)
}

// keptBack: a person wants the voter kept on its line, which it has served with, and no
// other voter runs that line any more. With another release the way back is closed.
func (v *view) keptBack(s cluster.Seat, to cluster.Version) bool {
	line := s.Release()
	return v.spec.PauseBeforeLast && s.Host.Local.Previous.IsZero() && to.SameMinor(v.spec.EtcdVersion) && !line.SameMinor(to) &&
		!slices.ContainsFunc(v.roster.Voters(), func(o cluster.Seat) bool { return o.ID != s.ID && o.Release().SameMinor(line) })
}

// previous is the release that a host's member ran before this one, if members can be
// rolled from the one to the other and it did not fail there; else none.
func previous(h *cluster.HostReport, now cluster.Version) cluster.Version {
	to := h.Local.Previous
	if to.IsZero() || to == h.FailedRelease || !now.SameMinor(to) && !now.Neighbours(to) {
		return cluster.Version{}
	}
	return to
}

// otherRelease gives a member of a cluster of one or two voters back the release
// that it ran before, where it does not start with the one that it was given. Once
// each: a member that starts with neither is not sent to and fro. Not while the other
// of two answers reads through raft: then it does start, if only for a while.
func (v *view) otherRelease() *Decision {
	if v.intent == nil || len(v.intent.Voters) > 2 || v.mayHang() {
		return nil
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		s := cluster.Seat{Member: cluster.Member{ID: h.Local.Member}, Host: h, HostID: h.Host}
		to := previous(h, h.Local.Version)
		if to.IsZero() || h.Local.Generation != v.intent.Generation || h.Local.Version == to || !v.startsNot(h) || !h.CanRun(to) {
			continue
		}
		op := v.restart(h, fmt.Sprintf("etcd %s does not start", h.Local.Version))
		op.Version, op.Changes, op.Failed = to, true, true
		return v.restartSeat(s, fmt.Sprintf("the member of %s does not start with etcd %s: restart it with %s", h.Host, h.Local.Version, to), op, nil)
	}
	return nil
}

// startsNot: the process of the host's member dies at each start, and has for a while.
func (v *view) startsNot(h *cluster.HostReport) bool {
	since := endsAtStarts(v, cluster.Seat{Member: cluster.Member{ID: h.Local.Member}, Host: h})
	return !since.IsZero() && v.obs.At.Sub(since) >= startGrace
}

// failedRelease is a host on which the release did not start.
func (v *view) failedRelease(r cluster.Version) (cluster.HostID, bool) {
	for _, s := range v.roster.Seats {
		if s.Host != nil && s.Host.FailedRelease == r {
			return s.HostID, true
		}
	}
	return "", false
}

// laterLine restarts the one founder of a generation made from data, whose
// process dies at each start, with the release line above: the data may be of a
// later line than anybody had on record, because it was taken from a host in the
// middle of a change. No older release starts on it, and nothing else serves. A
// backup says itself which release wrote it.
func (v *view) laterLine(h *cluster.HostReport) *Decision {
	fromHost := v.intent.Source.Kind == cluster.SourceSurvivor || v.intent.Source.Kind == cluster.SourceSetAside
	if !fromHost || !v.stalled() || !h.UnderFence || h.Process.State != cluster.ProcessBackoff || !h.Local.HasData || h.Local.State != cluster.MemberStarted {
		return nil
	}
	var to cluster.Version
	for _, r := range h.Releases {
		if r.Neighbours(h.Local.Version) && r.Compare(h.Local.Version) > 0 && r.Runnable() == nil && r.Compare(to) > 0 {
			to = r
		}
	}
	if to.IsZero() {
		return nil
	}
	op := v.restart(h, fmt.Sprintf("etcd %s does not start on the data", h.Local.Version))
	op.Version, op.Changes, op.Failed, op.Quarantined = to, true, true, v.intent.Quarantined
	return &Decision{
		Reason: fmt.Sprintf("the first member of generation %d does not start with etcd %s: restart it with %s, in case its data is of that line", v.intent.Generation, h.Local.Version, to), Again: later,
		Action: &Action{Kind: ActHosts, Projection: &cluster.Projection{Voters: 1, VotersAfter: 1}, Ops: []HostOp{onHost(h, cluster.Guard{}, op)}},
	}
}
