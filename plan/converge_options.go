package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// readdress tells the cluster where a member is whose host came back with
// another peer address. It comes before every repair, since such a member
// looks silent to the others. A learner is removed and added again instead,
// because an update of its URL makes a voter of it in many releases.
func readdress(v *view) *Decision {
	for _, s := range v.roster.Seats {
		if s.Host == nil || !s.Host.UnderFence || len(s.Host.URLs.Peer) == 0 || sameURLs(s.Host.URLs.Peer, s.PeerURLs) || onlyTLS(s.Host.URLs.Peer, s.PeerURLs) {
			continue // the rule "tls" does the latter
		}
		if s.Learner {
			return v.removeLearner(s, fmt.Sprintf("learner %s came back at another address: remove it and add it again", seatName(s)))
		}
		p := v.projection(0, 0)
		if taken, is := v.addressTaken(s); is {
			if d := v.makeWay(s); d != nil {
				return d
			}
			v.aside("address-taken", "etcdadm member remove "+taken.ID.String(), "host %s is now at %s, which the cluster has for %s; etcd takes no address twice, so %s has to be told another one or be removed first",
				s.HostID, strings.Join(s.Host.URLs.Peer, ", "), seatName(taken), seatName(taken))
			continue
		}
		op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: s.Host.URLs.Peer}
		return v.membership(p, op, 0, "", fmt.Sprintf("host %s is now at %s: tell the cluster", s.HostID, strings.Join(s.Host.URLs.Peer, ", ")))
	}
	return nil
}

// addressTaken is the other member that is listed at an address of the host.
func (v *view) addressTaken(s cluster.Seat) (cluster.Seat, bool) {
	for _, o := range v.roster.Seats {
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
func (v *view) makeWay(s cluster.Seat) *Decision {
	next := s
	for range v.roster.Seats {
		taken, is := v.addressTaken(next)
		switch {
		case !is, taken.Learner, taken.Host == nil, !taken.Host.UnderFence, len(taken.Host.URLs.Peer) == 0:
			return nil // it moves by itself, or nobody knows where it is
		case taken.ID == s.ID:
			op := cluster.Op{Kind: cluster.OpUpdateURL, Member: s.ID, Host: s.HostID, PeerURLs: []string{nowhere(s)}}
			return v.membership(v.projection(0, 0), op, 0, "", fmt.Sprintf("hosts %s and %s have each other's address: list %s nowhere, so that %s can be told first", s.HostID, next.HostID, s.HostID, next.HostID))
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

// sorted is not to be changed.
func sorted(s []string) []string {
	if slices.IsSorted(s) { // nearly always
		return s
	}
	c := slices.Clone(s)
	slices.Sort(c)
	return c
}

// convergeOptions restarts members whose settings are not those that they
// would be started with now: one at a time, every other voter up, raft's
// leader moved away first.
func convergeOptions(v *view) *Decision {
	if v.spec == nil {
		return nil
	}
	refused, are := v.refusedOptions()
	if are {
		v.aside("options-refused", "etcdadm config unset OPTION", "%s; nobody else gets them. Its log is there. Take back what it refuses, or restart that host's daemon once the cause is gone, and they are tried again", refused)
	}
	for _, leading := range []bool{false, true} { // raft's leader last, so that it moves once
		for _, s := range v.roster.Seats {
			if s.RaftLeader != leading || s.Host == nil || !s.Up || !s.Host.UnderFence || v.withoutTLS(s.Host) {
				continue
			}
			why := differs(s.Host)
			if are && why == optionsChanged {
				continue
			}
			if why != "" {
				return v.restartOne(s, why)
			}
		}
	}
	return nil
}

// refusedOptions names a host whose member did not start with the options that the
// spec asks for, and runs again with those that it had before.
func (v *view) refusedOptions() (sentence string, are bool) {
	for _, s := range v.roster.Seats {
		if s.Host != nil && len(s.Host.FailedOptions) > 0 {
			return fmt.Sprintf("the member of host %s did not start with the etcd options that the spec asks for, and runs with what it had before (refused: %s)", s.HostID, newIn(s.Host.FailedOptions, s.Host.Options)), true
		}
	}
	return "", false
}

// newIn are the arguments of one list that are not in the other, by name; values
// may be secrets.
func newIn(args, others []string) string {
	var names []string
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); !slices.Contains(others, a) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "that some are missing"
	}
	return strings.Join(names, " ")
}

const optionsChanged = "its etcd options changed"

func differs(h *cluster.HostReport) string {
	switch {
	case h.Local.State != cluster.MemberStarted:
		return ""
	case h.Local.Cut:
		return "it cuts raft snapshots all the time"
	case !slices.Equal(h.Local.Options, h.Options):
		return optionsChanged
	case !slices.Equal(sorted(h.Local.URLs.Client), sorted(h.URLs.Client)) && len(h.Local.URLs.Client) > 0:
		return "its client URLs changed"
	case !sameURLs(h.Local.URLs.Peer, h.URLs.Peer) && !onlyTLS(h.Local.URLs.Peer, h.URLs.Peer) && len(h.Local.URLs.Peer) > 0:
		return "its peer URLs changed"
	}
	return ""
}

// restartOne restarts a member in place with the release that it runs.
func (v *view) restartOne(s cluster.Seat, why string) *Decision {
	return v.restartSeat(s, fmt.Sprintf("restart the member of %s: %s", seatName(s), why), v.restart(s.Host, why), nil)
}

// restartSeat restarts a member in place. With one or two voters there is no
// way to do that without an interruption, and it is done all the same. Where it
// leads raft, one of the successors takes over first if they are fit for it.
func (v *view) restartSeat(s cluster.Seat, reason string, op cluster.Op, successor func(cluster.Seat) bool) *Decision {
	p := v.projection(0, 0)
	if !s.Learner && s.Up {
		p = v.projection(0, -1)
		if d := v.awaitAway(s, reason); d != nil {
			return d
		}
		if s.RaftLeader && p.Voters > 1 && handsOver(s) {
			return v.handOver(s, reason, successor)
		}
	}
	g := v.roster.Guard()
	g.NotLeader = p.Voters > 1 && !(s.RaftLeader && !handsOver(s))
	if s.Learner || !s.Up { // it gives no list that went through raft, and nothing depends on it
		g = cluster.Guard{}
	}
	return &Decision{
		Reason: reason,
		Again:  soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(s.Host, g, op)}},
	}
}
