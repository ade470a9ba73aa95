package console

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// Question is what a person's tool asks a daemon.
type Question struct {
	Kind string `json:"kind"` // status
}

// Report is a daemon's answer: what it knows, which is everything when it
// leads, and otherwise whom to ask.
type Report struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host"`
	Build   string         `json:"build"`
	Leader  cluster.HostID `json:"leader,omitempty"`
	// LeaderEndpoint is where the leading daemon is reached.
	LeaderEndpoint string `json:"leaderEndpoint,omitempty"`
	Leading        bool   `json:"leading,omitempty"`
	// Unfit says why the daemon that answers must not lead.
	Unfit    string            `json:"unfit,omitempty"`
	Contacts []cluster.Contact `json:"contacts,omitempty"`
	// Observation and Decision are the leader's newest.
	Observation *cluster.Observation `json:"observation,omitempty"`
	Decision    *plan.Decision       `json:"decision,omitempty"`
	// Recent are the last decisions that were said, oldest first.
	Recent       []Said        `json:"recent,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
}

// Said is a decision as it was said.
type Said struct {
	Number   int           `json:"number"`
	At       time.Time     `json:"at"`
	Decision plan.Decision `json:"decision"`
}

// Certificate is when a certificate ends.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}
