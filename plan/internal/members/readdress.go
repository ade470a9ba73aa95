package members

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

// Readdress tells the cluster where a member is whose host came back with
// another peer address. It comes before every repair, since such a member
// looks silent to the others. A learner is removed and added again instead,
// because an update of its URL makes a voter of it in many releases.
func Readdress(v *step.View) *decision.Decision {
	for _, s := range v.Roster.Seats {
		if s.Host == nil || !s.Host.UnderFence || len(s.Host.URLs.Peer) == 0 || sight.SameURLs(s.Host.URLs.Peer, s.PeerURLs) || sight.OnlyTLS(s.Host.URLs.Peer, s.PeerURLs) {
			continue // the rule "tls" does the latter
		}
		if s.Learner {
			return step.RemoveLearner(v, s, words.F("learner {learner} came back at another address: remove it and add it again", words.SeatName(s)))
		}
		p := v.Projection(0, 0)
		if taken, is := addressTaken(v, s); is {
			if d := makeWay(v, s); d != nil {
				return d
			}
			v.Notice("address-taken", "etcdadm member remove "+taken.ID.String(), "host {host} is now at {peer}, which etcd lists for {member}; etcd takes no address twice, so move or remove {member2} first",
				s.HostID, strings.Join(s.Host.URLs.Peer, ", "), words.SeatName(taken), words.SeatName(taken))
			continue
		}
		op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: s.Host.URLs.Peer}
		return step.Membership(v, p, op, 0, "", words.F("host {host} is now at {peer}: tell the cluster", s.HostID, strings.Join(s.Host.URLs.Peer, ", ")))
	}
	return nil
}

// addressTaken is the other member that is listed at an address of the host.
func addressTaken(v *step.View, s cluster.Seat) (cluster.Seat, bool) {
	for _, o := range v.Roster.Seats {
		if o.ID != s.ID && slices.ContainsFunc(o.PeerURLs, func(u string) bool { return slices.Contains(s.Host.URLs.Peer, u) }) {
			return o, true
		}
	}
	return cluster.Seat{}, false
}

// makeWay begins to untie voters whose hosts have each other's addresses. etcd
// refuses each of the updates, because the other member is still listed there;
// so one of them is first listed where nobody is, at a name that the reserved
// top-level domain .invalid (RFC 2606) keeps from ever being one. Nothing is
// lost by that: at the address that it is listed at now, nobody finds it either.
func makeWay(v *step.View, s cluster.Seat) *decision.Decision {
	next := s
	for range v.Roster.Seats {
		taken, is := addressTaken(v, next)
		switch {
		case !is, taken.Learner, taken.Host == nil, !taken.Host.UnderFence, len(taken.Host.URLs.Peer) == 0:
			return nil // it moves by itself, or nobody knows where it is
		case taken.ID == s.ID:
			op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: []string{nowhere(s)}}
			return step.Membership(v, v.Projection(0, 0), op, 0, "", words.F("hosts {host} and {other} have each other's address: list {unlisted} nowhere, so that {told} can be told first", s.HostID, next.HostID, s.HostID, next.HostID))
		}
		next = taken
	}
	return nil
}

// nowhere is a peer URL that no other member has and that leads to nobody.
func nowhere(s cluster.Seat) string {
	scheme := "https"
	if len(s.PeerURLs) > 0 {
		scheme, _, _ = strings.Cut(s.PeerURLs[0], "://")
	}
	return fmt.Sprintf("%s://%s.moving.invalid:2380", scheme, s.ID)
}
