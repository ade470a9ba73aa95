package step

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

// Leaderless reports whether the member runs and has seen no raft leader, or not answered,
// for as long as its turn is.
func Leaderless(v *View, h *cluster.HostReport) bool {
	since := sight.LeaderlessSince(v.Sight, h)
	return !since.IsZero() && v.Obs.At.Sub(since) >= sight.Patience(v.Obs.Memory.Member(h.Local.Member).Revived) && !v.Barred(h.Local.Member)
}

// RestartHung restarts a member in place that runs and does not get on; nil: nobody asked
// for that, and self-management is off.
func RestartHung(v *View, h *cluster.HostReport, why words.Text) *decision.Decision {
	p := v.Projection(0, 0)
	return v.Unasked(&decision.Decision{
		Reason: words.F("{why}: restart it in place", why),
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{Leaderless: true}, Restart(v, h, "it saw no raft leader"))}},
	})
}

func SeesNoLeader(_ *View, s cluster.Seat, lasted time.Duration) words.Text {
	return words.F("the member of {host} sees no raft leader for {lasted}", s.Host.Host, lasted)
}

// Revive restarts in place one member that runs and sees no raft leader for
// long. Nothing else is done to members without a quorum.
func Revive(v *View) *decision.Decision {
	if v.MayHang() {
		return nil
	}
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; Leaderless(v, h) && !sight.ReadLately(v.Sight, h) {
			if d := RestartHung(v, h, SeesNoLeader(v, cluster.Seat{Host: h}, v.Obs.At.Sub(sight.LeaderlessSince(v.Sight, h)).Round(time.Second))); d != nil {
				return d
			}
		}
	}
	return nil
}
