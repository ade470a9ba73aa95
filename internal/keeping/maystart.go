package keeping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// What is asked of the other hosts between a boot and the first start of the member.

// MayStart tells, after a boot and before the member is started, whether another host keeps a record that was made again without
// this host: the cluster may go on there. This host then goes over. One that knows more does not start its member beside that
// cluster, unless the member of another host of its own record has a quorum, which shows that its cluster never ended. Silence is
// consent, and so is a disk that takes its time: only what was heard of another record keeps a member from its start. The intent
// is that of the record which this host keeps in the end, nil where it does not know it.
func (k *Part) MayStart(ctx context.Context) (*cluster.Intent, error) {
	if k == nil {
		return nil, nil
	}
	answers := k.askUntil(ctx, bootAsks)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperTimeout)
	defer cancel()
	ours := k.opt.Keeper.Record()
	if err := k.follows(ctx, answers); err != nil {
		return nil, err
	}
	if in := k.beyond(ctx, answers, ours, ""); in != nil && in.Order(k.intent(ctx)) > 0 {
		return in, nil
	}
	if !slices.ContainsFunc(answers, func(t told) bool { return t.err == nil && t.Record != "" && t.Record != ours }) {
		return k.intent(ctx), nil
	}
	found, err := k.weigh(ctx, answers)
	switch {
	case err != nil:
		return nil, err
	case found.other == nil && found.made && !found.runs:
		return nil, errors.New(found.stays)
	case found.other == nil:
		return k.intent(ctx), nil
	}
	t := *found.other
	switch why, err := k.staysWith(ctx, found); {
	case err != nil:
		return nil, err
	case why == "":
		if err := k.goOver(ctx, t); err != nil {
			return nil, err
		}
		k.remember(t.Keepers, "")
		return k.intent(ctx), nil
	case found.made && !found.runs:
		return nil, errors.New(stayed(t, why))
	}
	return k.intent(ctx), nil
}

// follows tells why a member is not started yet on a host that can hear that its record was moved, and is about to follow: what it
// reads of the record may be of a generation that is closed where the record is now.
func (k *Part) follows(ctx context.Context, answers []told) error {
	if state, err := k.opt.Keeper.State(ctx); err == nil {
		k.seal(&state.Chosen)
	}
	for _, t := range answers {
		if t.err == nil {
			k.seal(t.Chosen)
		}
	}
	if last := k.Sealed(); last != nil && k.opt.Offered != nil && k.opt.Offered(last.Doc.Moved.To) {
		return fmt.Errorf("the record was moved to %s, and this host follows first: within seconds", last.Doc.Moved.Store)
	}
	return nil
}

// Beyond asks, after a boot and on a host whose record is in a store, for the highest intent that hosts keep which followed its record of
// before there too, or which keep the record that the store was left for, if any; nil: none is heard. Silence is consent.
func (k *Part) Beyond(ctx context.Context, left string) *cluster.Intent {
	if k == nil {
		return nil
	}
	return k.beyond(ctx, k.askUntil(ctx, bootAsks), k.opt.Keeper.Record(), left)
}

// TakeUp has this host keep the record of a first document that counts now, or go over at once to the one that was made again from it
// meanwhile, as at a boot: before it has answered by its seat, and was one of a majority of what was given up. Silence is consent. While
// its member reads through a quorum, it takes its seat all the same, as the other record ends that cluster. A disk that went back
// takes another seat than the offered one, by which it may have promised what it does not know.
func (k *Part) TakeUp(ctx context.Context, first *register.Document, forgot bool) error {
	if err := k.opt.Keeper.Begin(ctx, k.opt.Self(), forgot || k.opt.WentBack(), k.opt.Mint, first); err != nil {
		return err
	}
	found, err := k.weigh(ctx, k.askUntil(ctx, bootAsks))
	if err != nil || found.other == nil {
		return err
	}
	if why, err := k.staysWith(ctx, found); err != nil || why != "" { // why, it says once it is there
		return err
	}
	if serves, err := k.servesBut(ctx, found); err != nil || serves {
		return err
	}
	return k.goOver(ctx, *found.other)
}

// Counts tells whether another host keeps a record, or one that was made again from it: nobody does before it counts.
func (k *Part) Counts(ctx context.Context, record string) bool {
	return k != nil && slices.ContainsFunc(k.askUntil(ctx, bootAsks), func(t told) bool {
		return t.err == nil && (t.Record == record || t.madeFrom(record))
	})
}

