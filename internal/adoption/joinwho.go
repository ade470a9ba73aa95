package adoption

import (
	"slices"

	"etcdadm.io/cluster"
)

// Who is who among the members: by their addresses, since a member of ours may be listed with TLS or without.

// own is this host's member.
func (s *Scene) own() (Seen, bool) {
	for _, m := range s.Members {
		if cluster.SameAddresses(m.PeerURLs, s.Peer) {
			return m, true
		}
	}
	return Seen{}, false
}

// isOurs is that the member was added for a host of ours: by what is written down, or
// by this host's disk, where its add came late and an adoption was begun anew meanwhile.
func (s *Scene) isOurs(m Seen) bool {
	if s.Joining == nil {
		return false
	}
	a := s.Admission
	return s.Joining.IsOurs(m.Member) || a != nil && a.Cluster == s.Cluster && cluster.SameAddresses(m.PeerURLs, s.Peer) &&
		(a.Member == 0 || a.Member == m.ID) && !slices.Contains(a.Known, m.ID)
}

// victim: who is down goes first, who leads goes last.
func (s *Scene) victim(foreign []Seen) Seen {
	for _, m := range foreign {
		if !m.Up() {
			return m
		}
	}
	if leader := s.leader(); foreign[0].ID == leader && len(foreign) > 1 {
		return foreign[1]
	}
	return foreign[0]
}

// heir is this host's member, where it votes, else the first of ours.
func (s *Scene) heir(ours []Seen) Seen {
	if own, ok := s.own(); ok && !own.Learner {
		return own
	}
	return ours[0]
}

// leader is whom all members that are up name; zero: they differ.
func (s *Scene) leader() (id cluster.MemberID) {
	for _, m := range s.Members {
		switch {
		case !m.Up():
		case id == 0:
			id = m.Status.Leader
		case id != m.Status.Leader:
			return 0
		}
	}
	return id
}
