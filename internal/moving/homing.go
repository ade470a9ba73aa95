package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
	"etcdadm.io/internal/wake"
)

// thawAfter is how long a freeze may last that the leading daemon sees.
const thawAfter = 30 * time.Second

// nameEvery is how often the name of a store is looked for.
const nameEvery = time.Minute

// goingLook is how often who goes home looks whether another one of this host has.
const goingLook = 100 * time.Millisecond

// bootLook bounds the look into the store before a member is started.
const bootLook = 1500 * time.Millisecond

// Homing is what a host has, whose record is in a store, to follow it to the hosts.
type Homing struct {
	Store func() blob.Store
	URL   string // the store's, without parameters
	// Begin has this host keep a record from its first document on; as another keeper where the disk may have forgotten what it promised.
	Begin func(ctx context.Context, first *register.Document, forgot bool) error
	// Leads is why this daemon does not lead, nil if it does.
	Leads func() error
	// Refuses is why this host cannot keep a record, "" if it can.
	Refuses func(context.Context) string
	// Counts asks whether another host keeps a record, or one that was made again from it.
	Counts func(ctx context.Context, record string) bool
	going  atomic.Bool            // this host follows
	heard  atomic.Pointer[string] // the record that another host named, which is not where this one is
	left   atomic.Pointer[string] // the record that the store was sealed to, without this host
	name   atomic.Pointer[string] // the place that this host is at; nil: it has no name, or that was not read
	named  time.Time              // when its name was looked at last; of Run
	frozen string                 // the nonce of the freeze that was seen last; of Run
	since  time.Time              // when it was seen first; of Run
}

// Heard takes note of the record that another host names in a call, which is not where this one is: nobody names one that does not count.
func (h *Homing) Heard(record string) {
	if h != nil && record != "" {
		h.heard.Store(&record)
	}
}

// Left names what this host is left at, "" if it is where the record is. In its calls it tells that apart.
func (h *Homing) Left() string {
	if h == nil {
		return ""
	}
	if at := h.left.Load(); at != nil {
		return "left:" + *at
	}
	return ""
}

// takeHome takes an offer of a record that the hosts are to keep.
func (f *Follower) takeHome(ctx context.Context, o peer.Offer) error {
	switch {
	case f.Home == nil:
		return errors.New("it keeps the record itself already")
	case o.Name == "" || o.From == "" || o.URL != HostsURL || o.First.Record != o.Name:
		return errors.New("the offer is not whole")
	}
	if why := f.Home.Refuses(ctx); why != "" {
		return errors.New(why)
	}
	l, _, err := readLeaving(ctx, f.Home.Store())
	switch {
	case err != nil:
		return fmt.Errorf("read the store: %w", err)
	case l == nil || l.Moved || l.Moving != o.Name || l.Nonce != o.From:
		return errors.New("it does not find the store frozen for this move: it has another store")
	}
	return f.File.take(Place{Offer: o, Taken: time.Now().UTC()})
}

// IsLeft looks whether the store is sealed, and this host has no part in that: its calls name it so from its first one on.
func (f *Follower) IsLeft(ctx context.Context, store blob.Store) {
	if f.Home == nil {
		return
	}
	l, _, err := readLeaving(ctx, store)
	if o := f.File.Notes().Offer; err == nil && l != nil && l.Moved && !(o.AtHosts() && o.Name == l.Moving) {
		f.Home.left.Store(&l.Moving)
	}
}

// LeftTo is asked after a boot, before the member is started: the record that the store was left for, or may have been while it is silent
// or not read again, "" for none. What this host keeps may be of a generation that is closed there.
func (f *Follower) LeftTo(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, bootLook)
	defer cancel()
	l, _, err := readLeaving(ctx, f.Home.Store())
	if err == nil && l != nil && l.Moved {
		return l.Moving
	}
	if o := f.File.Notes().Offer; o.AtHosts() { // whoever keeps that record knows that it counts
		return o.Name
	}
	return ""
}

// counts tells whether another host has told that a record counts: it names that, or another one, and then those are asked who keep it.
func (h *Homing) counts(ctx context.Context, record string) bool {
	at := h.heard.Load()
	return at != nil && (*at == record || h.Counts(ctx, record))
}

