package etcdadm

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// Health is how a cluster is, in one word.
type Health string

// The cluster's health, the best first.
const (
	Well     Health = "well"      // every voter that is wanted is up, and nothing waits for a person
	Degraded Health = "degraded"  // it serves clients, and is not well
	NoQuorum Health = "no-quorum" // no quorum is up in the leading daemon's sight, or clients are kept out
	Unknown  Health = "unknown"   // the leading daemon was not reached
)

// Status is what a daemon tells of the cluster: all of it where it leads, else whom to ask.
type Status struct {
	Cluster string
	Host    cluster.HostID // whose daemon answered
	Leader  cluster.HostID // whose daemon leads; empty: none
	// At is when the daemon answered, by its clock.
	At time.Time
	// Health is as the leading daemon saw it last.
	Health Health
	// Observation and Decision are the leading daemon's newest; nil: it was not reached, or none leads.
	Observation *cluster.Observation
	Decision    *plan.Decision
	// Daemons are those that the one that answered knows.
	Daemons []cluster.Contact
}

// Status asks the leading daemon, or any that answers where none leads. That none leads is no error here: it is what
// there is to tell.
//
// Errors: ErrNoDaemon; the context's; *[cluster.NewerError], where the daemons are of a later release.
func (c *Client) Status(ctx context.Context) (Status, error) {
	r, err := c.ask(ctx)
	if err != nil {
		return Status{}, err
	}
	return Status{
		Cluster: r.Cluster, Host: r.Host, Leader: r.Leader, At: r.Now(), Health: Health(r.Health()),
		Observation: r.Observation, Decision: r.Decision, Daemons: r.Contacts,
	}, nil
}
