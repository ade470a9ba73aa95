package moving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

const (
	// lookEvery is how often a host with an offer looks whether its record was sealed, and one that has followed whether the
	// record is there.
	lookEvery = time.Second
	// storeEvery is how often a host with an offer looks into the store.
	storeEvery = 10 * time.Second
	// lookTimeout bounds a look.
	lookTimeout = 8 * time.Second
	// sayAfter is how long a host that has followed may fail to reach its place before that is said.
	sayAfter = time.Minute
	// offerLasts is how long an offer is kept of which nothing came: it has secrets.
	offerLasts = 24 * time.Hour
)

// ErrFollowed ends a daemon that has written down where the record is: it begins anew there, and leaves etcd running.
var ErrFollowed = errors.New("the control record is kept elsewhere now")

// Follower is one host's part in moves: it takes offers, and goes where its record was sealed to.
type Follower struct {
	File    *File
	Cluster string // its name
	Self    func() cluster.HostID
	// Record names the record that this host keeps, or kept; empty: it knows of none.
	Record func() string
	// Sealed is the last document of that record, where this host has heard that it is chosen; nil: it has not. It waits for nothing.
	Sealed func() *register.Entry
	// Keep has this host keep a sealed document as its record's last one, durably: it answers others with it, and brings it.
	Keep func(context.Context, register.Entry) error
	// Newest is the newest document that this host has; nil: none. Whether it is chosen it may not know.
	Newest func(context.Context) *register.Document
	// Read reads the record; Decide has it decided too.
	Read, Decide func(context.Context) (*register.Document, error)
	// Intent is the one that this host keeps; nil: none.
	Intent func(context.Context) (*cluster.Intent, error)
	// Open opens a store, with its variables and no others.
	Open func(context.Context, peer.Offer) (blob.Store, error)
	// There opens the place that this host has followed to as its process reaches it: by the place's variables, or a person's newer ones
	// where the settings name the very URL. Nil: as offered.
	There func(context.Context) (blob.Store, error)
	// Home is what a host has whose record is in a store; nil: the hosts keep it.
	Home *Homing
	Log  *slog.Logger

	taking sync.Mutex // held while an offer is looked at
	making bool       // the record is being made again here; guarded by taking
	void   struct {
		tag blob.ETag
		at  time.Time // when it was seen first
	} // what lies in the place of the claim, as a person asked; guarded by taking
	mu   sync.Mutex
	said string // why the host is held; guarded by mu
}

// Take answers an offer: the host opens the store by itself, finds the claim there and tries the store out. An offer that it took
// is durable.
func (f *Follower) Take(ctx context.Context, o peer.Offer) peer.OfferReply {
	f.taking.Lock()
	defer f.taking.Unlock()
	err := f.take(ctx, o)
	if err != nil {
		return peer.OfferReply{Refused: fmt.Sprintf("host %s: %v", f.Self(), err)}
	}
	var reply peer.OfferReply
	switch in, err := f.Intent(ctx); {
	case err != nil:
		return peer.OfferReply{Refused: fmt.Sprintf("host %s: %v", f.Self(), err)}
	case in != nil:
		reply.Generation, reply.Write = in.Generation, in.Write
	}
	return reply
}

func (f *Follower) take(ctx context.Context, o peer.Offer) error {
	if o.First != nil {
		return f.takeHome(ctx, o)
	}
	switch ours := f.Record(); {
	case f.Home != nil:
		return errors.New("its record is in a shared store")
	case f.making:
		return errors.New("the record is being made again there")
	case o.Name == "" || o.From == "" || o.URL == "":
		return errors.New("the offer is not whole")
	case ours == "":
		return errors.New("it does not know the record of the cluster yet: wait some seconds")
	case ours != o.From:
		return fmt.Errorf("it keeps the record %s, and %s is to be moved: see docs/operations/other-record.md", ours, o.From)
	}
	store, err := f.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	there, _, _, err := read(ctx, store)
	switch {
	case err != nil:
		return fmt.Errorf("read the store: %w", err)
	case there == nil || there.To != o.Name || there.From != o.From || there.Void:
		return fmt.Errorf("%w: it is not the store that the leading daemon has opened. A file:// store has to be one file system, mounted on every host", ErrNoClaim)
	}
	if err := Able(ctx, store); err != nil {
		return err
	}
	return f.File.take(Place{Offer: o, Taken: time.Now().UTC()})
}

// ErrUnable says that a store cannot do what a record needs of it.
var ErrUnable = errors.New("the store cannot keep the record of a cluster that moves to it")

// Able tries a store out: a record moves only to one that keeps conditions, and shows what was written and deleted.
func Able(ctx context.Context, store blob.Store) error {
	can, err := blob.Probe(ctx, store, control.Prefix)
	if err != nil {
		return fmt.Errorf("try the store out: %w", err)
	}
	if !can.Conditional || !can.List || !can.Delete {
		return fmt.Errorf("%w: %v", ErrUnable, can.Problems)
	}
	return nil
}

