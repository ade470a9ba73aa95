package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// peerAuthority is the argument by which a member knows the certificates of the
// others.
const peerAuthority = "--peer-trusted-ca-file"

// convergeTLS turns TLS on between members that speak plainly: as soon as every
// host wants it, each member is restarted with its certificates, still at its
// plain URL, and when all have them, one after the other is listed with TLS and
// restarted so (docs/adr/019-tls.md). Whoever has certificates reaches both kinds.
func convergeTLS(v *view) *Decision {
	var turning []cluster.Seat
	var others []string
	for _, s := range v.roster.Seats {
		h := s.Host
		switch {
		case h == nil || !h.UnderFence || len(h.URLs.Peer) == 0:
			others = append(others, seatName(s)+" is not in sight")
		case cluster.TurnsTLSOn(h.URLs.Peer, s.PeerURLs):
			v.advise("members-tls", "restart its daemon with the URLs that it had", "", "host %s is to speak with its peers without TLS; a cluster with TLS is not made one without while it lives", s.HostID)
			others = append(others, seatName(s)+" is to speak without")
		case cluster.TurnsTLSOn(s.PeerURLs, h.URLs.Peer):
			turning = append(turning, s)
			if s.Learner {
				others = append(others, seatName(s)+" is a learner")
			}
		case !sameURLs(s.PeerURLs, h.URLs.Peer):
			others = append(others, seatName(s)+" has another address")
		case isPlain(s):
			others = append(others, seatName(s)+" is to speak without")
			if v.withoutTLS(h) {
				v.advise("members-tls", "restart its daemon with https in --peer-urls, and without --etcd-insecure", "", "host %s is to speak with its peers without TLS, and others of them have it already; its member stays as it is", s.HostID)
			}
		case cluster.TurnsTLSOn(h.Local.URLs.Peer, h.URLs.Peer) && s.Up && len(v.downVoters()) == 0:
			return v.speakTLS(s)
		}
	}
	if len(turning) == 0 {
		return nil
	}
	others = append(others, v.downVoters()...)
	if len(others) > 0 {
		slices.Sort(others)
		v.advise("members-tls", "restart every host's daemon with https in --peer-urls, and without --etcd-insecure", "", "%s to speak TLS with the other members, which begins once all are and every voter is up: %s",
			are(len(turning), "host"), strings.Join(slices.Compact(others), ", "))
		return nil
	}
	slices.SortStableFunc(turning, func(a, b cluster.Seat) int { return leading(a) - leading(b) })
	for _, s := range turning {
		if slices.Contains(s.Host.Process.Differs, peerAuthority) {
			why := "it gets the certificates for its peers, before any of them speaks TLS"
			return v.tlsStep(s, why, func() *Decision { return v.restartOne(s, why) })
		}
	}
	s := turning[0]
	why := fmt.Sprintf("all members of the cluster have their certificates: list %s with TLS", seatName(s))
	return v.tlsStep(s, why, func() *Decision {
		op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: s.Host.URLs.Peer}
		return v.membership(v.projection(0, 0), op, 0, "", why)
	})
}

// speakTLS restarts a member that is listed with TLS and still listens without.
func (v *view) speakTLS(s cluster.Seat) *Decision {
	why := "it is listed with TLS now, and listens so from here on"
	op := v.restart(s.Host, why)
	op.PeerURLs = s.Host.URLs.Peer
	return v.restartSeat(s, fmt.Sprintf("restart the member of %s: %s", seatName(s), why), op, nil)
}

// tlsStep takes a step with one member once every other voter has been up for a while.
func (v *view) tlsStep(s cluster.Seat, why string, step func() *Decision) *Decision {
	if d := v.awaitAway(s, "TLS between the members: "+why); d != nil {
		return d
	}
	return step()
}

// isPlain: the member is listed without TLS.
func isPlain(s cluster.Seat) bool {
	return slices.ContainsFunc(s.PeerURLs, func(u string) bool { return strings.HasPrefix(u, "http://") })
}

// onlyTLS: two lists of peer URLs differ in nothing but TLS.
func onlyTLS(a, b []string) bool { return cluster.TurnsTLSOn(a, b) || cluster.TurnsTLSOn(b, a) }

func sameURLs(a, b []string) bool { return slices.Equal(a, b) || slices.Equal(sorted(a), sorted(b)) }

func leading(s cluster.Seat) int {
	if s.RaftLeader {
		return 1
	}
	return 0
}

// withoutTLS: the host's daemon has no certificates for its etcd, and a member is
// listed with TLS. Its own member, which has them, is not restarted without.
func (v *view) withoutTLS(h *cluster.HostReport) bool {
	plain := !slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	return plain && slices.ContainsFunc(v.roster.Seats, func(s cluster.Seat) bool { return !isPlain(s) })
}

// tlsBefore says why a host cannot join for the sake of TLS; empty: it can. A
// member with a certificate reaches those without, and not the other way round.
func (v *view) tlsBefore(h *cluster.HostReport) string {
	secure := slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	for _, s := range v.roster.Voters() {
		switch {
		case !isPlain(s) && !secure:
			return "is to speak with its peers without TLS, which the cluster has"
		case isPlain(s) && secure && (s.Host == nil || !cluster.TurnsTLSOn(s.PeerURLs, s.Host.URLs.Peer) || slices.Contains(s.Host.Process.Differs, peerAuthority)):
			return fmt.Sprintf("is to speak TLS with its peers, and %s has no certificate for that", seatName(s))
		}
	}
	return ""
}

// joinsWithTLS names a host of its own that could take a dead voter's place once
// the others speak TLS, for which they wait until the dead one is gone.
func (v *view) joinsWithTLS(dead cluster.Seat) cluster.HostID {
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; !v.roster.Seated(h.Host) && v.tlsFollows(h, dead) {
			return h.Host
		}
	}
	return ""
}

// tlsFollows: nothing but TLS keeps the host from joining again in the place of its
// dead voter, and nothing but dead voters keeps the others from turning TLS on.
// Each would wait for the other for ever, so the dead ones go first, one at a time.
func (v *view) tlsFollows(h *cluster.HostReport, dead cluster.Seat) bool {
	why := v.tlsBefore(h)
	secure := slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	if !secure || why == "" || v.unfit(h) != why || len(v.roster.Learners()) > 0 {
		return false
	}
	for _, s := range v.roster.Voters() {
		gone, _ := v.dead(s)
		if s.ID != dead.ID && !gone && (!s.Up || isPlain(s) && !cluster.TurnsTLSOn(s.PeerURLs, s.Host.URLs.Peer)) {
			return false
		}
	}
	return true
}
