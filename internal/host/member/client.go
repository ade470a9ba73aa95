package member

import (
	"errors"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
)

const (
	callDeadline  = 5 * time.Second        // a membership call (SAFETY.md, rule 3)
	checkDeadline = 2 * time.Second        // a look at the member before it
	StatusTimeout = time.Second            // its status, for an observation
	viewTimeout   = time.Second            // its member list, through raft
	youngTimeout  = 100 * time.Millisecond // all of them, of a process that has just begun
)

// Client asks the host's own member, and changes the membership through it.
type Client struct {
	host    cluster.HostID
	keeper  *record.Keeper
	process func() cluster.Process
	dial    func(record.Launch) (Member, error)
	trusts  func() uint64 // grows when a connection has to be made anew; nil: never

	mu     sync.Mutex // guards what follows; never held across a call
	have   Member
	of     reached // what it is for
	asking map[*asking]struct{}
	// refusedAt is when a process last refused a change of the membership, for whom it is connected to.
	refusedAt  time.Time
	refusedPID int
}

// reached is what a connection is for: a launch by its nonce, and whom this host trusts.
type reached struct {
	nonce  string
	trusts uint64
}

func (c *Client) reaches(l *record.Launch) reached {
	r := reached{nonce: l.Nonce}
	if c.trusts != nil {
		r.trusts = c.trusts()
	}
	return r
}

func NewClient(host cluster.HostID, keeper *record.Keeper, process func() cluster.Process, dial func(record.Launch) (Member, error), trusts func() uint64) *Client {
	return &Client{host: host, keeper: keeper, process: process, dial: dial, trusts: trusts, asking: map[*asking]struct{}{}}
}

// Refused is when the process that runs last refused a change of the membership for whom it is connected to; zero: it did not, or has
// made one since.
func (c *Client) Refused() time.Time {
	pid := c.process().PID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusedPID != pid {
		return time.Time{}
	}
	return c.refusedAt
}

// changed remembers how a change of the membership by that process went. Other calls do not ask whom it is connected to.
func (c *Client) changed(op cluster.OpKind, pid int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, etcd.ErrUnhealthy):
		c.refusedAt, c.refusedPID = time.Now(), pid
	case err == nil && (op == cluster.OpAddLearner || op == cluster.OpAddVoter || op == cluster.OpRemove):
		c.refusedAt, c.refusedPID = time.Time{}, 0
	}
}

// Close gives up the connection.
func (c *Client) Close() {
	c.mu.Lock()
	m := c.have
	c.have, c.of = nil, reached{}
	c.mu.Unlock()
	closeMember(m)
}
