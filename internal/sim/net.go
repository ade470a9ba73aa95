package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
)

// network is a daemon's manager.Network.
type network struct{ d *daemon }

var _ manager.Network = network{}

var (
	errRefused     = errors.New("connection refused")
	errReset       = errors.New("connection reset by peer")
	errOtherHost   = errors.New("another host answers there")
	errOtherRecord = errors.New("its control record is another one")
)

// Letter is a message as a schedule sees it, just before it is sent.
type Letter struct {
	Kind     kind
	From, To cluster.HostID
	Observe  *cluster.ObserveRequest
	Apply    *cluster.ApplyRequest
}

// Post is what a schedule does to a message.
type Post struct {
	Lose      bool
	LoseReply bool
	Delay     time.Duration // before it arrives
	Again     time.Duration // a second copy arrives so much after the first; zero: none
}

// fate is the way of one message.
type fate struct {
	Post
	there, back time.Duration
	dice        dice
}

func (w *World) fateOf(k kind, from, to string, l Letter) fate {
	d := w.links.next(string(k) + " " + from + ">" + to)
	f := fate{dice: d, there: d.roll(1).within(100*time.Microsecond, time.Millisecond), back: d.roll(2).within(100*time.Microsecond, time.Millisecond)}
	if c := w.chaosNow(); c != nil {
		f.Lose, f.LoseReply = d.roll(3).chance(c.Loss), d.roll(4).chance(c.Loss)
		if d.roll(5).chance(c.Slow) {
			f.Delay = d.roll(6).within(0, c.SlowMost)
		}
		if d.roll(7).chance(c.Duplicate) {
			f.Again = d.roll(8).within(time.Millisecond, c.LateMost)
		}
	}
	if p := w.post(l); p != nil {
		f.Post = *p
	}
	return f
}

type reply[R any] struct {
	value R
	err   error
}

// exchange carries a request to the machine at an endpoint and its answer back.
func exchange[R any](ctx context.Context, d *daemon, l Letter, endpoint, detail string, serve func(context.Context, *daemon) (R, error)) (R, error) {
	var zero R
	// Messages that are sent at once leave one after the other, so that the
	// points of a schedule have an order.
	send := d.w.links.next("send " + string(l.Kind) + " " + d.link + ">" + string(l.To) + "@" + endpoint)
	d.w.pause(d.ctx, send.wait(), send)
	if err := d.pass(l.Kind, detail, false); err != nil {
		return zero, err
	}
	if err := ctx.Err(); err != nil { // nothing is sent then
		return zero, fmt.Errorf("call %s at %s: %w", l.Kind, endpoint, err)
	}
	w := d.w
	to := w.at(endpoint)
	name := endpoint
	if to != nil {
		name = to.name
	}
	f := w.fateOf(l.Kind, d.link, string(l.To)+"@"+name, l)
	answer := make(chan reply[R], 1)
	budget := 10 * time.Second // without a deadline of its own
	if deadline, bounded := ctx.Deadline(); bounded {
		budget = time.Until(deadline) // it travels as a duration, as gRPC's does
	}
	from := d.id
	deliver := func(wait time.Duration, tell bool) {
		if !w.sleep(w.ctx, wait) || to == nil || f.Lose || !w.cuts.open(daemons, from, to.ID()) {
			return
		}
		var r reply[R]
		target := to.daemon.Load()
		w.event(to.ID(), "gets "+string(l.Kind), string(from))
		switch {
		case target == nil:
			r.err = errRefused
		case l.To != "" && to.ID() != l.To:
			r.err = errOtherHost
		case l.Kind != kindPing && d.m.refuses(to):
			r.err = errOtherRecord
		default:
			r = serveAt(target, budget, serve)
		}
		if !tell || f.LoseReply || !w.sleep(w.ctx, f.back) || !w.cuts.open(daemons, to.ID(), from) {
			return
		}
		answer <- r
	}
	w.loops.Go(func() { deliver(f.there+f.Delay, true) })
	if f.Again > 0 {
		w.loops.Go(func() { deliver(f.there+f.Delay+f.Again, false) })
	}
	var r reply[R]
	select {
	case r = <-answer:
	case <-ctx.Done():
		r.err = ctx.Err()
		w.interrupted(f.dice)
	case <-d.ctx.Done():
		r.err = d.ctx.Err()
		w.interrupted(f.dice)
	}
	if err := d.pass(l.Kind, detail, true); err != nil {
		return zero, err
	}
	if r.err != nil {
		return zero, fmt.Errorf("call %s at %s: %w", l.Kind, endpoint, r.err)
	}
	return r.value, nil
}

