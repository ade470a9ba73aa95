package election

import (
	"slices"

	"etcdadm.io/cluster"
)

// Worse is the one of two reasons that keeps a host further from the lead. A
// final one is worse than any excuse.
func Worse(a, b string) string {
	if rank(a) < rank(b) {
		return b
	}
	return a
}

// Before reports whether a host with the reason a leads before one with b.
func Before(a, b string) bool { return rank(a) < rank(b) }

func rank(unfit string) int {
	if i := slices.Index(excuses, unfit); i >= 0 {
		return i
	}
	return len(excuses)
}

// Unanswered reports whether a host reaches no quorum of the voters' hosts by its
// own calls, while another one does. It does not ask who leads: what it says of two
// hosts is the same whichever of them does, so that they do not trade places.
func Unanswered(voters, own []cluster.HostID, others [][]cluster.HostID) bool {
	return !reaches(own, voters) && slices.ContainsFunc(others, func(o []cluster.HostID) bool { return reaches(o, voters) })
}

// reaches reports whether the hosts carry a quorum of the voters. A voter of which
// no host is known is an empty ID, and is not reached.
func reaches(hosts, voters []cluster.HostID) bool {
	n := 0
	for _, v := range voters {
		if v != "" && slices.Contains(hosts, v) {
			n++
		}
	}
	return len(voters) > 0 && n >= cluster.Quorum(len(voters))
}
