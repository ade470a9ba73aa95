package keeping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// The record made again, after a majority of its keepers is gone: what is asked before, and who makes it.

// answer is what it says before a record is made again.
func (t told) answer() register.Answer {
	a := register.Answer{Host: t.host, Record: t.Record, Making: t.Making, Unconfirmed: t.Unconfirmed}
	switch {
	case t.err == nil && t.Place != "" && t.Newest == nil: // it followed without having read how the record ends
		a.There = register.ErrMoved
	case t.err == nil:
	case peer.IsThere(t.err):
		a.There = t.err
	default:
		a.Silent = t.err
	}
	if t.Seat != nil {
		a.Seat = *t.Seat
	}
	if t.Newest != nil {
		a.Newest = *t.Newest
	}
	return a
}

// again makes the record again on this host, if a majority of its keepers is gone, as a person says who names the lost.
func (k *Part) again(ctx context.Context, r peer.AgainRequest) (peer.AgainReply, error) {
	if _, err := k.record.Decide(ctx); err == nil {
		return peer.AgainReply{}, nil
	}
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return peer.AgainReply{Refused: err.Error(), NotKeeper: errors.Is(err, keeper.ErrNone)}, nil
	}
	if k.opt.WentBack() {
		return peer.AgainReply{NotKeeper: true, Refused: "the disk of this host is older than what others remember of it: run the command on another host"}, nil
	}
	if !state.Kept() {
		return peer.AgainReply{NotKeeper: true, Refused: "host " + string(k.opt.Self()) + " does not keep the record"}, nil
	}
	switch serves, err := k.opt.Serves(ctx, nil); {
	case err != nil:
		return peer.AgainReply{Refused: fmt.Sprintf("whether the member of host %s has a quorum is not known: %v", k.opt.Self(), err)}, nil
	case serves:
		return peer.AgainReply{Refused: fmt.Sprintf("the member of host %s has a quorum: etcd serves, and its other hosts are there. Start their agents", k.opt.Self())}, nil
	}
	if !r.DryRun {
		if !k.making.CompareAndSwap(false, true) {
			return peer.AgainReply{Refused: "this host is making the record again already"}, nil
		}
		defer k.making.Store(false)
	}
	looked := time.Now()
	base, refused := k.base(ctx, r.Lost)
	if refused == "" && base.Doc.Moved != nil {
		return peer.AgainReply{Refused: k.anyway(ctx, base, r.DryRun)}, nil
	}
	if refused == "" && k.opt.BeforeAgain != nil {
		var done func()
		if done, refused = k.opt.BeforeAgain(ctx, k.opt.Mint(), r.DryRun); done != nil {
			defer done()
		}
	}
	if refused != "" || r.DryRun {
		return peer.AgainReply{Host: k.opt.Self(), Refused: refused}, nil
	}
	doc, err := k.opt.Keeper.Again(ctx, k.opt.Mint, looked, base, r.Lost, control.OfCommand)
	if err != nil {
		return peer.AgainReply{}, err
	}
	k.remember(nil, "") // who kept the one before
	k.opt.Log.Warn("the record of the cluster was made again: this host keeps it alone until others do", "record", doc.Record, "before", state.Record, "lost", r.Lost)
	return peer.AgainReply{Host: k.opt.Self()}, nil
}

// MadeAgain tells why it is not known that no host keeps a record that was made again from this one, "" if none does: all hosts that were
// ever heard of answer, or are named.
func (k *Part) MadeAgain(ctx context.Context, lost []cluster.HostID) string {
	ours := k.Record()
	for _, t := range k.askWhere(ctx, k.others()) {
		switch {
		case t.err != nil && slices.Contains(lost, t.host):
		case t.err != nil:
			return fmt.Sprintf("host %s does not answer (%v): bring it back, or name it with --lost if it is gone for good", t.host, t.err)
		case t.Making:
			return fmt.Sprintf("host %s is making the record again at this moment", t.host)
		case t.Record != "" && t.Record != ours:
			return fmt.Sprintf("host %s keeps the record %s, which may have been made again from %s: that one counts. Set this host aside, and join it there", t.host, t.Record, ours)
		}
	}
	return ""
}

// anyway goes on from a record that was sealed: in the next place, never by another record.
func (k *Part) anyway(ctx context.Context, last register.Entry, dryRun bool) string {
	if k.opt.Anyway == nil {
		return register.ErrMoved.Error()
	}
	if why := k.opt.Anyway(ctx, last, dryRun); why != "" {
		return why
	}
	return fmt.Sprintf("the record was moved to %s, and this host goes on there within seconds: then run the command again", last.Doc.Moved.Store)
}

// base asks all hosts, and those that their answers name too.
func (k *Part) base(ctx context.Context, lost []cluster.HostID) (base register.Entry, refused string) {
	of := append(k.others(), lost...)
	var answers []register.Answer
	for {
		slices.Sort(of)
		for _, t := range k.askWhere(ctx, slices.Compact(of)) {
			answers = append(answers, t.answer())
		}
		state, err := k.opt.Keeper.State(ctx)
		if err != nil {
			return base, err.Error()
		}
		if of = state.Unheard(answers, lost); len(of) == 0 || len(answers) > maxAsked {
			return state.Base(answers, lost)
		}
	}
}
