package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// Three hosts by the code that ships, their disks and a store in memory. At a write of a schedule's choice the process that makes it
// ends, before the write or after it, and begins anew some seconds later.
type world struct {
	t     *testing.T
	store blob.Store
	names atomic.Uint64
	dice  sync.Mutex
	begun bool             // in the store, not at the hosts
	leads []cluster.HostID // who takes itself for the leader

	mu      sync.Mutex
	all     map[cluster.HostID]*machine
	writes  int
	crashAt int
	after   bool
	crashed cluster.HostID
	revoked cluster.HostID              // is refused by the store once it followed
	newer   cluster.HostID              // has newer credentials of its own
	misses  cluster.HostID              // does not hear that it is to accept a seal
	others  map[string]blob.Store       // other stores than store, by their URLs
	wraps   func(blob.Store) blob.Store // what one that is new is reached through
	loses   func() bool                 // a call between two hosts, or its answer; nil: none
	full    error                       // why no host can take up a record; nil: each can
}

type machine struct {
	id    cluster.HostID
	files map[string][]byte
	life  *life
}

// life is a daemon on a machine, from its start to its crash.
type life struct {
	w      *world
	at     *machine
	ctx    context.Context //nolint:containedctx // its end is the life's
	end    context.CancelFunc
	keeper *keeper.Keeper
	record *hosts.Store
	sealed atomic.Pointer[register.Entry]
	*Follower
	mover *Mover
}

var errDead = errors.New("the process has ended")

// write makes a write of a life, and may be its last one.
func (l *life) write(do func() error) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.at.life != l {
		return errDead
	}
	l.w.writes++
	if l.w.writes != l.w.crashAt {
		return do()
	}
	if l.w.after {
		_ = do()
	}
	l.w.crashed, l.at.life = l.at.id, nil
	l.end()
	return errDead
}

func (l *life) alive() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.at.life != l {
		return errDead
	}
	return nil
}

// disk is what a life has of its machine's disk.
type disk struct{ l *life }

func (d disk) Read(path string) ([]byte, error) {
	d.l.w.mu.Lock()
	defer d.l.w.mu.Unlock()
	data, ok := d.l.at.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

func (d disk) Replace(path string, data []byte) error {
	return d.l.write(func() error {
		d.l.at.files[path] = data
		return nil
	})
}

// noteDisk is the same for the notes.
type noteDisk struct{ disk }

func (d noteDisk) Replace(path string, data []byte, _ fs.FileMode) error {
	return d.disk.Replace(path, data)
}

// reached is the store as a life reaches it.
type reached struct {
	blob.Store
	l *life
}

func (r reached) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := r.l.alive(); err != nil {
		return nil, err
	}
	return r.Store.Get(ctx, key, o)
}

func (r reached) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (tag blob.ETag, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	if err := blob.Still(ctx); err != nil {
		return "", err
	}
	ctx = blob.While(ctx, func() error { return nil }) // it was asked
	err = r.l.write(func() (err error) {
		tag, err = r.Store.Put(ctx, key, bytes.NewReader(data), c)
		return err
	})
	return tag, err
}

// at is the store of a URL.
func (w *world) at(url string) blob.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wraps == nil || url == "" || url == theFolder {
		return w.store
	}
	if w.others[url] == nil {
		if w.others == nil {
			w.others = map[string]blob.Store{}
		}
		w.others[url] = w.wraps(memory.New())
	}
	return w.others[url]
}

// theFolder is the URL of the first store.
const theFolder = "s3://bucket/folder"

func (w *world) lost() bool { return w.loses != nil && w.loses() }

