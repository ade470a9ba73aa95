package sight

import (
	"time"

	"etcdadm.io/cluster"
)

const (
	// ReviveAfter is how long a member may run without seeing a raft leader before it is
	// restarted in place; the time doubles with each restart.
	ReviveAfter = time.Minute
	ReviveMost  = time.Hour
)

func Patience(revived int) time.Duration {
	d := ReviveAfter
	for range revived {
		if d *= 2; d >= ReviveMost {
			return ReviveMost
		}
	}
	return d
}

// Reader is a host whose member, a voter of the present generation, has just
// answered a read through raft; empty: none is in sight.
func (v *Sight) Reader() cluster.HostID {
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if h.Local.State != cluster.MemberStarted || h.Local.Generation != v.Intent.Generation {
			continue
		}
		st := h.Status
		if st != nil && st.Healthy && !st.Learner && st.Member == h.Local.Member || h.View != nil && h.View.Linearizable {
			return h.Host
		}
	}
	return ""
}

// MayHang reports whether a voter answers reads through raft, and those that are up are no quorum.
// So raft's quorum has a voter in it that is not seen to be up, such as one that is
// out of file descriptors and answers its daemon nothing; and it may be any of them.
// None is restarted then (SAFETY.md, rule 2): it could end what serves.
func (v *Sight) MayHang() bool { return v.Reader() != "" && !v.Roster.HasQuorum() }

// ReadLately reports whether the member answers nothing, so that only others can tell whether it has
// a raft leader, and one of them has answered a read through raft since. One look in
// which reads took too long does not end a quorum. A member that answers speaks for itself.
func ReadLately(v *Sight, h *cluster.HostReport) bool {
	since := v.Obs.Memory.QuorumlessSince
	return h.Status == nil && !since.IsZero() && v.Obs.At.Sub(since) < ReviveAfter
}

// LeaderlessSince is since when the host's member, which has run in this generation, has
// seen no raft leader, or not answered; zero: it has, or its process does not run.
func LeaderlessSince(v *Sight, h *cluster.HostReport) time.Time {
	if !h.UnderFence || !h.Process.Runs() || h.Local.State != cluster.MemberStarted || h.Local.Generation != v.Intent.Generation {
		return time.Time{}
	}
	return v.Obs.Memory.Member(h.Local.Member).LeaderlessSince
}