// Problems are what the host has to say of a record that went without it.
func (f *Follower) Problems() []cluster.Problem {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == "" {
		return nil
	}
	return []cluster.Problem{{Code: "record-moved", Sentence: f.said}}
}

func (f *Follower) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text != "" && text != f.said {
		f.Log.Warn(text, "see", "docs/operations/record-moved.md")
	}
	f.said = text
}

// Run goes where the record went. It ends with ErrFollowed once that is written down.
func (f *Follower) Run(ctx context.Context) error {
	if f == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	var looked, fails time.Time
	for began := f.File.Notes().Place; ; {
		now := f.File.Notes().Place
		if now != nil && (began == nil || began.Name != now.Name) {
			return ErrFollowed
		}
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		store := time.Since(looked) >= storeEvery
		if store {
			looked = time.Now()
		}
		switch err := f.Look(look, store); {
		case err == nil:
			fails = time.Time{}
		case ctx.Err() != nil:
		case fails.IsZero():
			fails = time.Now()
		case time.Since(fails) < sayAfter:
		case errors.Is(err, errStays):
			f.say(fmt.Sprintf("%v. It tries again each second", err))
		case now != nil && !now.InForce:
			f.say(fmt.Sprintf("the control record was moved to %s, and this host has not seen it there for %s: %v. To give newer credentials: name that store in the settings with them (ETCDADM_BACKUP_STORE), and restart the agent", shown(now.URL), sayAfter, err))
		}
		cancel()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Look looks once, into the offered store too if that is asked for.
func (f *Follower) Look(ctx context.Context, store bool) error {
	n := f.File.Notes()
	switch {
	case n.Place != nil && !n.Place.InForce && !n.Offer.AtHosts(): // of two, the offer is the later one
		return f.arrive(ctx, *n.Place)
	case f.Home != nil:
		return f.lookHome(ctx, n.Offer, store)
	case n.Offer != nil:
		return f.follow(ctx, *n.Offer, store)
	}
	last := f.Sealed()
	if last == nil {
		f.say("")
		return nil
	}
	f.held(last.Doc)
	return nil
}

// held says that the record went without this host.
func (f *Follower) held(doc *register.Document) {
	f.say(fmt.Sprintf("the control record of this cluster was moved to %s, and this host has no part in that: its disk is older, or was copied. It changes nothing until it joins anew: etcdadm reset --force here, then etcdadm join", doc.Moved.Store))
}

// follow goes on with an offer: the record is sealed to it, or the store counts already, which shows the same.
func (f *Follower) follow(ctx context.Context, o Place, look bool) error {
	doc, err := f.Read(ctx)
	last := f.Sealed() // also what was read just now
	if last != nil {
		doc, err = last.Doc, nil
	}
	switch {
	case last != nil && doc.Moved.To == o.Name:
		return f.goTo(ctx, o, last)
	case err == nil && doc.Moved != nil:
		f.held(doc)
		return nil
	case err == nil && time.Since(o.Taken) > offerLasts:
		// A seal that only some keepers have comes to nothing by that, so that the offer is not needed any more.
		if doc, err = f.Decide(ctx); err == nil && doc.Moved == nil {
			return f.File.drop(o.Name)
		}
	}
	if !look {
		return err
	}
	store, failed := f.Open(ctx, o.Offer)
	if failed != nil {
		return failed
	}
	switch p, failed := inForce(ctx, store, o.From); {
	case failed != nil:
		return failed
	case p == nil || p.Name != o.Name:
		return err
	}
	return f.goTo(ctx, o, nil)
}

// goTo has the host be where it was offered to be; Run ends with that. How its record ended is durable before: whoever lives in the next
// place never helps the one before to go on, and can bring it. Nil: that is not known, and the store counts already.
func (f *Follower) goTo(ctx context.Context, o Place, last *register.Entry) error {
	if last != nil {
		if err := f.Keep(ctx, *last); err != nil {
			return fmt.Errorf("%w to %s: %w", errStays, o.URL, err)
		}
	}
	if err := f.File.follow(o.Name, false); err != nil {
		return fmt.Errorf("%w to %s: %w", errStays, o.URL, err)
	}
	f.Log.Warn("the control record was moved, and this host follows", "store", o.URL)
	return nil
}

// arrive brings the record to where it was sealed to, unless somebody did, and notes that it is there.
func (f *Follower) arrive(ctx context.Context, p Place) error {
	store, err := f.there(ctx, p)
	if err != nil {
		return err
	}
	there, exists, _, err := read(ctx, store)
	switch {
	case err != nil:
		return err
	case there == nil && exists:
		return f.arrived(f.ours(ctx, store, p), p)
	}
	doc := f.Newest(ctx)
	if doc == nil || doc.Moved == nil || doc.Moved.To != p.Name {
		if doc, err = f.Read(ctx); err != nil {
			return err
		}
	}
	if doc.Moved == nil || doc.Moved.To != p.Name {
		return fmt.Errorf("the record %s is not sealed to this place, as far as this host can read", doc.Record)
	}
	return f.arrived(Finish(ctx, doc, f.Cluster, store), p)
}

func (f *Follower) there(ctx context.Context, p Place) (blob.Store, error) {
	if f.There != nil {
		return f.There(ctx)
	}
	return f.Open(ctx, p.Offer)
}

// ours tells why a record in the store is not the one that was moved there, nil if it is: as the store says, or by its history where that
// word is gone, as after the record was written there anew from what hosts remember.
func (f *Follower) ours(ctx context.Context, store blob.Store, p Place) error {
	is, err := which(ctx, store)
	switch {
	case err != nil || is != nil && is.Name == p.Name:
		return err
	case is != nil: // a record that was made again from this host's has its history too
		return fmt.Errorf("%w: it is place %s, and this host was sent to %s", ErrTaken, is.Name, p.Name)
	}
	in, _, _, err := control.New(store, f.Cluster).ReadIntent(ctx)
	if err != nil {
		return err
	}
	kept, err := f.Intent(ctx)
	if err == nil && (kept == nil || in.Adopted() || !in.Follows(kept) || !kept.Follows(in)) {
		err = fmt.Errorf("%w: it has the record of another cluster", ErrTaken)
	}
	return err
}

// arrived notes that the record is there, or says why it cannot be.
func (f *Follower) arrived(why error, p Place) error {
	switch {
	case errors.Is(why, ErrNoClaim), errors.Is(why, ErrTaken), errors.Is(why, ErrOther), errors.Is(why, control.ErrOtherCluster):
		f.say(fmt.Sprintf("the control record was moved to %s, and is not there: %v. A recovery with --lost may have called the move off: then etcdadm reset --force here, and join that cluster; else look at what lies in control/ there", p.URL, why))
		return why
	case why != nil:
		return why
	}
	if err := f.File.arrive(); err != nil {
		return err
	}
	f.say("")
	f.Log.Info("the control record is in the store that it was moved to")
	return nil
}

// Arrived tells whether the record was seen where this host is. Until then nothing of the store is a record, or its absence.
func (f *Follower) Arrived() bool {
	p := f.File.Notes().Place
	return p == nil || p.InForce
}

// inForce is the place that a store is in force as, after a record; nil: it is none.
func inForce(ctx context.Context, store blob.Store, from string) (*place, error) {
	there, exists, _, err := read(ctx, store)
	if err != nil || there != nil || !exists {
		return nil, err
	}
	p, err := which(ctx, store)
	if err != nil || p == nil || p.From != from {
		return nil, err
	}
	return p, nil
}

// BeforeAgain looks at an offer before the record is made again on this host: the move must not come true beside that. Until done is
// called no offer is taken. Refused says why the record may not be made again, "" if it may.
func (f *Follower) BeforeAgain(ctx context.Context, nonce string, dryRun bool) (done func(), refused string) {
	makes := func(is bool) {
		f.taking.Lock()
		defer f.taking.Unlock()
		f.making = is
	}
	makes(true)
	done = func() { makes(false) }
	o := f.File.Notes().Offer
	if o == nil || o.From != f.Record() {
		return done, ""
	}
	err := f.callOff(ctx, *o, nonce, dryRun)
	switch {
	case errors.Is(err, errCounts):
		return done, fmt.Sprintf("the record was moved to %s and is in force there: this host follows within seconds; then run the command again", o.URL)
	case err != nil:
		return done, fmt.Sprintf("a move to %s was under way, and whether it came true is not known (%v): bring that store back, and run the command again", o.URL, err)
	}
	return done, ""
}

var errCounts = errors.New("the store counts")

// callOff makes the claim of a move void.
func (f *Follower) callOff(ctx context.Context, o Place, nonce string, dryRun bool) error {
	store, err := f.Open(ctx, o.Offer)
	if err != nil {
		return err
	}
	if dryRun {
		p, err := inForce(ctx, store, o.From)
		if err == nil && p != nil {
			err = errCounts
		}
		return err
	}
	counts, err := Void(ctx, store, Claim{Nonce: nonce, Generation: 1, Cluster: f.Cluster, To: o.Name, From: o.From, Void: true})
	switch {
	case err != nil:
		return err
	case counts:
		return errCounts
	}
	return nil // the offer stays: should this host end now, and the record be sealed by the others, it goes on from that
}

// GoAnyway has the host follow a seal that it has, though it cannot know whether it was chosen, as a person says who names the others
// lost: if it was, the next place counts, and nothing else may. Refused says why it does not, "" if it does.
func (f *Follower) GoAnyway(ctx context.Context, last register.Entry, dryRun bool) (refused string) {
	doc := last.Doc
	o := f.File.Notes().Offer
	switch {
	case o == nil || o.Name != doc.Moved.To:
		return fmt.Sprintf("the record was moved to %s, and this host was not offered to follow: etcdadm reset --force here, and join the cluster there", doc.Moved.Store)
	case dryRun:
		return ""
	}
	if err := f.goTo(ctx, *o, &last); err != nil {
		return err.Error()
	}
	return ""
}