// start begins a daemon on a machine.
func (w *world) start(id cluster.HostID) *life {
	w.t.Helper()
	m := w.all[id]
	ctx, end := context.WithCancel(w.t.Context())
	l := &life{w: w, at: m, ctx: ctx, end: end}
	w.mu.Lock()
	var notes Notes
	if data, ok := m.files[FileName]; ok {
		if err := json.Unmarshal(data, &notes); err != nil {
			w.t.Error(err)
		}
	}
	w.mu.Unlock()
	var err error
	if l.keeper, err = keeper.OpenOn("", disk{l}); err != nil {
		w.t.Error(err)
	}
	l.record = hosts.New(hosts.Options{
		Known: func() (string, []register.Seat) {
			state, err := l.keeper.State(ctx)
			if err != nil {
				return "", nil
			}
			return state.Record, state.Keepers()
		},
		Say: func(ctx context.Context, m register.Message) (register.Reply, error) {
			if err := l.alive(); err != nil {
				return register.Reply{}, err
			}
			to, err := w.living(m.To.Host)
			if err != nil {
				return register.Reply{}, err
			}
			if m.Kind == register.Accept && m.Entry.Doc.Moved != nil && m.To.Host == w.misses || w.lost() {
				return register.Reply{}, errDead
			}
			reply, err := to.keeper.Handle(ctx, m)
			if w.lost() {
				return register.Reply{}, errDead
			}
			return reply, err
		},
		Learned: func(e register.Entry) {
			if e.Doc.Moved != nil {
				l.sealed.Store(&e)
			}
		},
		Mint: w.mint, Now: time.Now,
	})
	open := func(_ context.Context, o peer.Offer) (blob.Store, error) {
		store := w.at(o.URL)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.revoked == id && notes.Place != nil {
			return nil, errors.New("forbidden")
		}
		return reached{store, l}, nil
	}
	there := func(ctx context.Context) (blob.Store, error) {
		w.mu.Lock()
		newer := w.newer == id
		w.mu.Unlock()
		if newer {
			return reached{w.store, l}, nil
		}
		o := peer.Offer{}
		if p := l.File.Notes().Place; p != nil {
			o = p.Offer
		}
		return open(ctx, o)
	}
	file := &File{path: FileName, on: noteDisk{disk{l}}, notes: notes}
	l.Follower = &Follower{
		There: there,
		File:  file, Cluster: "c", Self: func() cluster.HostID { return id }, Record: l.keeper.Record, Sealed: l.sealed.Load, Keep: l.keeper.Last, Open: open,
		Newest: func(ctx context.Context) *register.Document {
			state, err := l.keeper.State(ctx)
			if err != nil {
				return nil
			}
			return state.Newest().Doc
		},
		Read: l.record.Document, Decide: l.record.Decide,
		Intent: func(context.Context) (*cluster.Intent, error) {
			return &cluster.Intent{Name: "c", Generation: 2, Nonce: "n", Token: "t", Write: 7}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	}
	l.mover = &Mover{
		Cluster: "c", Record: l.record, Leads: l.alive, Open: open, Followed: file.Followed,
		Hosts: func() []cluster.HostID { return []cluster.HostID{"a", "b", "c"} },
		Offer: func(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
			to, err := w.living(h)
			if err != nil {
				return peer.OfferReply{}, err
			}
			if w.lost() {
				return peer.OfferReply{}, errDead
			}
			reply := to.Take(ctx, o)
			if w.lost() {
				return peer.OfferReply{}, errDead
			}
			return reply, nil
		},
	}
	if p := notes.Place; p == nil && w.begun || p != nil && !p.AtHosts() {
		url := ""
		if p != nil {
			url = p.URL
		}
		l.homes(reached{w.at(url), l})
	}
	w.mu.Lock()
	m.life = l
	w.mu.Unlock()
	go func() {
		if errors.Is(l.Run(ctx), ErrFollowed) && l.alive() == nil {
			w.start(id)
		}
	}()
	return l
}

func (w *world) mint() string { return fmt.Sprintf("n%d", w.names.Add(1)) }

func (w *world) living(id cluster.HostID) (*life, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.all[id]; m != nil && m.life != nil {
		return m.life, nil
	}
	return nil, errDead
}

// newWorld has three hosts that keep a record.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), all: map[cluster.HostID]*machine{}}
	in, err := json.Marshal(cluster.Intent{Name: "c", Generation: 2, Nonce: "n", Token: "t", Write: 7, State: cluster.IntentFounded})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		w.all[h] = &machine{id: h, files: map[string][]byte{}}
	}
	a := w.start("a")
	if _, err := a.keeper.Found(t.Context(), "a", w.mint, map[string]register.Object{
		control.KeyIntent: {Tag: "1", Data: in}, keySpec: {Tag: "2", Data: []byte("0")},
	}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []cluster.HostID{"b", "c"} {
		seat, err := w.start(h).keeper.Enrol(t.Context(), h, a.keeper.Record(), w.mint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.record.ChangeKeepers(t.Context(), func(base *register.Document) (*register.Document, error) { return base.WithKeeper(seat) }); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	w.mu.Lock()
	w.writes = 0
	w.mu.Unlock()
	return w
}

// end ends all daemons.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.all {
		if m.life != nil {
			m.life.end()
		}
	}
}

