// Package keeping is one host's part in keeping what a cluster without a shared store has: it answers other hosts for what this
// one keeps, finds the record and goes over to another, and, where its daemon leads, has the right hosts keep it.
package keeping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

const (
	// whereEvery is how often a host that does not know the record asks the others for it. In its first seconds it asks every
	// whereSoon, for soonFor at most: it joins a cluster, and somebody waits for that.
	whereEvery, whereSoon, soonFor = 2 * time.Second, 200 * time.Millisecond, 10 * time.Second
	// aroundEvery is how often a host asks the others whether they keep the same record.
	aroundEvery = time.Minute
	// keepersEvery is how often the leading daemon looks whether the right hosts keep the record.
	keepersEvery = 3 * time.Second
	// sayEvery is how often it is said that they are not.
	sayEvery = time.Minute
	// startGrace is how long after its start a daemon says nothing of that.
	startGrace = 5 * time.Second
	// unsureFor is how long a keeper waits for its disk to be confirmed before it says so: others call it within
	// seconds.
	unsureFor = 10 * time.Second
	// decideEvery is how often the leading daemon has the record decided anew while a keeper is missing.
	decideEvery = time.Minute
	// maxAsked bounds how many answers are gathered before the record is made again.
	maxAsked = 100
	// bootAsks bounds the question, before a member is started, which record there is; hosts that boot at the same moment are
	// asked again for as long.
	bootAsks, bootAsksAgain = 1500 * time.Millisecond, 250 * time.Millisecond
	// keeperTimeout bounds a question to another host about the record.
	keeperTimeout = 2 * time.Second
	// keepersTimeout bounds a look, and the change that comes of it.
	keepersTimeout = 15 * time.Second
)

// Options say what a host's part is made of. All but Rand are required.
type Options struct {
	Self    func() cluster.HostID
	Cluster string // its name
	// Contacts are all daemons that this one knows, itself too.
	Contacts func() []cluster.Contact
	// Seeds are the endpoints that this host was given: on an old disk it may know no others. Nil: none.
	Seeds func(context.Context) []string
	// To is the client for a daemon.
	To func(cluster.Contact) (kept.Client, error)
	// Leading tells whether this daemon leads.
	Leading func() bool
	// WentBack tells whether this disk is known to be older than what others remember of it: it has forgotten promises.
	WentBack func() bool
	// Sure tells whether this disk is known to have all that was written on it, and Unheard which voters' hosts have
	// not said yet what they remember of it.
	Sure    func() bool
	Unheard func() []cluster.HostID
	// Asked tells whether the others have been asked, since the daemon began, what they remember of this disk.
	Asked func() bool
	// Serves tells whether this host's member reads through raft, so that its cluster has a quorum; an error: that is not known. A member of
	// the generation of an intent does not count; nil: each does.
	Serves func(ctx context.Context, but *cluster.Intent) (bool, error)
	// Runs tells whether this host's member has answered a read through a quorum since its process was started.
	Runs func() bool
	// KeepIntent has this host keep an intent.
	KeepIntent func(context.Context, *cluster.Intent)
	// BeforeAgain looks, before the record is made again here, whether a move of it may come true beside that; Refused says so. Done ends
	// that. Anyway has this host follow the seal of a document instead, of which nobody may know that it was chosen. Nil: there are no moves.
	BeforeAgain func(ctx context.Context, nonce string, dryRun bool) (done func(), refused string)
	Anyway      func(ctx context.Context, last register.Entry, dryRun bool) (refused string)
	// Offered tells whether this host is about to follow its record to a place of this name. Nil: there are no moves.
	Offered func(to string) bool
	// Room tells why no backup is to be written to this host's disk, nil if it may.
	Room   func(context.Context) error
	Keeper *keeper.Keeper
	Own    blob.Store // this host's own disk: its copies of backups
	Mint   func() string
	Rand   func(time.Duration) time.Duration // as hosts.Options have it
	Log    *slog.Logger
}