// beyond is the highest intent that hosts keep which followed a record to its next place, or which keep the record that it went to after
// that, or one that was made again from it; nil: there is none.
func (k *Part) beyond(ctx context.Context, answers []told, record, left string) (in *cluster.Intent) {
	for _, t := range answers {
		its := t.Intent
		switch {
		case t.err != nil:
			continue
		case t.Place != "" && t.Record == record:
		case left != "" && t.Chosen != nil && (t.Record == left || t.madeFrom(left)):
			its = k.intentOf(ctx, t.Chosen.Doc)
		default:
			continue
		}
		if its != nil && its.Order(in) > 0 {
			in = its
		}
	}
	return in
}

// askUntil asks all others, and those that are silent again until the time is up. The seeds are asked beside them: a silent one, or a
// source of seeds that is, keeps nobody's answer back. They are waited for where a host is silent, or none is known.
func (k *Part) askUntil(ctx context.Context, bound time.Duration) (answers []told) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	fromSeeds, known := make(chan []told, 1), k.opt.Contacts() // before all: who is heard of in between is asked twice, not by nobody
	go func() {
		var out []told
		for t := range k.askSeeds(ctx, known) { // which ends with the context
			out = append(out, t)
		}
		fromSeeds <- out
	}()
	all := k.others()
	for of := all; len(of) > 0 && ctx.Err() == nil; {
		var silent []cluster.HostID
		for _, t := range k.askWhere(ctx, of) {
			if t.err != nil {
				silent = append(silent, t.host)
			} else {
				answers = append(answers, t)
			}
		}
		if of = silent; len(of) == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(bootAsksAgain):
		}
	}
	if len(all) > 0 && len(answers) >= len(all) {
		cancel()
	}
	return append(answers, <-fromSeeds...)
}

// askSeeds asks the endpoints of hosts whose names this one does not know yet: those at another place of the record refuse the pings by
// which it would learn them. The channel is closed when all have answered, or the context ends.
func (k *Part) askSeeds(ctx context.Context, known []cluster.Contact) <-chan told {
	out := make(chan told)
	go func() {
		defer close(out)
		if k.opt.Seeds == nil {
			return
		}
		found := make(chan []string, 1)
		go func() { found <- k.opt.Seeds(ctx) }()
		var seeds []string
		select {
		case seeds = <-found:
		case <-ctx.Done():
			return
		}
		seeds = slices.DeleteFunc(seeds, func(at string) bool {
			return slices.ContainsFunc(known, func(c cluster.Contact) bool { return c.Endpoint == at })
		})
		answers := make(chan told, len(seeds))
		for _, at := range seeds {
			go func() { answers <- k.askSeed(ctx, at) }()
		}
		for range seeds {
			select {
			case t := <-answers:
				select {
				case out <- t:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// askSeed asks the host at an endpoint, which names itself where it keeps the record.
func (k *Part) askSeed(ctx context.Context, at string) (t told) {
	t.host = cluster.HostID("at " + at)
	c, err := k.opt.To(cluster.Contact{Endpoint: at})
	if err == nil {
		t.KeepReply, err = c.Keep(ctx, peer.KeepRequest{Where: true})
	}
	if t.err = err; t.Seat != nil {
		t.host = t.Seat.Host
	}
	return t
}

// intent is what the newest document says that this host knows to be chosen, nil where it knows none.
func (k *Part) intent(ctx context.Context) *cluster.Intent {
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return nil
	}
	return k.intentOf(ctx, state.Chosen.Doc)
}

// intentOf is the intent of a document, nil where it has none that can be read.
func (k *Part) intentOf(ctx context.Context, doc *register.Document) *cluster.Intent {
	if doc == nil {
		return nil
	}
	in, err := k.readIntent(ctx, doc)
	if err != nil {
		k.opt.Log.Warn("the intent in a record that hosts keep cannot be read", "err", err)
		return nil
	}
	return in
}

// readIntent reads the intent of a document, nil where it has none.
func (k *Part) readIntent(ctx context.Context, doc *register.Document) (*cluster.Intent, error) {
	store := memory.New()
	for key, o := range doc.Objects {
		if _, err := blob.PutBytes(ctx, store, key, o.Data, blob.Any); err != nil {
			return nil, err
		}
	}
	in, _, _, err := control.New(store, k.opt.Cluster).Known().ReadIntent(ctx)
	return in, err
}

// obey has the host keep the intent of the record that it went over to: the member of an earlier generation is stopped.
func (k *Part) obey(ctx context.Context) {
	if in := k.intent(ctx); in != nil {
		k.opt.KeepIntent(ctx, in)
	}
}
