package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leaseholders is how many clients hold leases.
	leaseholders = 2
	// leaseTTL is long enough that an election fits in, and short enough that many expire in a run.
	leaseTTL = 5
)

// holdLeases holds one lease after the other, each for some renewals.
func (w *worker) holdLeases(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		l := Lease{Client: w.number, Key: fmt.Sprintf("%slease/%d/%d", w.clients.cfg.Prefix, w.number, n), TTL: leaseTTL}
		if err := w.hold(ctx, &l); err == nil {
			w.release(ctx, &l)
			w.clients.mu.Lock()
			w.clients.history.Leases = append(w.clients.history.Leases, l)
			w.clients.mu.Unlock()
		}
		w.pause(ctx, 200*time.Millisecond)
	}
}

// call gives a call its time.
func call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callDeadline)
	defer cancel()
	return do(ctx)
}

// hold grants a lease to a key.
func (w *worker) hold(ctx context.Context, l *Lease) error {
	at := w.clients.now()
	err := call(ctx, func(ctx context.Context) error {
		granted, err := w.client.Grant(ctx, l.TTL)
		if err == nil {
			l.ID, l.TTL, l.Renewed = int64(granted.ID), granted.TTL, []int64{at}
		}
		return err
	})
	if err != nil {
		return err
	}
	o := Operation{Client: w.number, Kind: Put, Key: l.Key, Value: w.clients.value(w.number), Call: w.clients.now()}
	return call(ctx, func(ctx context.Context) error {
		put, err := w.client.Put(ctx, o.Key, o.Value, clientv3.WithLease(clientv3.LeaseID(l.ID)))
		if err == nil {
			o.Revision = put.Header.Revision
			l.Held = w.clients.now()
		}
		w.clients.record(o, nil, err)
		return err
	})
}

// release renews a lease some times, and then revokes it or watches it expire.
func (w *worker) release(ctx context.Context, l *Lease) {
	for range 2 + w.random.IntN(6) {
		w.pause(ctx, time.Second)
		if ctx.Err() != nil || !w.renew(ctx, l) || !w.look(ctx, l) {
			break
		}
	}
	if ctx.Err() != nil || w.random.IntN(3) == 0 {
		l.Revoked = w.clients.now()
		_ = call(ctx, func(ctx context.Context) error { // the lease ends by itself when this fails
			_, err := w.client.Revoke(ctx, clientv3.LeaseID(l.ID))
			return err
		})
		return
	}
	for ctx.Err() == nil && w.clients.now() < l.Renewed[len(l.Renewed)-1]+l.TTL*int64(time.Second) && w.look(ctx, l) {
		w.pause(ctx, 200*time.Millisecond)
	}
}

// renew reports whether the lease may still be there.
func (w *worker) renew(ctx context.Context, l *Lease) bool {
	at := w.clients.now()
	err := call(ctx, func(ctx context.Context) error {
		_, err := w.client.KeepAliveOnce(ctx, clientv3.LeaseID(l.ID))
		return err
	})
	switch {
	case err == nil:
		l.Renewed = append(l.Renewed, at)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		l.Missed = append(l.Missed, Span{at, w.clients.now(), err.Error()})
		return false
	}
	return true
}

// look reads the key, and reports whether it may still be there.
func (w *worker) look(ctx context.Context, l *Lease) bool {
	at, found := w.clients.now(), true
	err := call(ctx, func(ctx context.Context) error {
		got, err := w.client.Get(ctx, l.Key)
		if err == nil {
			found = got.Count > 0
		}
		return err
	})
	if err == nil && !found {
		l.Missed = append(l.Missed, Span{at, w.clients.now(), "the key is absent"})
		return false
	}
	return true
}

// checkLeases: a lease lives for its TTL from the moment in which it was granted or renewed, which is not before the call.
// After a change of raft's leader it may live longer, never shorter.
func (c *checker) checkLeases() {
	told := map[string]Event{} // when a watcher first heard of the end of a key
	for _, w := range c.history.Watches {
		for _, e := range w.Events {
			if was, known := told[e.Key]; e.Deleted && e.At > 0 && (!known || e.At < was.At) {
				told[e.Key] = e
			}
		}
	}
	for _, l := range c.history.Leases {
		last := l.Renewed[len(l.Renewed)-1] + l.TTL*int64(time.Second)
		if l.Held == 0 || c.duringReset(l.Renewed[0], last) {
			continue
		}
		c.report.Leases++
		given := func(at int64) bool { return l.Revoked > 0 && at >= l.Revoked }
		for _, m := range l.Missed {
			until := l.livesUntil(m.From)
			if m.To < until && !given(m.To) {
				c.found("lease ended early", m.To, "lease %x of client %d was renewed until %s, and at %s: %s", l.ID, l.Client, clock(until), clock(m.To), m.Text)
			}
		}
		if e, ended := told[l.Key]; ended && e.At < last && !given(e.At) {
			c.found("lease ended early", e.At, "lease %x of client %d was renewed until %s, and its key was deleted at %s", l.ID, l.Client, clock(last), clock(e.At))
		}
	}
}

// livesUntil is how long a lease lives at least, by the renewals that had been acknowledged at a time.
func (l Lease) livesUntil(at int64) (until int64) {
	for _, r := range l.Renewed {
		if r < at {
			until = max(until, r+l.TTL*int64(time.Second))
		}
	}
	return until
}