// Part is this host's part. A nil one is of a host whose cluster has a shared store.
type Part struct {
	opt    Options
	record *hosts.Store
	store  *kept.Store
	folder *control.Folder
	making atomic.Bool                    // the record is being made again here
	sealed atomic.Pointer[register.Entry] // the record's last document, once it is known to be chosen

	around  time.Time // when all others were asked last which record they keep; of Run
	decided time.Time // when the record was decided anew last while a keeper is missing; of Run

	mu    sync.Mutex
	heard []register.Seat  // whom others named as keepers; guarded by mu
	stays string           // why this host does not go over to another host's record, "" if there is none; guarded by mu
	shown []cluster.HostID // who keeps the record, for people; guarded by mu, and never changed in place
	// unsure is since when this keeper does not answer, as its disk is not confirmed; zero: it does, or keeps nothing.
	// Guarded by mu.
	unsure time.Time
}

// New makes a host's part. It asks nobody yet.
func New(o Options) *Part {
	k := &Part{opt: o}
	k.record = hosts.New(hosts.Options{
		Known: k.knownKeepers, Say: k.sayToKeeper, Learned: k.learned, Unsure: k.mayPropose, Mint: o.Mint, Now: time.Now, Rand: o.Rand,
	})
	k.store = kept.New(kept.Options{
		Self: o.Self, Record: k.record, Own: o.Own,
		Hosts: func() (out []cluster.HostID) {
			for _, c := range o.Contacts() {
				out = append(out, c.Host)
			}
			return out
		},
		Voters: func() (out []cluster.HostID) {
			_, seats := k.knownKeepers()
			for _, s := range seats {
				if !slices.Contains(out, s.Host) {
					out = append(out, s.Host)
				}
			}
			return out
		},
		Room: o.Room,
		To:   k.clientOf,
	})
	k.folder = control.New(k.store, o.Cluster).Known()
	return k
}

// Store is all that the hosts keep.
func (k *Part) Store() blob.Store { return k.store }

// Folder is the control folder in it.
func (k *Part) Folder() *control.Folder { return k.folder }

// Record names the record that this host keeps, "" for none. It waits for nothing.
func (k *Part) Record() string { return k.opt.Keeper.Record() }

func (k *Part) clientOf(h cluster.HostID) (kept.Client, error) {
	contacts := k.opt.Contacts()
	i := slices.IndexFunc(contacts, func(c cluster.Contact) bool { return c.Host == h })
	if i < 0 {
		return nil, fmt.Errorf("the address of host %s is not known yet", h)
	}
	return k.opt.To(contacts[i])
}

// Keepers are the hosts that keep the record, as this one knew some seconds ago at most: the disk is not waited for.
func (k *Part) Keepers() []cluster.HostID {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown
}

// show notes for people who keeps the record.
func (k *Part) show(ctx context.Context) {
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return // none yet, or the disk does not answer
	}
	k.seal(&state.Chosen)
	var shown []cluster.HostID
	for _, s := range state.MayKeep() {
		shown = append(shown, s.Host)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shown = shown
}

func (k *Part) sayToKeeper(ctx context.Context, m register.Message) (register.Reply, error) {
	if m.To.Host == k.opt.Self() {
		return k.handle(ctx, m)
	}
	c, err := k.clientOf(m.To.Host)
	if err != nil {
		return register.Reply{}, err
	}
	reply, err := c.Keep(ctx, peer.KeepRequest{Message: &m})
	if err != nil {
		return register.Reply{}, err
	}
	if reply.Reply == nil {
		return register.Reply{}, errors.New("the daemon answered something else")
	}
	return *reply.Reply, nil
}

// Register is the record itself.
func (k *Part) Register() *hosts.Store { return k.record }

// Sealed is the last document of a record that was moved, once this host knows that it is chosen; nil: it does not. It waits for nothing.
func (k *Part) Sealed() *register.Entry { return k.sealed.Load() }

// Newest is the newest document that this host has, nil for none; whether it is chosen it may not know.
func (k *Part) Newest(ctx context.Context) *register.Document {
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return nil
	}
	return state.Newest().Doc
}

// seal takes note of a document that is known to be chosen, if it is the record's last one.
func (k *Part) seal(e *register.Entry) {
	if e != nil && e.Doc != nil && e.Doc.Moved != nil && e.Doc.Record == k.Record() {
		k.sealed.Store(e)
	}
}

// Last has this host keep a sealed document as the last one of its record, durably.
func (k *Part) Last(ctx context.Context, e register.Entry) error { return k.opt.Keeper.Last(ctx, e) }

// learned keeps what is chosen, beside whoever waits for it.
func (k *Part) learned(e register.Entry) {
	k.seal(&e)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
		defer cancel()
		_ = k.opt.Keeper.Learned(ctx, e) // it is only where to ask next time
	}()
}

