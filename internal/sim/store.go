package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// storeView is the backup store as one daemon reaches it.
type storeView struct{ d *daemon }

func (s storeView) store() *memory.Store {
	if own := s.d.m.store.Load(); own != nil {
		return own
	}
	return s.d.w.store
}

var (
	errStoreDown = errors.New("503 service unavailable")
	errStoreLost = errors.New("connection lost before the answer")
)

// Objects of which every write is looked at.
const (
	intentKey = "control/etcd-cluster-created"
	specKey   = "control/etcd-cluster-spec"
	endedKey  = "control/etcdadm-commands-ended.json"
	wishFile  = "/_etcdadm_command.json"
)

// call carries one request to the store and back.
func (s storeView) call(ctx context.Context, op memory.Op, key string, f func(context.Context) error, late func()) error {
	d, w := s.d, s.d.w
	k, object, detail := kindStoreRead, key, ""
	switch op {
	case memory.Put:
		k = kindStorePut
	case memory.List, memory.Delete:
		key = string(op)
	}
	if k == kindStorePut {
		detail = key
	}
	if strings.Contains(key, blob.ProbePrefix) { // its name is random
		if k == kindStorePut {
			k, detail = kindStoreRead, ""
		}
		key = "probe"
	}
	dice := w.links.next("store " + string(k) + " " + key + " " + d.link)
	w.pause(ctx, dice.wait(), dice)
	if err := d.pass(k, detail, false); err != nil {
		return err
	}
	if !w.pause(ctx, dice.roll(1).within(time.Millisecond, 3*time.Millisecond)+time.Duration(w.storeTakes.Load()), dice) {
		return errStoreLost
	}
	if !w.cuts.open(stores, d.id, "") {
		if dice.roll(2).chance(0.5) {
			return errStoreDown
		}
		return s.silence(ctx, dice)
	}
	if w.refuses(d.id, op, object) {
		return errStoreDown
	}
	if c := w.chaosNow(); c != nil {
		switch {
		case dice.roll(3).chance(c.StoreError):
			return errStoreDown
		case k == kindStorePut && dice.roll(4).chance(c.StoreLate):
			// The write arrives when nobody waits for it any more.
			w.later(dice.roll(5).within(0, c.LateMost), func() { late() })
			return s.silence(ctx, dice)
		case dice.roll(6).chance(c.Slow) && !w.pause(ctx, dice.roll(7).within(0, c.SlowMost), dice):
			return errStoreLost
		}
	}
	t := w.tardy.Load()
	if t != nil && k == kindStorePut && !strings.HasSuffix(key, wishFile) && dice.roll(9).chance(t.Arrives) {
		w.later(dice.roll(10).within(0, t.Most), func() { late() })
		return s.silence(ctx, dice)
	}
	if !d.alive() {
		return errDead
	}
	err := f(ctx)
	if k == kindStorePut {
		w.step()
	}
	if t != nil && k == kindStorePut && dice.roll(11).chance(t.Answers) && !w.pause(ctx, dice.roll(12).within(0, t.Most), dice) {
		return errStoreLost
	}
	if dead := d.pass(k, detail, true); dead != nil {
		return dead
	}
	if c := w.chaosNow(); c != nil && err == nil && dice.roll(8).chance(c.StoreLost) {
		return errStoreLost
	}
	return err
}

// silence is a store that does not answer. Daemons give each call less time than the
// drivers do, and what a person runs does not.
func (s storeView) silence(ctx context.Context, call dice) error {
	if s.d.person && s.d.w.pause(ctx, stalled, call) {
		return errStoreLost
	}
	<-ctx.Done()
	s.d.w.interrupted(call)
	return ctx.Err()
}

// Get implements blob.Store.
func (s storeView) Get(ctx context.Context, key string, o blob.GetOptions) (out *blob.Object, err error) {
	err = s.call(ctx, memory.Get, key, func(ctx context.Context) error {
		out, err = s.store().Get(ctx, key, o)
		return err
	}, nil)
	return out, err
}

// Put implements blob.Store.
func (s storeView) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (tag blob.ETag, err error) {
	sent := time.Now()
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	put := func(ctx context.Context) (blob.ETag, error) {
		t, err := s.store().Put(ctx, key, bytes.NewReader(data), cond)
		if err == nil {
			s.d.w.tookEffect(s.d, key, data, sent)
		}
		return t, err
	}
	err = s.call(ctx, memory.Put, key, func(ctx context.Context) error {
		var err error
		tag, err = put(ctx)
		return err
	}, func() { _, _ = put(s.d.w.ctx) })
	return tag, err
}

// tookEffect notes what a daemon wrote, or a person through one, and when that was sent.
func (w *World) tookEffect(d *daemon, key string, data []byte, sent time.Time) {
	switch {
	case key == intentKey:
		w.wrote(d, data, sent)
	case key == specKey && d.person:
		w.personWroteSpec()
	case key == specKey:
		w.wroteSpec(d)
	case key == endedKey:
		w.wroteEnds(data)
	case strings.HasSuffix(key, wishFile):
		w.queuedByItself(d, key)
	}
}

// List implements blob.Store.
func (s storeView) List(ctx context.Context, prefix string) (out []blob.Info, err error) {
	err = s.call(ctx, memory.List, prefix, func(ctx context.Context) error {
		out, err = s.store().List(ctx, prefix)
		return err
	}, nil)
	return out, err
}

// Delete implements blob.Store.
func (s storeView) Delete(ctx context.Context, key string) error {
	return s.call(ctx, memory.Delete, key, func(ctx context.Context) error { return s.store().Delete(ctx, key) }, nil)
}

// wrote notes an intent that took effect in the store, and when its write was sent.
func (w *World) wrote(d *daemon, data []byte, sent time.Time) {
	var in cluster.Intent
	if err := json.Unmarshal(data, &in); err != nil {
		w.violate("%s wrote an intent that cannot be read: %v", d.id, err)
		return
	}
	if in.Adopted() {
		d.tracef("in the store is the marker of a cluster that something else founded")
		return
	}
	w.mu.Lock()
	before := w.intent
	w.intent = &in
	if in.Order(w.top) > 0 {
		w.top = &in
	}
	if w.written == nil {
		w.written = map[uint64]bool{}
	}
	w.written[contentOf(&in)] = true
	w.mu.Unlock()
	w.endsInRecord(data)
	if w.foreign.id != 0 && before == nil {
		w.checkAdopted(d, &in)
	}
	w.checkIntent(d, &in, before, sent)
	w.check.mu.Lock()
	for _, g := range in.History {
		if g.Closed {
			w.check.closed = append(w.check.closed, g.Cluster)
		}
	}
	w.check.mu.Unlock()
	d.tracef("intent in the store: generation %d write %d %s, voters %s, next %s", in.Generation, in.Write, in.State, names(in.Voters), names(in.Next))
}

func names(vs []cluster.Voter) string {
	var out []string
	for _, v := range vs {
		out = append(out, string(v.Host)+"="+v.Member.String())
	}
	return "[" + strings.Join(out, " ") + "]"
}
