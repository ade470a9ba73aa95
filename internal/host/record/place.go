package record

import (
	"encoding/json"
	"fmt"

	"etcdadm.io/cluster"
)

// AdmissionFile lies in the state directory. `etcdadm adopt --join` writes it.
const AdmissionFile = "admission.json"

// Admission is a place in a cluster that something else runs, for this host. It
// takes the place of a leader's Prepare, since no member of that cluster has a host
// of ours: Known is written before the member is added, and Member after that
// (SAFETY.md, rule 8b; docs/adr/021-adoption-by-joining.md).
type Admission struct {
	Cluster cluster.ClusterID  `json:"cluster"`
	Token   string             `json:"token"`
	Known   []cluster.MemberID `json:"known"`
	URLs    cluster.URLs       `json:"urls"`
	Version cluster.Version    `json:"version"`
	// Options are those of the spec then, as arguments: the first start waits for
	// nobody who has read it.
	Options []string `json:"options,omitempty"`

	Member  cluster.MemberID `json:"member,omitempty"`  // zero: not added yet
	Members []cluster.Member `json:"members,omitempty"` // that there were then, with this one
}

// ParseAdmission reads an admission; nil without error where there is nothing.
func ParseAdmission(data []byte) (*Admission, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var a Admission
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("read admission: %w", err)
	}
	if a.Cluster == 0 || a.Token == "" || len(a.Known) == 0 || len(a.URLs.Peer) == 0 || a.Version.IsZero() {
		return nil, fmt.Errorf("read admission: it lacks the cluster, the token, the known members, the URLs or the release")
	}
	return &a, nil
}