// Run has this host know where the record is and, while it leads, the right hosts keep it. Nil: there is a shared store.
func (k *Part) Run(ctx context.Context) error {
	if k == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	var looked time.Time
	began := time.Now()
	said := time.Now().Add(startGrace - sayEvery) // nobody has been heard at first
	led := false
	for {
		look, cancel := context.WithTimeout(ctx, keepersTimeout)
		err := k.findRecord(look)
		every := whereEvery
		if err != nil && time.Since(began) < soonFor {
			every = whereSoon
		}
		leads := k.opt.Leading()
		if err == nil && leads && !led { // what a leader before left undecided does not come true later
			_, err = k.record.Decide(look)
			leads = err == nil
		}
		led = leads
		if err == nil && leads && time.Since(looked) >= keepersEvery {
			looked = time.Now()
			err = k.lookAfterRecord(look)
		}
		k.show(look)
		k.watchUnsure(look)
		cancel()
		if err != nil && ctx.Err() == nil && time.Since(said) >= sayEvery {
			k.opt.Log.Warn("the hosts that keep the cluster's record are not as they should be", "err", err)
			said = time.Now()
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAfterRecord has the right hosts keep it, and decides it anew while one of them is missing: what is decided without a keeper
// is above all that it knows, so should somebody make the record again from that, the others stay with theirs.
func (k *Part) lookAfterRecord(ctx context.Context) error {
	missing, err := k.lookAfterKeepers(ctx)
	switch {
	case !missing:
		k.decided = time.Time{}
	case time.Since(k.decided) >= decideEvery:
		k.decided = time.Now()
		_, failed := k.record.Decide(ctx)
		err = cmp.Or(err, failed)
	}
	return err
}

// lookAfterKeepers makes at most one change of who keeps the record, and tells whether one of them is missing.
func (k *Part) lookAfterKeepers(ctx context.Context) (missing bool, err error) {
	in, _, _, err := k.folder.ReadIntent(ctx)
	if err != nil || in == nil {
		return false, err
	}
	var voters []cluster.HostID
	for _, v := range in.Voters {
		if v.Host != "" {
			voters = append(voters, v.Host)
		}
	}
	doc, err := k.record.Document(ctx)
	if err != nil {
		return false, err
	}
	ready, refused := k.readyKeepers(ctx, doc, voters)
	missing = slices.ContainsFunc(doc.Keepers, func(s register.Seat) bool { return !slices.Contains(ready, s) })
	if in.State != cluster.IntentFounded {
		return missing, nil
	}
	change := register.Wanted(doc, voters, ready)
	if change == nil {
		return missing, refused
	}
	next, err := k.record.ChangeKeepers(ctx, change)
	if err != nil {
		return missing, err
	}
	var names []cluster.HostID
	for _, s := range next.Keepers {
		names = append(names, s.Host)
	}
	k.opt.Log.Info("the hosts that keep the cluster's record changed", "keepers", names)
	return missing, nil
}

// readyKeepers asks the hosts of voters and keepers for their seats.
func (k *Part) readyKeepers(ctx context.Context, doc *register.Document, voters []cluster.HostID) (ready []register.Seat, refused error) {
	ask := slices.Clone(voters)
	for _, s := range doc.Keepers {
		ask = append(ask, s.Host)
	}
	slices.Sort(ask)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, h := range slices.Compact(ask) {
		all.Go(func() {
			seat, err := k.enrol(ctx, h, doc.Record)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				ready = append(ready, seat)
			case slices.Contains(voters, h):
				refused = cmp.Or(refused, fmt.Errorf("host %s cannot keep it: %w", h, err))
			}
		})
	}
	all.Wait()
	slices.SortFunc(ready, func(a, b register.Seat) int { return slices.Index(ask, a.Host) - slices.Index(ask, b.Host) })
	return ready, refused
}

func (k *Part) enrol(ctx context.Context, h cluster.HostID, record string) (register.Seat, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	if h == k.opt.Self() {
		return k.enrolHere(ctx, record)
	}
	c, err := k.clientOf(h)
	if err != nil {
		return register.Seat{}, err
	}
	reply, err := c.Keep(ctx, peer.KeepRequest{Enrol: record})
	switch {
	case err != nil:
		return register.Seat{}, err
	case reply.Seat == nil:
		return register.Seat{}, errors.New("the daemon answered something else")
	}
	return *reply.Seat, nil
}
