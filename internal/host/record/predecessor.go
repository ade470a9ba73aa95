package record

import (
	"etcdadm.io/cluster"
)

// Predecessor is what etcd-manager left of a member in a data directory.
type Predecessor struct {
	Token   string
	Cluster cluster.ClusterID // by the head of the log
	Member  cluster.MemberID  // by the head of the log
	// State is what its state file says; nil: it says nothing that could be read.
	// etcd-manager writes it in place, so a power cut can leave it torn or empty.
	State *PredecessorState
	// Refused says why the data cannot be taken over; empty: it can.
	Refused string
	Hint    string
	// Held is who runs on the data, or why that cannot be told; nil: nobody.
	Held error
}

// PredecessorState is the state file of etcd-manager, as far as it matters.
type PredecessorState struct {
	Token       string
	Version     string
	Quarantined bool
	Nodes       []PredecessorNode
}

// PredecessorNode is a member as that file has it. Its name is its host's ID.
type PredecessorNode struct {
	Name string
	URLs cluster.URLs
}

// Node finds a host's own entry.
func (s *PredecessorState) Node(h cluster.HostID) (PredecessorNode, bool) {
	if s != nil {
		for _, n := range s.Nodes {
			if n.Name == string(h) {
				return n, true
			}
		}
	}
	return PredecessorNode{}, false
}
