package keycopy

import (
	"context"
	"errors"
	"fmt"

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
