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
func makeMoves(d *daemon, part *keeping.Part, file *moving.File) {
	m := &d.moves
	record := part.Register()
	m.follower = &moving.Follower{
		File: file, Cluster: d.cfg.ClusterName, Self: m.host, Record: part.Record, Sealed: part.Sealed, Keep: part.Last, Newest: part.Newest,
		Read: record.Document, Decide: record.Decide, Intent: d.keptIntent, Open: openOffered, Log: d.log,
	}
	if file.Notes().Place != nil {
		m.left = part
		m.follower.There = func(ctx context.Context) (blob.Store, error) {
			return open.Open(ctx, d.cfg.BackupStore, open.Options{Anew: renewals.Add(1)})
		}
		return
	}
	m.part = part
	to := offers{d}
	m.mover = &moving.Mover{
		Cluster: d.cfg.ClusterName, Record: record, Open: openOffered, Followed: file.Followed,
		Leads: func() error {
			if !d.manager.Status().Leading {
				return errors.New("this daemon does not lead: run the command again")
			}
			return nil
		},
		Hosts: to.hosts,
		Offer: to.offer,
	}
}

// offers are how hosts are made an offer of a place.
type offers struct{ d *daemon }

func (f offers) hosts() (out []cluster.HostID) {
	for _, c := range f.d.contacts() {
		out = append(out, c.Host)
	}
	return out
}

// offer makes an offer to a host.
func (f offers) offer(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
	if h == f.d.id {
		return f.d.moves.follower.Take(ctx, o), nil
	}
	contacts := f.d.contacts()
	i := slices.IndexFunc(contacts, func(c cluster.Contact) bool { return c.Host == h })
	if i < 0 {
		return peer.OfferReply{}, fmt.Errorf("the address of host %s is not known", h)
	}
	client, err := f.d.pool.To(contacts[i])
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
