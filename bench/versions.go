package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/connectivity"

	"etcdadm.io/internal/testetcd"
)

const (
	// healthInterval is what etcd wants between two members that are restarted.
	healthInterval = 5 * time.Second
	// changeFor bounds a change of version over all its lines.
	changeFor = 3 * time.Minute
	// attemptFor is how long one attempt of a write may take before it is made
	// again on another endpoint.
	attemptFor = 500 * time.Millisecond
	// retryFor is how long a write is tried again before it counts as failed.
	retryFor = 2 * time.Second
	// steadyPause is between two writes: the young cluster that goes from 3.4 to 3.7
	// is to cut no snapshots of its own.
	steadyPause = 10 * time.Millisecond
)

// versions: a cluster of three changes its version while a client writes, one
// write after the other, each through the next member that it has a connection to.
// Nothing by hand stands beside it: the predecessor's figures do.
func versions(name, from, to string) measure {
	line := func(what, unit string, digits int, bound float64) row {
		return row{name: from + " → " + to + ": " + what, unit: unit, digits: digits, target: atMost(bound)}
	}
	return measure{
		name: "versions-" + name,
		most: 3,
		rows: []row{
			line("asked for → every member runs it and is healthy", "s", 1, 120),
			line("… beyond 5 s between two restarts", "s", 1, 10),
			line("… attempts of writes that failed", "", 0, 3),
			line("… writes that failed after 2 s", "", 0, 0),
			line("… longest time without a write", "s", 2, 1),
		},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			return b.changeVersion(ctx, dir, from, to, 0)
		},
	}
}

// quarantinedKeys is how many keys there are when members cannot be rolled.
const quarantinedKeys = 5000

// quarantined: a way that etcd does not roll. All members are stopped, and a new
// cluster is made from what they have.
func quarantined(from, to string) measure {
	line := func(what, unit string, digits int, bound float64) row {
		return row{name: "through quarantine, 5,000 keys: " + what, unit: unit, digits: digits, target: atMost(bound)}
	}
	return measure{
		name: "quarantine",
		most: 3,
		rows: []row{
			line("outage (longest time without a write)", "s", 2, 5),
			line("asked for → every member runs it and is healthy", "s", 1, 30),
		},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			s, err := b.changeVersion(ctx, dir, from, to, quarantinedKeys)
			if err != nil {
				return sample{}, err
			}
			s.Values = []float64{s.Values[4], s.Values[0]}
			return s, nil
		},
	}
}

// changeVersion gives the values of versions; with so many keys there before.
func (b *bench) changeVersion(ctx context.Context, dir, from, to string, keys int) (sample, error) {
	for _, v := range []string{from, to} {
		if _, err := testetcd.Fetch(ctx, v); err != nil {
			return sample{}, err
		}
	}
	f, err := b.settledFleet(ctx, dir, from, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	if keys > 0 {
		if err := fillSmall(ctx, f.seats()[0], keys); err != nil {
			return sample{}, err
		}
	}
	c, err := f.steady()
	if err != nil {
		return sample{}, err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var both sync.WaitGroup
	defer both.Wait()
	defer stop()
	restarts := 0
	both.Go(func() { c.write(watching) })
	both.Go(func() { restarts = f.restarts(watching) })
	if err := pause(ctx, stallBefore); err != nil {
		return sample{}, err
	}
	began := time.Now()
	if err := b.configure(ctx, f.store(), 3, to); err != nil {
		return sample{}, err
	}
	events, err := f.allRun(ctx, began, to)
	if err != nil {
		return sample{}, err
	}
	total := time.Since(began)
	if err := pause(ctx, stallBefore); err != nil { // what is under way counts
		return sample{}, err
	}
	stop()
	both.Wait()
	waits := time.Duration(max(0, restarts-1)) * healthInterval
	events = append(events, event{At: total.Seconds(), What: fmt.Sprintf("%d restarts, %d writes", restarts, c.written)})
	return sample{
		Values: []float64{total.Seconds(), (total - waits).Seconds(), float64(c.attempts), float64(c.failed), c.longest.Seconds()},
		Events: append(events, f.decisions(context.WithoutCancel(ctx), began)...),
	}, nil
}

// allRun waits until every member runs a version and answers a linearizable read.
func (f *fleet) allRun(ctx context.Context, began time.Time, version string) ([]event, error) {
	var events []event
	for _, h := range f.hosts {
		v, err := h.seat().open()
		if err != nil {
			return nil, err
		}
		for {
			done, err := poll(ctx, func(ctx context.Context) error {
				st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{})
				if err != nil {
					return err
				}
				if st.Version != version {
					return fmt.Errorf("%s runs %s", h.id, st.Version)
				}
				return v.voter(ctx, len(f.hosts))
			})
			if err == nil {
				events = append(events, at(began, done, h.id+" runs etcd "+version))
				break
			}
			if ctx.Err() != nil {
				v.close()
				return nil, errors.Join(err, ctx.Err())
			}
		}
		v.close()
	}
	return events, nil
}

// restarts counts the processes that the hosts' members become until ctx ends.
func (f *fleet) restarts(ctx context.Context) int {
	seen := map[string]int{}
	n := 0
	for ctx.Err() == nil {
		for _, h := range f.hosts {
			if pid, err := h.etcdPID(); err == nil && pid != seen[h.id] {
				if seen[h.id] != 0 {
					n++
				}
				seen[h.id] = pid
			}
		}
		_ = pause(ctx, 50*time.Millisecond) // the loop ends with ctx
	}
	return n
}

// steadyClient writes one key after the other, and again through another member
// when that fails.
type steadyClient struct {
	members []*viewer
	turn    int

	written  int
	attempts int // that failed
	failed   int // writes
	longest  time.Duration
}

func (f *fleet) steady() (*steadyClient, error) {
	c := &steadyClient{}
	for _, s := range f.seats() {
		v, err := s.open()
		if err != nil {
			c.close()
			return nil, err
		}
		c.members = append(c.members, v)
	}
	return c, nil
}

func (c *steadyClient) close() {
	for _, v := range c.members {
		v.close()
	}
}

// next is the next member with a connection, as etcd's client takes them in
// turn; without any, simply the next.
func (c *steadyClient) next() *viewer {
	for range c.members {
		c.turn++
		v := c.members[c.turn%len(c.members)]
		v.conn.Connect()
		if v.conn.GetState() == connectivity.Ready {
			return v
		}
	}
	c.turn++
	return c.members[c.turn%len(c.members)]
}

func (c *steadyClient) write(ctx context.Context) {
	last := time.Time{}
	for i := 0; ctx.Err() == nil; i++ {
		ok := c.put(ctx, fmt.Appendf(nil, "steady/%08d", i))
		now := time.Now()
		switch {
		case ok:
			if !last.IsZero() {
				c.longest = max(c.longest, now.Sub(last))
			}
			last = now
			c.written++
		case ctx.Err() == nil:
			c.failed++
		}
		_ = pause(ctx, steadyPause) // the loop ends with ctx
	}
}

// put reports whether the write was acknowledged within retryFor.
func (c *steadyClient) put(ctx context.Context, key []byte) bool {
	until := time.Now().Add(retryFor)
	for time.Now().Before(until) && ctx.Err() == nil {
		callCtx, cancel := context.WithTimeout(ctx, attemptFor)
		_, err := c.next().kv.Put(callCtx, &etcdserverpb.PutRequest{Key: key, Value: key})
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			c.attempts++
		}
		_ = pause(ctx, pollEvery) // the loop ends with ctx
	}
	return false
}
