package members

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// FallBack gives the only voter that is down the release that the others run,
// when it does not start with the one that it was given: a new release that needs
// another flag, or a data file that it cannot read. Where all others run that one, it
// gets back the one that it came from: without it the cluster has not agreed on a
// higher line. The host remembers that, and it is not tried again by itself.
func FallBack(v *step.View, run cluster.Running) *decision.Decision {
	var broken, other cluster.Seat
	for _, s := range v.Roster.Voters() {
		switch {
		case !s.Up && broken.ID != 0:
			return nil
		case !s.Up:
			broken = s
		case other.ID == 0 || s.Release().Compare(other.Release()) < 0:
			other = s
		}
	}
	if due, _ := Needs(v, broken, remedyGiveBack); other.ID == 0 || !due {
		return nil
	}
	to, was, says := other.Release(), broken.Release(), "as the others"
	if to == was && !run.Downgrade && !run.Agreed.IsZero() && run.Agreed.Compare(was.Base()) < 0 {
		to, says = previous(broken.Host, was), "as before"
	}
	if to == was || to.IsZero() || to.Base().Compare(run.Agreed) < 0 || !broken.Host.CanRun(to) {
		return nil
	}
	if keptBack(v, broken, to) {
		v.Notice("version-paused", "etcdadm upgrade --resume", "the voter kept on etcd {release}, as asked, does not start ({member}: {process}). It has served with that release, so the cause is another one, such as an option or a certificate: read etcd.log on that host. --resume gives it etcd {release2} like the others and closes the way back; so does its replacement once it counts as dead",
			was, words.SeatName(broken), words.ProcessWords(broken.Host.Process), to)
		return nil
	}
	why := fmt.Sprintf("etcd %s does not start there", was)
	op := step.Restart(v, broken.Host, why)
	op.Version, op.Changes, op.Failed = to, true, true
	return step.RestartSeat(v, broken, words.F("restart the member of {member} with etcd {release}, {says}: {why} ({process})", words.SeatName(broken), to, says, why, words.ProcessWords(broken.Host.Process)), op, nil)
}

// keptBack: a person wants the voter kept on its line, which it has served with, and no
// other voter runs that line any more. With another release the way back is closed.
func keptBack(v *step.View, s cluster.Seat, to cluster.Version) bool {
	line := s.Release()
	return v.Spec.PauseBeforeLast && s.Host.Local.Previous.IsZero() && to.SameMinor(v.Spec.EtcdVersion) && !line.SameMinor(to) &&
		!slices.ContainsFunc(v.Roster.Voters(), func(o cluster.Seat) bool { return o.ID != s.ID && o.Release().SameMinor(line) })
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

// OtherRelease gives a member of a cluster of one or two voters back the release
// that it ran before, where it does not start with the one that it was given. Once
// each: a member that starts with neither is not sent to and fro. Not while the other
// of two answers reads through raft: then it does start, if only for a while.
func OtherRelease(v *step.View) *decision.Decision {
	if v.Intent == nil || len(v.Intent.Voters) > 2 || v.MayHang() {
		return nil
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		s := cluster.Seat{Member: cluster.Member{ID: h.Local.Member}, Host: h, HostID: h.Host}
		to := previous(h, h.Local.Version)
		if to.IsZero() || h.Local.Generation != v.Intent.Generation || h.Local.Version == to || !startsNot(v, h) || !h.CanRun(to) {
			continue
		}
		op := step.Restart(v, h, fmt.Sprintf("etcd %s does not start", h.Local.Version))
		op.Version, op.Changes, op.Failed = to, true, true
		return step.RestartSeat(v, s, words.F("the member of {host} does not start with etcd {release}: restart it with {to}", h.Host, h.Local.Version, to), op, nil)
	}
	return nil
}

// startsNot: the process of the host's member dies at each start, and has for a while.
func startsNot(v *step.View, h *cluster.HostReport) bool {
	since := endsAtStarts(v, cluster.Seat{Member: cluster.Member{ID: h.Local.Member}, Host: h})
	return !since.IsZero() && v.Obs.At.Sub(since) >= StartGrace
}
