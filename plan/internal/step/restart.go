package step

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

// Restart restarts a member as it is, and out of the quarantine once that was
// lifted.
func Restart(v *View, h *cluster.HostReport, reason string) cluster.Op {
	return cluster.Op{
		Kind: cluster.OpRestart, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster,
		Version: h.Local.Version, Quarantined: v.Intent.Quarantined && h.Local.Quarantined && h.Local.Generation == v.Intent.Generation, Reason: reason,
	}
}

// RestartOne restarts a member in place with the release that it runs.
func RestartOne(v *View, s cluster.Seat, why string) *decision.Decision {
	return RestartSeat(v, s, words.F("restart the member of {member}: {why}", words.SeatName(s), why), Restart(v, s.Host, why), nil)
}

// RestartSeat restarts a member in place. With one or two voters there is no
// way to do that without an interruption, and it is done all the same. Where it
// leads raft, one of the successors takes over first if they are fit for it.
func RestartSeat(v *View, s cluster.Seat, reason words.Text, op cluster.Op, successor func(cluster.Seat) bool) *decision.Decision {
	p := v.Projection(0, 0)
	if !s.Learner && s.Up {
		p = v.Projection(0, -1)
		if d := AwaitAway(v, s, reason); d != nil {
			return d
		}
		if s.RaftLeader && p.Voters > 1 && sight.HandsOver(s) {
			return HandOver(v, s, reason, successor)
		}
	}
	g := v.Roster.Guard()
	g.NotLeader = p.Voters > 1 && !(s.RaftLeader && !sight.HandsOver(s))
	if s.Learner || !s.Up { // it gives no list that went through raft, and nothing depends on it
		g = cluster.Guard{}
	}
	return &decision.Decision{
		Reason: reason,
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(s.Host, g, op)}},
	}
}

// AwaitAway is the decision to wait for what keeps a member from being taken away; nil:
// nothing does.
func AwaitAway(v *View, s cluster.Seat, reason words.Text) *decision.Decision {
	switch h := v.MayBeAway(s); {
	case h == nil:
		return nil
	case !h.Blocks:
		return &decision.Decision{Reason: words.F("{what}; {why}", reason, h.Why), Again: h.Again, Passes: h.Paused}
	default:
		d := decision.Wait(false, "waiting-for-voters", "", "{reason}; {why}", reason, h.Why)
		d.Again = h.Again
		return d
	}
}
