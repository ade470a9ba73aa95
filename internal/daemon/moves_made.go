package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// makeMoves makes this host's part in moves. The part in keeping a record is that of now, or of before it was moved to a store; nil: there is
// none.
func makeMoves(d *daemon, part *keeping.Part, file *moving.File, byHosts bool) {
	m := &d.moves
	leads := func() error {
		if !d.manager.Status().Leading {
			return errors.New("this daemon does not lead: run the command again")
		}
		return nil
	}
	to := offers{d}
	m.follower = &moving.Follower{
		File: file, Cluster: d.cfg.ClusterName, Self: m.host, Record: func() string { return "" }, Intent: d.keptIntent, Open: openOffered, Log: d.log,
	}
	m.mover = &moving.Mover{
		Cluster: d.cfg.ClusterName, Store: func() blob.Store { return d.store }, Mint: host.Mint, Leads: leads, Hosts: to.hosts,
		Offer: to.offer, Open: openOffered, Followed: file.Followed,
		Go: func(move func(context.Context)) {
			d.parts.start(context.Background(), partMover, func(ctx context.Context) error {
				move(ctx)
				return nil
			})
		},
	}
	if part != nil {
		record := part.Register()
		m.follower.Record, m.follower.Sealed, m.follower.Keep, m.follower.Newest = part.Record, part.Sealed, part.Last, part.Newest
		m.follower.Read, m.follower.Decide, m.mover.Record = record.Document, record.Decide, record
	}
	if byHosts {
		m.part = part
		return
	}
	m.left, m.mover.Followed = part, m.follower.GoHome
	m.follower.There = func(ctx context.Context) (blob.Store, error) {
		return open.Open(ctx, d.cfg.BackupStore, open.Options{Anew: renewals.Add(1)})
	}
	asks := onePart(d, part)
	m.asks = func(ctx context.Context) *keeping.Part {
		of, err := asks(ctx)
		if err != nil {
			d.log.Warn("this host cannot ask where the record went", "err", err)
		}
		return of
	}
	m.follower.Home = &moving.Homing{
		Store: func() blob.Store { return d.store }, URL: ShownURL(d.cfg.RecordStore()), Leads: leads,
		Begin: func(ctx context.Context, first *register.Document, forgot bool) error {
			of, err := asks(ctx)
			if err != nil {
				return err
			}
			// Who is there already knows whether this disk went back; at the boot they may not have been heard.
			told, cancel := context.WithTimeout(ctx, diskTimeout)
			defer cancel()
			var keep []cluster.HostID
			for _, s := range first.Keepers {
				keep = append(keep, s.Host)
			}
			d.host.Remember(d.manager.AskPeers(told, keep))
			return of.TakeUp(ctx, first, forgot)
		},
		Counts: func(ctx context.Context, record string) bool { return m.asks(ctx).Counts(ctx, record) },
		Refuses: func(ctx context.Context) string {
			switch _, err := asks(ctx); {
			case d.cfg.AutoRecoverAfter > 0:
				return "it runs with --auto-recover-after, which needs a shared store: start its agent without"
			case d.cfg.ControlStore != "":
				return "it runs with --control-store, which is how the store of the record is changed there: its settings would name two"
			case err != nil:
				return fmt.Sprintf("its part of a record that hosts keep cannot be read (%v): etcdadm reset --force there, then etcdadm join", err)
			}
			return ""
		},
	}
	m.follower.RecallName()
}

// onePart gives the part in keeping a record that there is, or makes one: one at most, since its file is changed by nobody else.
func onePart(d *daemon, made *keeping.Part) func(context.Context) (*keeping.Part, error) {
	var once sync.Mutex
	return func(ctx context.Context) (_ *keeping.Part, err error) {
		once.Lock()
		defer once.Unlock()
		if made == nil {
			made, err = d.makePart(ctx)
		}
		return made, err
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

// endpoints are where the hosts are. One that follows to the hosts' record reads no announcements any more, and its disk may know nobody yet.
func (f offers) endpoints() (out []string) {
	for _, c := range f.d.contacts() {
		out = append(out, string(c.Host)+"="+c.Endpoint)
	}
	return out
}

// offer makes an offer to a host.
func (f offers) offer(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
	if o.First != nil {
		o.Seeds = f.endpoints()
	}
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
