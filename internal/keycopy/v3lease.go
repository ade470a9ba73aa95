package keycopy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// errNoLeaseList: the release cannot list its leases. They are listed from 3.3
// on.
var errNoLeaseList = errors.New("it cannot list its leases")

// leases lists all of them.
func (s *v3) leases(ctx context.Context) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	var reply *pb.LeaseLeasesResponse
	err := s.call(ctx, "list leases", func(ctx context.Context) (err error) {
		reply, err = s.lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		return err
	})
	if err != nil {
		if unimplemented(err) {
			return nil, errNoLeaseList
		}
		return nil, err
	}
	ids := make([]int64, 0, len(reply.GetLeases()))
	for _, l := range reply.GetLeases() {
		ids = append(ids, l.GetID())
	}
	return ids, nil
}

// term is how long a lease lasts, in seconds.
type term struct {
	granted, left int64
}

// term asks for the TTL of a lease. [ErrSourceChanged]: it is over.
func (s *v3) term(ctx context.Context, id int64) (term, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var reply *pb.LeaseTimeToLiveResponse
	err := s.call(ctx, "ask for a lease's TTL", func(ctx context.Context) (err error) {
		reply, err = s.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
		return err
	})
	if says(errors.Unwrap(err), rpctypes.ErrGRPCLeaseNotFound) || err == nil && reply.GetTTL() < 0 {
		err = fmt.Errorf("%w: lease %x ended", ErrSourceChanged, id)
	}
	return term{granted: reply.GetGrantedTTL(), left: reply.GetTTL()}, err
}

// grant makes a lease of this ID and TTL. One that is there is left as it is: it
// was made by a copy that was interrupted.
func (s *v3) grant(ctx context.Context, id, ttl int64) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	err := s.call(ctx, "grant a lease", func(ctx context.Context) error {
		_, err := s.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: max(ttl, 1)})
		if says(err, rpctypes.ErrGRPCLeaseExist) {
			return nil
		}
		return err
	})
	return err
}

// renewEvery is how often a renewer looks for leases whose time has come.
const renewEvery = time.Second

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
	_ = r.s.call(ctx, "renew leases", func(ctx context.Context) error {
		stream, err := r.s.lease.LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		for _, id := range due {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		return stream.CloseSend()
	})
}
