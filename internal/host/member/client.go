package member

import (
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

const (
	callDeadline  = 5 * time.Second // a membership call (SAFETY.md, rule 3)
	checkDeadline = 2 * time.Second // a look at the member before it
	StatusTimeout = time.Second     // its status, for an observation
	viewTimeout   = time.Second     // its member list, through raft
)

// Client asks the host's own member, and changes the membership through it.
type Client struct {
	host    cluster.HostID
	keeper  *record.Keeper
	process func() cluster.Process
	dial    func(record.Launch) (Member, error)

	mu     sync.Mutex // guards what follows; never held across a call
	have   Member
	of     string // the nonce of the launch that it is for
	asking map[*asking]struct{}
}

func NewClient(host cluster.HostID, keeper *record.Keeper, process func() cluster.Process, dial func(record.Launch) (Member, error)) *Client {
	return &Client{host: host, keeper: keeper, process: process, dial: dial, asking: map[*asking]struct{}{}}
}

// Close gives up the connection.
func (c *Client) Close() {
	c.mu.Lock()
	m := c.have
	c.have, c.of = nil, ""
	c.mu.Unlock()
	closeMember(m)
}
