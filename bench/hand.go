package main

import (
	"context"
	"fmt"
	"time"

	"etcdadm.io/internal/testetcd"
)

// settle is how long a cluster is left alone before something is done to it:
// etcd lets a voter be added only once all have been connected for 5 s.
const settle = 6 * time.Second

// byHand starts plain members without waiting for them.
func byHand(dir, version string, members int) (*testetcd.Cluster, error) {
	// The wait for health polls slowly and counts into the measure; it is the
	// only thing that the context ends.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cfg := testetcd.Config{Version: version, Members: members, TLS: true, Args: learnerArgs(version)}
	c, err := testetcd.StartIn(ctx, dir, cfg)
	if c == nil || len(c.Members) < members || !c.Members[members-1].Running() {
		if c != nil {
			c.Close()
		}
		return nil, fmt.Errorf("start etcd by hand: %w", err)
	}
	return c, nil
}

// learnerArgs lets two learners be there at once, from the release on that can.
func learnerArgs(version string) []string {
	if version == testetcd.V35 {
		return nil
	}
	return []string{"--max-learners=2"}
}

// settledByHand starts plain members and leaves them alone until everything
// may be done to them.
func settledByHand(ctx context.Context, dir, version string, members int) (*testetcd.Cluster, error) {
	c, err := byHand(dir, version, members)
	if err != nil {
		return nil, err
	}
	if _, _, err = healthy(ctx, time.Now(), members, seatsByHand(c)...); err == nil {
		err = pause(ctx, settle)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func seatsByHand(c *testetcd.Cluster) []seat {
	var out []seat
	for i := range c.Members {
		out = append(out, seatByHand(c, i))
	}
	return out
}

func seatByHand(c *testetcd.Cluster, i int) seat {
	m := c.Members[i]
	return seat{name: m.Name, endpoint: m.Endpoint(), tls: c.ClientTLS()}
}

// runningByHand leaves out members whose add was refused.
func runningByHand(c *testetcd.Cluster) []seat {
	var out []seat
	for i, m := range c.Members {
		if m.Running() {
			out = append(out, seatByHand(c, i))
		}
	}
	return out
}
