package roll

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// TLS turns TLS on between members that speak plainly: as soon as every
// host wants it, each member is restarted with its certificates, still at its
// plain URL, and when all have them, one after the other is listed with TLS and
// restarted so (docs/adr/019-tls.md). Whoever has certificates reaches both kinds.
func TLS(v *step.View) *decision.Decision {
	var turning []cluster.Seat
	var others []string
	for _, s := range v.Roster.Seats {
		h := s.Host
		switch {
		case h == nil || !h.UnderFence || len(h.URLs.Peer) == 0:
			others = append(others, words.SeatName(s)+" is unreachable")
		case cluster.TurnsTLSOn(h.URLs.Peer, s.PeerURLs):
			v.Advise("members-tls", "restart the daemon with its former URLs", "", "host {host} is to speak with its peers without TLS; a cluster with TLS is not made one without while it lives", s.HostID)
			others = append(others, words.SeatName(s)+" is to speak without")
		case cluster.TurnsTLSOn(s.PeerURLs, h.URLs.Peer):
			turning = append(turning, s)
			if s.Learner {
				others = append(others, words.SeatName(s)+" is a learner")
			}
		case !sight.SameURLs(s.PeerURLs, h.URLs.Peer):
			others = append(others, words.SeatName(s)+" has another address")
		case sight.IsPlain(s):
			others = append(others, words.SeatName(s)+" is to speak without")
			if sight.WithoutTLS(v.Sight, h) {
				v.Advise("members-tls", "restart its daemon with https in --peer-urls, and without --etcd-insecure", "", "host {host} is to speak with its peers without TLS, and others of them have it already; its member stays as it is", s.HostID)
			}
		case cluster.TurnsTLSOn(h.Local.URLs.Peer, h.URLs.Peer) && s.Up && len(v.DownVoters()) == 0:
			return speakTLS(v, s)
		}
	}
	if len(turning) == 0 {
		return nil
	}
	others = append(others, v.DownVoters()...)
	if len(others) > 0 {
		slices.Sort(others)
		v.Advise("members-tls", "restart every host's daemon with https in --peer-urls, and without --etcd-insecure", "", "{count} to speak TLS with the other members, which begins once all are and every voter is up: {members}",
			words.Are(len(turning), "host"), strings.Join(slices.Compact(others), ", "))
		return nil
	}
	if why, advice := v.PeerAuthorities(); why != "" {
		v.Advise("members-tls", advice, "", "{count} to speak TLS with the other members, which begins once all are known to trust one authority for peers: {why}", words.Are(len(turning), "host"), why)
		return nil
	}
	slices.SortStableFunc(turning, func(a, b cluster.Seat) int { return sight.LeadsLast(a) - sight.LeadsLast(b) })
	for _, s := range turning {
		if slices.Contains(s.Host.Process.Differs, sight.PeerAuthority) {
			why := "it gets the certificates for its peers, before any of them speaks TLS"
			return tlsStep(v, s, why, func() *decision.Decision { return step.RestartOne(v, s, why) })
		}
	}
	s := turning[0]
	why := fmt.Sprintf("all members of the cluster have their certificates: list %s with TLS", words.SeatName(s))
	return tlsStep(v, s, why, func() *decision.Decision {
		op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: s.Host.URLs.Peer}
		return step.Membership(v, v.Projection(0, 0), op, 0, "", words.F("{why}", why))
	})
}

// speakTLS restarts a member that is listed with TLS and still listens without.
func speakTLS(v *step.View, s cluster.Seat) *decision.Decision {
	why := "it is listed with TLS now, and listens so from here on"
	op := step.Restart(v, s.Host, why)
	op.PeerURLs = s.Host.URLs.Peer
	return step.RestartSeat(v, s, words.F("restart the member of {member}: {why}", words.SeatName(s), why), op, nil)
}

// tlsStep takes a step with one member once every other voter has been up for a while.
func tlsStep(v *step.View, s cluster.Seat, why string, then func() *decision.Decision) *decision.Decision {
	if d := step.AwaitAway(v, s, words.F("TLS between the members: {why}", why)); d != nil {
		return d
	}
	return then()
}
