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
	if in := beyond(answers, ours); in != nil && in.Order(k.intent(ctx)) > 0 {
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

// Beyond asks, after a boot and on a host that has followed its record, for the highest intent that hosts keep which followed too; nil:
// none is heard. Silence is consent.
func (k *Part) Beyond(ctx context.Context) *cluster.Intent {
	return beyond(k.askUntil(ctx, bootAsks), k.opt.Keeper.Record())
}

// beyond is the highest intent that hosts keep which followed a record to its next place; nil: there is none.
func beyond(answers []told, record string) (in *cluster.Intent) {
	for _, t := range answers {
		if t.err == nil && t.Place != "" && t.Record == record && t.Intent != nil && t.Intent.Order(in) > 0 {
			in = t.Intent
		}
	}
	return in
}

// Remembered is what the other hosts remember of this one's disk, whatever record they keep: they refuse its pings where that is another
// one. A question about what each keeps, they answer.
func (k *Part) Remembered(ctx context.Context) (out []cluster.Ping) {
	if k == nil {
		return nil
	}
	for _, t := range k.askUntil(ctx, bootAsks) {
		if t.err == nil && t.RememberedDisk != "" {
			out = append(out, cluster.Ping{Cluster: k.opt.Cluster, Host: t.host, RememberedDisk: t.RememberedDisk, Remembered: t.Remembered})
		}
	}
	return out
}

// askUntil asks all others, and those that are silent again until the time is up. The seeds are asked beside them: a silent one, or a
// source of seeds that is, keeps nobody's answer back. They are waited for where a host is silent, or none is known.
func (k *Part) askUntil(ctx context.Context, bound time.Duration) (answers []told) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	fromSeeds := make(chan []told, 1)
	go func() {
		var out []told
		for t := range k.askSeeds(ctx) { // which ends with the context
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
func (k *Part) askSeeds(ctx context.Context) <-chan told {
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
		known := k.opt.Contacts()
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
	if err != nil || state.Chosen.Doc == nil {
		return nil
	}
	store := memory.New()
	for key, o := range state.Chosen.Doc.Objects {
		if _, err := blob.PutBytes(ctx, store, key, o.Data, blob.Any); err != nil {
			return nil
		}
	}
	in, _, _, err := control.New(store, k.opt.Cluster).Known().ReadIntent(ctx)
	if err != nil {
		k.opt.Log.Warn("the intent in the record that this host keeps cannot be read", "err", err)
		return nil
	}
	return in
}

// obey has the host keep the intent of the record that it went over to: the member of an earlier generation is stopped.
func (k *Part) obey(ctx context.Context) {
	if in := k.intent(ctx); in != nil {
		k.opt.KeepIntent(ctx, in)
	}
}
