package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
)

// makeMoves makes this host's part in moves of the record that it keeps, or kept.
func (d *daemon) makeMoves(part *keeping.Part, file *moving.File) {
	record := part.Register()
	d.moves.follower = &moving.Follower{
		File: file, Cluster: d.cfg.ClusterName, Self: d.moves.host, Record: part.Record, Sealed: part.Sealed, Keep: part.Last, Newest: part.Newest,
		Read: record.Document, Decide: record.Decide, Intent: d.keptIntent, Open: openOffered, Log: d.log,
	}
	if file.Notes().Place != nil {
		d.moves.left = part
		d.moves.follower.There = func(ctx context.Context) (blob.Store, error) {
			return open.Open(ctx, d.cfg.BackupStore, open.Options{Anew: renewals.Add(1)})
		}
		return
	}
	d.moves.part = part
	d.moves.mover = &moving.Mover{
		Cluster: d.cfg.ClusterName, Record: record, Open: openOffered, Followed: file.Followed,
		Leads: func() error {
			if !d.manager.Status().Leading {
				return errors.New("this daemon does not lead: run the command again")
			}
			return nil
		},
		Hosts: func() (out []cluster.HostID) {
			for _, c := range d.contacts() {
				out = append(out, c.Host)
			}
			return out
		},
		Offer: d.offer,
	}
}

// offer makes an offer to a host.
func (d *daemon) offer(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
	if h == d.id {
		return d.moves.follower.Take(ctx, o), nil
	}
	contacts := d.contacts()
	i := slices.IndexFunc(contacts, func(c cluster.Contact) bool { return c.Host == h })
	if i < 0 {
		return peer.OfferReply{}, fmt.Errorf("the address of host %s is not known", h)
	}
	client, err := d.pool.To(contacts[i])
	if err != nil {
		return peer.OfferReply{}, err
	}
	reply, err := client.Keep(ctx, peer.KeepRequest{Offer: &o})
	switch {
	case err != nil:
		return peer.OfferReply{}, err
	case reply.Offer == nil:
		return peer.OfferReply{}, errors.New("it runs an earlier release of etcdadm")
	}
	return *reply.Offer, nil
}