// settled tells whether all hosts are where the store is in force.
func (w *world) settled() bool {
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		l, err := w.living(h)
		if err != nil {
			return false
		}
		if p := l.File.Notes().Place; p == nil || !p.InForce {
			return false
		}
	}
	return true
}

// A daemon ends at each write of a move, before it and after it. In the end one place counts, all hosts are there, and what was confirmed
// to a writer is there; and where the move came to nothing, the next one comes through.
func TestCrashAtEachWrite(t *testing.T) {
	ends := map[string]int{}
	for at := 1; ; at++ {
		reached := false
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				end, crashed := crashAt(t, at, after)
				ends[end]++
				reached = reached || crashed
			})
			if t.Failed() {
				t.Fatalf("write %d, after it: %v", at, after)
			}
		}
		if !reached {
			break
		}
	}
	t.Log(ends)
	for _, end := range []string{"by the first move", "by the second"} {
		if ends[end] < 3 {
			t.Errorf("%s: %d times", end, ends[end])
		}
	}
}

func crashAt(t *testing.T, at int, after bool) (end string, crashed bool) {
	t.Helper()
	w := newWorld(t)
	w.mu.Lock()
	w.crashAt, w.after = at, after
	w.mu.Unlock()
	wrote := make(chan int, 1)
	go func() { wrote <- w.writer("b") }()
	l, _ := w.living("a")
	end = "by the first move"
	err := l.mover.Move(t.Context(), peer.MoveRequest{Name: w.mint(), URL: "s3://bucket/folder"})
	w.mu.Lock()
	dead := w.crashed
	w.crashAt = 0
	w.mu.Unlock()
	if dead != "" {
		time.Sleep(5 * time.Second)
		w.start(dead)
	}
	for i := 0; !w.settled() && i < 60; i++ {
		time.Sleep(time.Second)
	}
	if !w.settled() {
		end = "by the second"
		l, _ := w.living("a")
		if doc, failed := l.record.Decide(t.Context()); failed != nil || doc.Moved != nil {
			t.Errorf("the first move ended with %v, and the hosts did not follow: %+v %v", err, doc, failed)
			return end, true
		}
		if err := l.mover.Move(t.Context(), peer.MoveRequest{Name: w.mint(), URL: "s3://bucket/folder"}); err != nil {
			t.Errorf("again: %v", err)
			return end, true
		}
		for i := 0; !w.settled() && i < 60; i++ {
			time.Sleep(time.Second)
		}
	}
	if !w.settled() {
		t.Error("not all hosts are where the record is")
	}
	w.check(<-wrote)
	w.end()
	return end, dead != ""
}

// writer writes the spec through a host until the record has moved, and gives the last one that was confirmed.
func (w *world) writer(at cluster.HostID) int {
	confirmed := 0
	for n := 1; ; n++ {
		time.Sleep(100 * time.Millisecond)
		l, err := w.living(at)
		if err != nil {
			continue
		}
		_, err = blob.PutBytes(w.t.Context(), l.record, keySpec, fmt.Appendf(nil, "%d", n), blob.Any)
		switch {
		case err == nil:
			confirmed = n
		case errors.Is(err, register.ErrMoved), w.t.Context().Err() != nil:
			return confirmed
		}
	}
}

func (w *world) check(confirmed int) {
	w.t.Helper()
	in, _, _, err := control.New(w.store, "c").ReadIntent(w.t.Context())
	if err != nil || in == nil || in.Write != 8 {
		w.t.Errorf("%+v %v", in, err)
	}
	data, _, err := blob.ReadAll(w.t.Context(), w.store, keySpec, maxObject)
	var there int
	if _, failed := fmt.Sscan(string(data), &there); err != nil || failed != nil || there < confirmed {
		w.t.Errorf("the spec is %q (%v), and %d was confirmed", data, err, confirmed)
	}
}
