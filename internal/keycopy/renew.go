package keycopy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// renewEvery is how often a renewer looks for leases whose time has come.
const renewEvery = 500 * time.Millisecond

// Keep renews all leases that an etcd of version 3 has now, until stop is called or ctx
// ends. It is for etcds that nobody else uses, and that are thrown away: so nothing runs
// out in them that whoever renews it has no chance to renew.
func Keep(ctx context.Context, e Endpoint) (stop func(), err error) {
	opened, err := open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("keep leases: %w", err)
	}
	s, is := opened.(*v3)
	if !is {
		opened.close()
		return nil, fmt.Errorf("keep leases: %w: version 2 has none", ErrUnsupported)
	}
	ids, err := s.leases(ctx)
	if errors.Is(err, errNoLeaseList) {
		ids, err = s.leasesOfKeys(ctx)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("keep leases: %w", err)
	}
	r := s.renewer(ctx)
	for _, id := range ids {
		r.keep(id, 0) // the first answer says how long it lasts
	}
	return func() { r.stop(); s.close() }, nil
}

// renewer keeps leases from ending, until it is told to stop.
type renewer struct {
	s      *v3
	mu     sync.Mutex
	due    map[int64]time.Time // guarded by mu; when to renew next
	ttl    map[int64]time.Duration
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *v3) renewer(ctx context.Context) *renewer {
	ctx, cancel := context.WithCancel(ctx)
	r := &renewer{s: s, due: map[int64]time.Time{}, ttl: map[int64]time.Duration{}, cancel: cancel, done: make(chan struct{})}
	go r.run(ctx)
	return r
}

// keep adds a lease of a TTL in seconds.
func (r *renewer) keep(id, ttl int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due[id], r.ttl[id] = time.Now(), time.Duration(ttl)*time.Second
}

func (r *renewer) stop() {
	r.cancel()
	<-r.done
}

// run needs no word about what failed: a lease that ended shows as a source that
// changed, or a target that differs.
func (r *renewer) run(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		r.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// round renews what is due, over one stream.
func (r *renewer) round(ctx context.Context) {
	var due []int64
	r.mu.Lock()
	for id, at := range r.due {
		if now := time.Now(); !at.After(now) {
			due = append(due, id)
			r.due[id] = now.Add(r.ttl[id] / 3)
		}
	}
	r.mu.Unlock()
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	_ = r.s.call(ctx, "renew leases", func(ctx context.Context) error { return r.renew(ctx, due) })
}

// renew sends all at once, so that thousands of them take no longer than the shortest
// lasts, and learns from the answers how long each does.
func (r *renewer) renew(ctx context.Context, due []int64) error {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	stream, err := r.s.lease.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	sending.Go(func() {
		for _, id := range due {
			if stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) != nil {
				return // the stream's error is what Recv returns
			}
		}
		_ = stream.CloseSend()
	})
	for range due {
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		r.mu.Lock()
		if id, lasts := reply.GetID(), time.Duration(reply.GetTTL())*time.Second; lasts > 0 {
			r.ttl[id], r.due[id] = lasts, time.Now().Add(lasts/3)
		} else {
			delete(r.due, id) // it has ended
		}
		r.mu.Unlock()
	}
	return nil
}
