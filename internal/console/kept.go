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

// Again has the first daemon that answers make the record of the cluster again, after a majority of the hosts that kept it is
// gone for good: see docs/adr/031. Where a majority answers, nothing is made.
func (c *Console) Again(ctx context.Context, lost []cluster.HostID, dryRun bool) (peer.AgainReply, error) {
	reply, err := anyDaemon{c}.Keep(ctx, peer.KeepRequest{Again: &peer.AgainRequest{Lost: lost, DryRun: dryRun}})
	if err != nil {
		return peer.AgainReply{}, err
	}
	if reply.Again == nil {
		return peer.AgainReply{}, errors.New("the daemon answered something else")
	}
	return *reply.Again, nil
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
