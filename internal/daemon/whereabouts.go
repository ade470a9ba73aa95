package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// Which record there is, and who keeps it: what this host knows of it, finds out, and goes over to.

// knownKeepers names the record and whom to ask for it: by the documents of this host, and by what others said while no majority
// of these answered.
func (k *keeping) knownKeepers() (string, []register.Seat) {
	ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
	defer cancel()
	record, seats, err := k.keeper.Known(ctx)
	if err != nil {
		return record, seats
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.heard {
		if !slices.Contains(seats, s) {
			seats = append(seats, s)
		}
	}
	return record, seats
}

// whereIs is what this host tells another one of the record.
func (k *keeping) whereIs(ctx context.Context) (peer.KeepReply, error) {
	record, keepers := k.knownKeepers()
	out := peer.KeepReply{Record: record, Keepers: keepers, Making: k.making.Load()}
	state, err := k.keeper.State(ctx)
	switch {
	case errors.Is(err, keeper.ErrNone):
		return out, nil
	case err != nil:
		return out, err
	}
	if e := state.Newest(); e.Doc != nil {
		out.Newest = &e
	}
	if state.Chosen.Doc != nil {
		out.Chosen = &state.Chosen
	}
	return out, nil
}

// told is what one host says of the record, or why it says nothing.
type told struct {
	peer.KeepReply
	host cluster.HostID
	err  error
}

// askWhere asks these hosts at once.
func (k *keeping) askWhere(ctx context.Context, of []cluster.HostID) []told {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	out := make([]told, len(of))
	var all sync.WaitGroup
	for i, h := range of {
		all.Go(func() {
			out[i].host = h
			c, err := k.clientOf(h)
			if err == nil {
				out[i].KeepReply, err = c.Keep(ctx, peer.KeepRequest{Where: true})
			}
			out[i].err = err
		})
	}
	all.Wait()
	return out
}

// others are all hosts that this one ever heard of: by their daemons, and as keepers.
func (k *keeping) others() (out []cluster.HostID) {
	for _, c := range k.contacts() {
		out = append(out, c.Host)
	}
	_, seats := k.knownKeepers()
	for _, s := range seats {
		out = append(out, s.Host)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(h cluster.HostID) bool { return h == k.id() })
}

// findRecord asks the other daemons where the record is, on a host that knows none, or whose keepers have no majority: they may
// have changed while this host was away, or the record was made again without it. Now and then it asks anyway: somebody may have
// made another record in the back of this one.
func (k *keeping) findRecord(ctx context.Context) error {
	ours, seats := k.knownKeepers()
	knows := ours != "" && len(seats) > 0
	if knows && !k.record.Silent() && time.Since(k.around) < aroundEvery {
		return nil
	}
	k.around = time.Now()
	var newer []register.Seat
	stays := ""
	for _, t := range k.askWhere(ctx, k.others()) {
		switch {
		case t.err != nil || t.Record == "" || len(t.Keepers) == 0:
		case !knows:
			if _, err := k.keeper.Enrol(ctx, k.id(), t.Record, host.Mint); err != nil {
				return fmt.Errorf("host %s keeps record %s: %w", t.host, t.Record, err)
			}
			ours, knows, newer = t.Record, true, t.Keepers
		case t.Record == ours:
			newer = append(newer, t.Keepers...)
		default:
			why, err := k.goOver(ctx, t)
			if err != nil {
				return err
			}
			if why == "" {
				k.remember(t.Keepers, "")
				return nil
			}
			stays = why
		}
	}
	k.remember(newer, stays)
	if !knows {
		return errors.New("no other daemon tells this host where the record of the cluster is")
	}
	return nil
}

func (k *keeping) remember(heard []register.Seat, stays string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if stays != "" && stays != k.stays {
		k.log.Warn(stays, "see", "docs/operations/other-record.md")
	}
	k.heard, k.stays = heard, stays
}

// problems are what this host has to say of the record that it keeps.
func (k *keeping) problems() []cluster.Problem {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stays == "" {
		return nil
	}
	return []cluster.Problem{{Code: "other-record", Sentence: k.stays}}
}

// goOver has this host keep the record that another one keeps, which was made again from this host's, unless this host knows more
// or its member serves: then both go on, a person decides, and what is given says why.
func (k *keeping) goOver(ctx context.Context, t told) (stays string, err error) {
	because := func(why string) string {
		return fmt.Sprintf("host %s keeps another record of the cluster, %s, and this host stays with its own: %s", t.host, t.Record, why)
	}
	if t.Chosen == nil || t.Chosen.Doc == nil {
		return because("host " + string(t.host) + " does not know yet what that record says"), nil
	}
	state, err := k.keeper.State(ctx)
	if err != nil {
		return "", err
	}
	switch why := state.Follows(t.Chosen.Doc); {
	case why != "":
		return because(why), nil
	case !k.record.Silent():
		return because("a majority of the hosts that keep it answers"), nil
	case k.serves(ctx):
		return because("the member of this host reads through a quorum"), nil
	}
	if err := k.keeper.Follow(ctx, host.Mint, *t.Chosen); err != nil {
		return "", err
	}
	k.log.Warn("this host went over to the record that was made again after it was lost", "host", t.host, "record", t.Record, "before", state.Record)
	return "", nil
}

// again makes the record again on this host, if a majority of its keepers is gone, as a person says who names the lost.
func (k *keeping) again(ctx context.Context, r peer.AgainRequest) (peer.AgainReply, error) {
	if _, err := k.record.Decide(ctx); err == nil {
		return peer.AgainReply{}, nil
	}
	if !k.making.CompareAndSwap(false, true) {
		return peer.AgainReply{Refused: "this host is making the record again already"}, nil
	}
	defer k.making.Store(false)
	state, err := k.keeper.State(ctx)
	if err != nil {
		return peer.AgainReply{}, err
	}
	of := append(k.others(), r.Lost...)
	slices.Sort(of)
	var answers []register.Answer
	for _, t := range k.askWhere(ctx, slices.Compact(of)) {
		a := register.Answer{Host: t.host, Silent: t.err, Record: t.Record, Making: t.Making}
		if t.Newest != nil {
			a.Newest = *t.Newest
		}
		answers = append(answers, a)
	}
	base, refused := state.Base(answers, r.Lost)
	if refused != "" || r.DryRun {
		return peer.AgainReply{Host: k.id(), Refused: refused}, nil
	}
	doc, err := k.keeper.Again(ctx, host.Mint, base, r.Lost, control.OfCommand)
	if err != nil {
		return peer.AgainReply{}, err
	}
	k.log.Warn("the record of the cluster was made again: this host keeps it alone until others do", "record", doc.Record, "before", state.Record, "lost", r.Lost)
	return peer.AgainReply{Host: k.id()}, nil
}