// serveAt runs the handler in the target; what is sent to a paused daemon
// waits for it to go on.
func serveAt[R any](target *daemon, budget time.Duration, serve func(context.Context, *daemon) (R, error)) (r reply[R]) {
	if !target.alive() {
		r.err = errReset
		return r
	}
	ctx, cancel := context.WithTimeout(target.ctx, budget)
	defer cancel()
	r.value, r.err = serve(ctx, target)
	if !target.lives() && !target.alive() {
		r.err = errReset
	}
	return r
}

// refuses: the records of two machines are two, as those of hosts between which the record was moved, or made again.
func (m *machine) refuses(other *machine) bool { return m.record.Load() != other.record.Load() }

// Ping implements manager.Network.
func (n network) Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) {
	r, err := exchange(ctx, n.d, Letter{Kind: kindPing, From: n.d.id}, endpoint, "", func(ctx context.Context, t *daemon) (cluster.Ping, error) {
		said := p
		said.Clock = p.Clock.Add(n.d.m.ahead(t.m))
		refused := n.d.m.refuses(t.m)
		if refused {
			said = said.Beat(errOtherRecord.Error())
		}
		r, err := t.manager.Ping(ctx, said)
		r.Clock = r.Clock.Add(t.m.ahead(n.d.m))
		if refused {
			r = r.Beat(errOtherRecord.Error())
		}
		return r, err
	})
	if err == nil && r.Refused != "" {
		err = errOtherRecord
	}
	return r, err
}

// Observe implements manager.Network.
func (n network) Observe(ctx context.Context, to cluster.Contact, q cluster.ObserveRequest) (cluster.ObserveReply, error) {
	l := Letter{Kind: kindObserve, From: n.d.id, To: to.Host, Observe: &q}
	return exchange(ctx, n.d, l, to.Endpoint, string(to.Host), func(ctx context.Context, t *daemon) (cluster.ObserveReply, error) {
		r := t.host.Observe(ctx, q)
		t.w.checkPromise(t, q, r)
		if r.State != nil {
			t.m.told(r.State, n.d.m)
		}
		return r, nil
	})
}

// Apply implements manager.Network.
func (n network) Apply(ctx context.Context, to cluster.Contact, q cluster.ApplyRequest) (cluster.ApplyReply, error) {
	l := Letter{Kind: kindApply, From: n.d.id, To: to.Host, Apply: &q}
	return exchange(ctx, n.d, l, to.Endpoint, string(to.Host)+": "+q.Op.String(), func(ctx context.Context, t *daemon) (cluster.ApplyReply, error) {
		return t.w.carriedOut(t.m, q, func() cluster.ApplyReply { return t.host.Apply(ctx, q) }), nil
	})
}

// Goal implements manager.Network.
func (n network) Goal(ctx context.Context, to cluster.Contact, wish json.RawMessage) (json.RawMessage, error) {
	return exchange(ctx, n.d, Letter{Kind: kindGoal, From: n.d.id, To: to.Host}, to.Endpoint, "", func(ctx context.Context, t *daemon) (json.RawMessage, error) {
		return t.manager.HandleGoal(ctx, wish)
	})
}
