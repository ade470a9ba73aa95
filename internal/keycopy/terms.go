package keycopy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// leaseBase is the first of the IDs of leases that stand for times at which keys
// of version 2 expire: the time in seconds since 1970 is added. So keys that
// expire in the same second share a lease, and an interrupted copy finds its
// leases again.
const leaseBase = int64(0x6b63) << 40

// leastTTL is what a key gets at least, in seconds, whose term changes its kind: one of
// version 2 in a target of version 3, also when it runs out while it is copied, and one
// on a lease in a target of version 2. They end too late rather than too early: one of a
// second or two could not be kept from ending until all is written.
const leastTTL = 30

// terms are the leases and expiries of one copy: each is looked up in the source
// and made in the target once, before the first key that has it.
type terms struct {
	from, to side
	o        Options
	known    map[int64]*agreed // guarded by mu; by the lease's ID in the target, or in the source where that has none
	mu       sync.Mutex
	renewers map[side]*renewer // only with Renew; those of version 3
}

// agreed is one lease. What is below once is there when once is done.
type agreed struct {
	once    sync.Once
	ttl     int64 // granted, seconds
	expires int64 // in a target of version 2, of the key that was first written; guarded by terms.mu
	err     error
}

func newTerms(from, to side, o Options) *terms {
	return &terms{from: from, to: to, o: o, known: map[int64]*agreed{}}
}

// renew begins to keep leases from ending, on both sides, until ctx ends or
// close is called.
func (t *terms) renew(ctx context.Context) {
	if !t.o.Renew {
		return
	}
	t.renewers = map[side]*renewer{}
	for _, s := range []side{t.from, t.to} {
		if s, is := s.(*v3); is {
			t.renewers[s] = s.renewer(ctx)
		}
	}
}

func (t *terms) keep(s side, id, ttl int64) {
	if r := t.renewers[s]; r != nil {
		r.keep(id, ttl)
	}
}

func (t *terms) close() {
	for _, r := range t.renewers {
		r.stop()
	}
}

// leaseWorkers is how many leases are looked up and made at a time.
const leaseWorkers = 16

// all makes every lease of a source of version 3. Those of version 2 come with
// their keys.
func (t *terms) all(ctx context.Context) error {
	from, is := t.from.(*v3)
	if !is {
		return nil
	}
	ids, err := from.leases(ctx)
	if errors.Is(err, errNoLeaseList) {
		ids, err = from.leasesOfKeys(ctx)
	}
	if err != nil {
		return err
	}
	return each(ctx, leaseWorkers, ids, func(ctx context.Context, id int64) error {
		return t.of(id).make(ctx, t, pair{lease: id})
	})
}

// each calls fn for all, some at a time, until one fails.
func each(ctx context.Context, workers int, of []int64, fn func(context.Context, int64) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	todo := make(chan int64)
	var wg sync.WaitGroup
	for range min(workers, len(of)) {
		wg.Go(func() {
			for id := range todo {
				if err := fn(ctx, id); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, id := range of {
		select {
		case todo <- id:
		case <-ctx.Done():
		}
	}
	close(todo)
	wg.Wait()
	return context.Cause(ctx)
}

// leasesOfKeys finds leases by their keys, for releases that do not list them.
func (s *v3) leasesOfKeys(ctx context.Context) ([]int64, error) {
	at, err := s.position(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	var ids []int64
	err = s.walk(ctx, at, func(kv *mvccpb.KeyValue) error {
		if kv.Lease != 0 && !seen[kv.Lease] {
			seen[kv.Lease] = true
			ids = append(ids, kv.Lease)
		}
		return nil
	})
	return ids, err
}

// lease is the ID of a key's lease in a target of version 3, and 1 for any key
// that expires in one of version 2.
func (t *terms) lease(p pair) int64 {
	switch {
	case p.lease == 0 && p.expires == 0:
		return 0
	case t.to.api() == V2:
		return 1
	case p.expires != 0:
		return leaseBase + p.expires
	}
	return p.lease
}

func (t *terms) of(id int64) *agreed {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.known[id]
	if a == nil {
		a = &agreed{}
		t.known[id] = a
	}
	return a
}

// have sees to it that a key's lease is in the target.
func (t *terms) have(ctx context.Context, p pair) error {
	return t.of(t.lease(p)).make(ctx, t, p)
}

// left is the TTL that a key gets in a target of version 2, in seconds; over: it is one
// of version 2 that has run out meanwhile. The TTL of a lease, which is kept in the
// source, begins when the key is written.
func (t *terms) left(ctx context.Context, p pair) (ttl int64, over bool, err error) {
	if p.lease == 0 {
		if p.expires == 0 {
			return 0, false, nil
		}
		left := secondsUntil(p.expires)
		return left, left <= 0, nil
	}
	a := t.of(p.lease)
	if err := a.make(ctx, t, p); err != nil {
		return 0, false, err
	}
	ttl = max(leastTTL, a.ttl)
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.expires == 0 {
		a.expires = ceilSecond(time.Now().Add(time.Duration(ttl) * time.Second))
	}
	return ttl, false, nil
}

func secondsUntil(expires int64) int64 {
	return int64((time.Until(time.Unix(expires, 0)) + time.Second - 1) / time.Second)
}

// make looks a lease up, and makes it.
func (a *agreed) make(ctx context.Context, t *terms, p pair) error {
	a.once.Do(func() { a.err = a.settle(ctx, t, p) })
	return a.err
}

func (a *agreed) settle(ctx context.Context, t *terms, p pair) error {
	id := leaseBase + p.expires
	if p.expires != 0 {
		a.ttl = max(leastTTL, secondsUntil(p.expires))
	} else {
		id = p.lease
		from, is := t.from.(*v3)
		if !is {
			return ErrUnsupported
		}
		asked, err := from.term(ctx, id)
		if err != nil {
			return err
		}
		a.ttl = asked.granted
		t.keep(t.from, id, asked.granted)
		if t.o.Remaining {
			a.ttl = max(1, asked.left)
		}
	}
	to, is := t.to.(*v3)
	if !is {
		return nil
	}
	if err := to.grant(ctx, id, a.ttl); err != nil {
		return err
	}
	t.keep(t.to, id, a.ttl)
	return nil
}

// verify holds the leases of a target of version 3 against what was made.
func (t *terms) verify(ctx context.Context, to *v3) error {
	var ids []int64
	for id := range t.known {
		ids = append(ids, id)
	}
	has, err := to.leases(ctx)
	if err == nil && len(has) != len(ids) {
		return fmt.Errorf("%w: %d leases instead of %d", ErrDiffers, len(has), len(ids))
	}
	if err != nil && !errors.Is(err, errNoLeaseList) {
		return err
	}
	return each(ctx, leaseWorkers, ids, func(ctx context.Context, id int64) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return to.call(ctx, "ask for a lease's TTL", func(ctx context.Context) error {
			reply, err := to.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
			// etcd grants more than it is asked for where that is very little.
			if want := t.known[id].ttl; err == nil && (reply.GetTTL() < 0 || reply.GetGrantedTTL() < want) {
				return fmt.Errorf("%w: lease %x has a TTL of %d s instead of %d s", ErrDiffers, id, reply.GetGrantedTTL(), want)
			}
			return err
		})
	})
}
