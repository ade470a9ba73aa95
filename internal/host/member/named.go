package member

import (
	"etcdadm.io/cluster"
)

// NamedMembers is the initial cluster of a joiner: etcd wants some name of each.
func NamedMembers(members []cluster.Member, own cluster.MemberID, name cluster.HostID) (out []cluster.Member) {
	for _, m := range members {
		switch {
		case m.ID == own:
			m.Name = string(name)
		case m.Name == "": // added and not started yet
			m.Name = "member-" + m.ID.String()
		}
		out = append(out, m)
	}
	return out
}
