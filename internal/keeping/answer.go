package keeping

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// What this host answers other hosts, and people, for what it keeps.

// Forget has this host go on as another keeper, when it is about to go on as a new disk and its disk has gone back, or
// is not confirmed: with the old one's file it would keep a record of which it may have forgotten what it promised, and
// no host could say so of the new disk.
func (k *Part) Forget(ctx context.Context) error {
	if k == nil || !k.opt.WentBack() && k.alone(ctx) {
		return nil
	}
	switch err := k.opt.Keeper.Renew(ctx, k.opt.Mint); {
	case errors.Is(err, keeper.ErrNone):
		return nil
	case err != nil:
		return err
	}
	k.opt.Log.Warn("the disk of this host went back, or is not confirmed: the host is a new keeper of the record")
	return nil
}

// errUnconfirmed says that this host's disk may lack what was written on it, as far as the other hosts have said.
var errUnconfirmed = errors.New(
	"the disk of this host is not confirmed: no host that remembers it has answered since its agent began")

// handle answers as this host's keeper. A host whose disk is not confirmed yet says so, and nothing else.
func (k *Part) handle(ctx context.Context, m register.Message) (register.Reply, error) {
	switch err := k.mayAnswer(ctx); {
	case errors.Is(err, errUnconfirmed):
		return register.Reply{
			From: m.To, Kind: m.Kind, Ballot: m.Entry.Ballot, Part: m.Entry.Part, Refused: register.Unconfirmed,
		}, nil
	case err != nil:
		return register.Reply{}, err
	}
	return k.opt.Keeper.Handle(ctx, m)
}

// mayAnswer tells why this host answers for no seat and proposes nothing: it has forgotten what it promised, or does
// not know yet whether it has (SAFETY.md, rule 29).
func (k *Part) mayAnswer(ctx context.Context) error {
	switch {
	case k.opt.WentBack():
		return errors.New("the disk of this host is older than what others remember of it: it keeps no record. Set its data directory aside, and join it as a new host")
	case !k.opt.Asked():
		return errors.New("this host asks the others what they remember of its disk, before it answers for the record: within seconds")
	case k.opt.Sure(), k.alone(ctx):
		return nil
	}
	return errUnconfirmed
}

// mayPropose is mayAnswer for this host's own proposals.
func (k *Part) mayPropose() error {
	ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
	defer cancel()
	return k.mayAnswer(ctx)
}

// alone tells whether this host answers without a word of another one: its daemon minted the seat, so that nothing can
// be forgotten that was promised by it; or it keeps the record alone, in a cluster of no other voter, which no host
// could confirm.
func (k *Part) alone(ctx context.Context) bool {
	minted, only := k.opt.Keeper.Alone(ctx)
	if minted || only == nil {
		return minted
	}
	in, err := k.readIntent(ctx, only)
	if err != nil || in == nil {
		return err == nil
	}
	hosts := in.VoterHosts()
	for _, v := range in.Next {
		hosts = append(hosts, v.Host)
	}
	return !slices.ContainsFunc(hosts, func(h cluster.HostID) bool { return h != k.opt.Self() })
}

// enrolHere makes this host ready to keep a record, and gives its seat. A seat that may have promised more than the
// host knows is not ready.
func (k *Part) enrolHere(ctx context.Context, record string) (register.Seat, error) {
	err := k.mayAnswer(ctx)
	if err != nil && (k.Record() != "" || !errors.Is(err, errUnconfirmed)) {
		return register.Seat{}, err
	}
	return k.opt.Keeper.Enrol(ctx, k.opt.Self(), record, k.opt.Mint)
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
		seat, err := k.enrolHere(ctx, r.Enrol)
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
