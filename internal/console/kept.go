package console

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
)

// OpenKept is what the hosts of a cluster without a shared store keep, through the daemon of a data directory on this host, or
// another one that it names. The connection ends with the program.
func OpenKept(dataDir string) (blob.Store, error) {
	a, err := ReadAccess(dataDir)
	if err != nil {
		return nil, err
	}
	c, err := Open(a)
	if err != nil {
		return nil, err
	}
	return c.Kept(), nil
}

// Kept is the store of a cluster that has no shared one, through the first of its daemons that answers.
func (c *Console) Kept() blob.Store { return kept.Remote{Client: anyDaemon{c}} }

// Again has one of the daemons that keep the record of the cluster make it again, after a majority of the hosts that kept it is
// gone for good: see docs/adr/031. Where a majority answers, nothing is made. What one daemon may have done, none is asked again.
func (c *Console) Again(ctx context.Context, lost []cluster.HostID, dryRun bool) (peer.AgainReply, error) {
	var refused *peer.AgainReply
	var all []error
	for _, endpoint := range c.access.Endpoints {
		client, err := c.pool.To(cluster.Contact{Endpoint: endpoint})
		var reply peer.KeepReply
		if err == nil {
			reply, err = client.Keep(ctx, peer.KeepRequest{Again: &peer.AgainRequest{Lost: lost, DryRun: dryRun}})
		}
		switch told, ok := errors.AsType[*peer.Error](err); {
		case err != nil && (ok && told.Delivered || ctx.Err() != nil):
			return peer.AgainReply{}, err
		case err != nil:
			all = append(all, err)
		case reply.Again == nil:
			all = append(all, errors.New("the daemon answered something else"))
		case reply.Again.NotKeeper:
			refused = reply.Again
		default:
			return *reply.Again, nil
		}
	}
	if refused != nil {
		return *refused, nil
	}
	return peer.AgainReply{}, errors.Join(all...)
}

// anyDaemon asks the daemons in turn, until one answers.
type anyDaemon struct{ c *Console }

// Keep implements kept.Client. What one daemon may have done, none is asked again.
func (a anyDaemon) Keep(ctx context.Context, r peer.KeepRequest) (peer.KeepReply, error) {
	var all []error
	for _, endpoint := range a.c.access.Endpoints {
		client, err := a.c.pool.To(cluster.Contact{Endpoint: endpoint})
		if err != nil {
			all = append(all, err)
			continue
		}
		reply, err := client.Keep(ctx, r)
		if err == nil {
			return reply, nil
		}
		all = append(all, err)
		if told, ok := errors.AsType[*peer.Error](err); ok && told.Delivered || ctx.Err() != nil {
			break
		}
	}
	return peer.KeepReply{}, errors.Join(all...)
}

// Move has the leading daemon move the record, or say how far it is.
func (c *Console) Move(ctx context.Context, leader cluster.Contact, r peer.MoveRequest) (peer.MoveReply, error) {
	client, err := c.pool.To(leader)
	if err != nil {
		return peer.MoveReply{}, err
	}
	reply, err := client.Keep(ctx, peer.KeepRequest{Move: &r})
	switch {
	case err != nil:
		return peer.MoveReply{}, err
	case reply.Move == nil:
		return peer.MoveReply{}, errors.New("the daemon answered something else")
	}
	return *reply.Move, nil
}
