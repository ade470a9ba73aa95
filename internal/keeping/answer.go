package keeping

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// What this host answers other hosts, and people, for what it keeps.

// handle answers as this host's keeper.
func (k *Part) handle(ctx context.Context, m register.Message) (register.Reply, error) {
	if err := k.mayAnswer(); err != nil {
		return register.Reply{}, err
	}
	return k.opt.Keeper.Handle(ctx, m)
}

// mayAnswer tells why this host answers for no seat: it has forgotten what it promised, or does not know yet whether it has.
func (k *Part) mayAnswer() error {
	if !k.opt.Asked() {
		return errors.New("this host asks the others what they remember of its disk, before it answers for the record: within seconds")
	}
	if k.opt.WentBack() {
		return errors.New("the disk of this host is older than what others remember of it: it keeps no record. Set its data directory aside, and join it as a new host")
	}
	return nil
}

func person(c peer.Caller) bool { return c.Identity.Role != pki.RoleHost }

// other tells whether a record is another one than this host's: what either has of backups is nothing to the other.
func (k *Part) other(record string) bool {
	ours := k.Record()
	return record != "" && ours != "" && record != ours
}

// Answer answers another host, or a person, for what this host keeps.
func (k *Part) Answer(ctx context.Context, c peer.Caller, r peer.KeepRequest) (peer.KeepReply, error) {
	switch person := person(c); {
	case person && r.Again == nil && (r.Object == nil || r.Object.Own):
		return peer.KeepReply{}, fmt.Errorf("%w: the record of the cluster is for its hosts", peer.ErrRole)
	case !person && r.Again != nil:
		return peer.KeepReply{}, fmt.Errorf("%w: that a record is made again, a person says", peer.ErrRole)
	}
	switch {
	case r.Message != nil:
		reply, err := k.handle(ctx, *r.Message)
		return peer.KeepReply{Reply: &reply}, err
	case r.Enrol != "":
		if err := k.mayAnswer(); err != nil {
			return peer.KeepReply{}, err
		}
		seat, err := k.opt.Keeper.Enrol(ctx, k.opt.Self(), r.Enrol, k.opt.Mint)
		return peer.KeepReply{Seat: &seat}, err
	case r.Object != nil && !person(c) && k.other(c.Record):
		return peer.KeepReply{}, fmt.Errorf("host %s keeps another record of the cluster than the caller", k.opt.Self())
	case r.Object != nil:
		return peer.KeepReply{Object: k.keptObject(ctx, c, *r.Object)}, nil
	case r.Where:
		return k.whereIs(ctx)
	case r.Again != nil:
		made, err := k.again(ctx, *r.Again)
		return peer.KeepReply{Again: &made}, err
	}
	return peer.KeepReply{}, errors.New("nothing was asked")
}

func (k *Part) keptObject(ctx context.Context, c peer.Caller, q peer.ObjectRequest) *peer.ObjectReply {
	switch {
	case q.Op == peer.ObjectFetch && c.Identity.Role == pki.RoleHost:
		from, err := k.clientOf(cluster.HostID(c.Identity.ID))
		if err == nil {
			err = k.store.Fetch(ctx, from, q.Key)
		}
		if err != nil {
			return &peer.ObjectReply{Error: err.Error()}
		}
		return new(peer.ObjectReply)
	case q.Own:
		return kept.Serve(ctx, k.opt.Own, q)
	}
	return kept.Serve(ctx, kept.People{Store: k.store}, q)
}