// lookHome looks whether the record has left the store. While nothing was offered it looks now and then only.
func (f *Follower) lookHome(ctx context.Context, o *Place, nowAndThen bool) error {
	if o.AtHosts() {
		if f.Home.counts(ctx, o.Name) {
			return f.goHome(ctx, *o)
		}
	} else if !nowAndThen {
		return nil
	}
	l, _, err := readLeaving(ctx, f.Home.Store())
	if err == nil && l == nil && time.Since(f.Home.named) >= nameEvery {
		f.Home.named = time.Now()
		_ = f.keepName(ctx, f.Home.Store()) // it is tried again, and hinders nothing here
	}
	switch {
	case err != nil:
		return err
	case l == nil && o.AtHosts() && time.Since(o.Taken) > offerLasts && f.thawed(ctx, *o):
		return f.File.drop(o.Name)
	case l == nil:
		return nil
	case l.Moved && o.AtHosts() && o.Name == l.Moving:
		return f.goHome(ctx, *o)
	case l.Moved:
		f.Home.left.Store(&l.Moving)
		f.say("the control record of this cluster was moved from this store to the hosts, and this host has no part in that: its disk is new or older, or was copied. It changes nothing until it joins anew: etcdadm reset --force here, then etcdadm join")
		return nil
	}
	return f.thaw(ctx, l.Nonce)
}

// thawed tells whether the store has a record of after the freeze that an offer came with. A store that was emptied, went back or was
// replaced by a copy shows none, or one of before, and the seal may have come to be.
func (f *Follower) thawed(ctx context.Context, o Place) bool {
	var offered cluster.Intent // counted once more, as a thaw does
	if err := json.Unmarshal(o.First.Objects[control.KeyIntent].Data, &offered); err != nil {
		return false
	}
	in, _, _, err := control.New(f.Home.Store(), f.Cluster).ReadIntent(ctx)
	return err == nil && in.Order(&offered) >= 0
}

// thaw ends the freeze of a mover that is gone, where this daemon leads.
func (f *Follower) thaw(ctx context.Context, nonce string) error {
	h := f.Home
	switch {
	case h.Leads() != nil:
		h.frozen = ""
		return nil
	case h.frozen != nonce:
		h.frozen, h.since = nonce, time.Now()
		return nil
	case time.Since(h.since) < thawAfter:
		return nil
	}
	f.Log.Warn("the store was frozen for a move that nobody goes on with: the record stays there")
	_, err := Thaw(ctx, h.Store(), nonce)
	if errors.Is(err, blob.ErrPreconditionFailed) { // somebody went on
		return nil
	}
	return err
}

// errStays says that the record is elsewhere, and that this host cannot go there.
var errStays = errors.New("this host does not follow the control record")

// GoHome has this host follow an offer of the hosts' record that counts now.
func (f *Follower) GoHome(name string) error {
	o := f.File.Notes().Offer
	if !o.AtHosts() || o.Name != name { // it followed by its own look, or was offered another move
		return f.File.follow(name, true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	return f.goHome(ctx, *o)
}

// goHome has this host keep the record, and be there. Nothing of a follower runs before the others were asked what they remember of this
// disk: it may have been there, and be older now.
func (f *Follower) goHome(ctx context.Context, o Place) error {
	for !f.Home.going.CompareAndSwap(false, true) {
		if !wake.After(ctx, goingLook) {
			return ctx.Err()
		}
	}
	defer f.Home.going.Store(false)
	if now := f.File.Notes().Offer; now == nil || now.Name != o.Name { // the mover and the look are both on their way
		return f.File.follow(o.Name, true)
	}
	if err := f.Home.Begin(ctx, o.First, o.Forgot); err != nil {
		return fmt.Errorf("%w to the hosts: %w", errStays, err)
	}
	if err := f.File.follow(o.Name, true); err != nil {
		return fmt.Errorf("%w to the hosts: %w", errStays, err)
	}
	f.Log.Warn("the control record was moved to the hosts, and this host follows")
	return nil
}
