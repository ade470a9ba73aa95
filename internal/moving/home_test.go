package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

const keyRecord = control.Prefix + "etcdadm-record.json"

// homes has a life follow the record from the store to the hosts.
func (l *life) homes(store blob.Store) {
	l.Home = &Homing{
		Store: func() blob.Store { return store },
		Begin: func(ctx context.Context, first *register.Document, forgot bool) error {
			l.w.mu.Lock()
			full := l.w.full
			l.w.mu.Unlock()
			if full != nil {
				return full
			}
			return l.keeper.Begin(ctx, l.at.id, forgot, l.w.mint, first)
		},
		Leads: func() error {
			if !slices.Contains(l.w.leads, l.at.id) {
				return errors.New("another host leads")
			}
			return l.alive()
		},
		Refuses: func(context.Context) string { return "" },
		Counts:  func(context.Context, string) bool { return false },
	}
	l.mover.Store, l.mover.Mint, l.mover.Followed = l.Home.Store, l.w.mint, l.GoHome
}

// newStoreWorld has three hosts with a record in a store. Host a leads.
func newStoreWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, &world{store: memory.New(), leads: []cluster.HostID{"a"}})
}

func newWorldIn(t *testing.T, w *world) *world {
	t.Helper()
	w.t, w.all, w.begun = t, map[cluster.HostID]*machine{}, true
	in := cluster.Intent{Name: "c", Generation: 2, Nonce: "n", Token: "t", Write: 7, State: cluster.IntentFounded}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		in.Voters = append(in.Voters, cluster.Voter{Host: h})
		w.all[h] = &machine{id: h, files: map[string][]byte{}}
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range map[string][]byte{control.KeyIntent: data, keySpec: []byte("0"), keyRecord: []byte(`{}`)} {
		if _, err := blob.PutBytes(t.Context(), w.store, key, data, blob.Any); err != nil {
			t.Fatal(err)
		}
	}
	for h := range w.all {
		w.start(h)
	}
	return w
}

// atHome tells whether all hosts are where they keep the record.
func (w *world) atHome() bool {
	for h := range w.all {
		l, err := w.living(h)
		if err != nil || !l.File.Notes().Place.AtHosts() {
			return false
		}
	}
	return true
}

// person writes the spec into the store, looks at the marker afterwards as control.Folder does, and gives the last one that was confirmed.
// On is whether it goes on where host b is, as far as it has heard.
func (w *world) person(stop chan struct{}, on bool) (confirmed int) {
	store := w.store
	for n := 1; ; n++ {
		select {
		case <-stop:
			return confirmed
		case <-time.After(100 * time.Millisecond):
		}
		b, err := w.living("b")
		if err == nil && on && b.Home != nil && b.Arrived() {
			if p := b.File.Notes().Place; p != nil && !p.AtHosts() {
				store = w.at(p.URL)
			}
		}
		if err == nil && on && b.Home == nil {
			ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
			if _, err := blob.PutBytes(ctx, b.record, keySpec, fmt.Append(nil, n), blob.Any); err == nil {
				confirmed = n
			}
			cancel()
			continue
		}
		if _, err := blob.PutBytes(w.t.Context(), store, keySpec, fmt.Append(nil, n), blob.Any); err != nil {
			continue
		}
		switch l, tag, err := readLeaving(w.t.Context(), store); {
		case err == nil && l == nil && tag != "":
			confirmed = n
		case err == nil && l.Moved && !on:
			<-stop
			return confirmed
		}
	}
}

// home looks whether the record that the hosts keep has what was confirmed.
func (w *world) checkHome(confirmed int) {
	w.t.Helper()
	l, err := w.living("b")
	if err != nil {
		w.t.Fatal(err)
	}
	doc, err := l.record.Decide(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var in cluster.Intent
	var spec int
	_, failed := fmt.Sscan(string(doc.Objects[keySpec].Data), &spec)
	if err := json.Unmarshal(doc.Objects[control.KeyIntent].Data, &in); err != nil || in.Write < 8 || failed != nil || spec < confirmed {
		w.t.Errorf("%+v %v, spec %d of %d (%v)", in, err, spec, confirmed, failed)
	}
	if _, ok := doc.Objects[keyRecord]; !ok {
		w.t.Error("how far the cluster was is not known any more")
	}
	if there, _, err := readLeaving(w.t.Context(), w.store); err != nil || there == nil || !there.Moved {
		w.t.Errorf("the store shows %+v %v", there, err)
	}
}

// A daemon ends at each write of a move to the hosts, before it and after it. In the end one place counts, with what was confirmed to a
// person; where the move came to nothing the store is thawed, and the next one comes through.
func TestCrashAtEachWriteHome(t *testing.T) {
	ends := map[string]int{}
	for at := 1; ; at++ {
		reached := false
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				end, crashed := crashHome(t, at, after)
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

func crashHome(t *testing.T, at int, after bool) (end string, crashed bool) {
	t.Helper()
	w := newStoreWorld(t)
	defer w.end()
	w.mu.Lock()
	w.writes, w.crashAt, w.after = 0, at, after
	w.mu.Unlock()
	wrote, stop := make(chan int, 1), make(chan struct{})
	go func() { wrote <- w.person(stop, false) }()
	time.Sleep(100 * time.Millisecond)
	l, err := w.living("a")
	if err == nil {
		_ = l.mover.Home(l.ctx, peer.MoveRequest{Name: w.mint(), Hosts: true})
	}
	time.Sleep(3 * time.Second)
	w.mu.Lock()
	dead := w.crashed
	w.crashAt = 0
	w.mu.Unlock()
	if dead != "" {
		time.Sleep(2 * time.Second)
		w.start(dead)
	}
	end = "by the first move"
	time.Sleep(2 * time.Minute)
	if !w.atHome() {
		end = "by the second"
		if there, _, err := readLeaving(t.Context(), w.store); err != nil || there != nil {
			t.Errorf("the store stays as %+v %v", there, err)
		}
		l, _ := w.living("a")
		if err := l.mover.Home(t.Context(), peer.MoveRequest{Name: w.mint(), Hosts: true}); err != nil {
			t.Errorf("again: %v", err)
		}
		time.Sleep(time.Minute)
	}
	close(stop)
	if !w.atHome() {
		t.Error("not all hosts are where the record is")
		return end, true
	}
	w.checkHome(<-wrote)
	return end, dead != ""
}

// A store that is thawed takes no freeze and no seal of before.
func TestThaw(t *testing.T) {
	ctx := t.Context()
	store := memory.New()
	in := []byte(`{"name":"c","generation":2,"nonce":"n","token":"t","write":7,"state":"founded"}`)
	tag, err := blob.PutBytes(ctx, store, control.KeyIntent, in, blob.IfAbsent)
	if err != nil {
		t.Fatal(err)
	}
	l := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Intent: in}
	frozen, err := l.put(ctx, store, tag)
	if err != nil {
		t.Fatal(err)
	}
	if read, _, _, err := control.New(store, "c").ReadIntent(ctx); !errors.Is(err, control.ErrElsewhere) || !errors.Is(err, control.ErrMalformed) || read != nil {
		t.Errorf("a frozen store is a record: %+v %v", read, err)
	}
	if nonce, err := Thaw(ctx, store, ""); err != nil || nonce != "f" {
		t.Error(nonce, err)
	}
	if _, err := Thaw(ctx, store, "f"); err != nil {
		t.Fatal(err)
	}
	if read, _, _, err := control.New(store, "c").ReadIntent(ctx); err != nil || read.Write != 8 {
		t.Errorf("%+v %v", read, err)
	}
	l.Moved = true
	for _, tag := range []blob.ETag{tag, frozen} {
		if _, err := l.put(ctx, store, tag); !errors.Is(err, blob.ErrPreconditionFailed) {
			t.Errorf("a seal of before: %v", err)
		}
	}
}

// leaves has the store show a marker, and one host the offer of that move.
func (w *world) leaves(l leaving, host cluster.HostID, offer bool) *life {
	w.t.Helper()
	data, err := json.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := w.living(host)
	if err != nil {
		w.t.Fatal(err)
	}
	if offer {
		var objects map[string]register.Object
		if in, err := l.next(); err == nil {
			objects = map[string]register.Object{control.KeyIntent: {Tag: "1", Data: in}}
		}
		first, err := register.Begin(l.Moving, []register.Seat{{Host: host, Keeper: "k"}}, objects)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := b.File.take(Place{Offer: peer.Offer{Name: l.Moving, From: l.Nonce, URL: HostsURL, First: first}, Taken: time.Now()}); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := blob.PutBytes(w.t.Context(), w.store, control.KeyIntent, data, blob.Any); err != nil { // after the offer, as a mover does
		w.t.Fatal(err)
	}
	return b
}

// After a boot a host knows whom to ask for the generation where its store was left for, or may have been.
func TestLeftTo(t *testing.T) {
	frozen := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Intent: json.RawMessage(`{"name":"c"}`)}
	sealed, other := frozen, frozen
	sealed.Moved, other.Moved, other.Moving = true, true, "N2"
	for name, c := range map[string]struct {
		store         leaving
		offer, silent bool
		to            string
	}{
		"frozen":              {store: frozen},
		"frozen, offered":     {store: frozen, offer: true, to: "N"},
		"sealed":              {store: sealed, offer: true, to: "N"},
		"sealed to another":   {store: other, to: "N2"},
		"silent":              {store: sealed, silent: true},
		"silent, and offered": {store: sealed, offer: true, silent: true, to: "N"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStoreWorld(t)
				defer w.end()
				w.sleeps()
				b := w.leaves(c.store, "b", c.offer)
				if c.silent {
					b.Home.Store = func() blob.Store { return silence{} }
				}
				if to := b.LeftTo(t.Context()); to != c.to {
					t.Errorf("%q", to)
				}
			})
		})
	}
}

// sleeps has no host look by itself.
func (w *world) sleeps() {
	for h := range w.all {
		l, _ := w.living(h)
		l.end()
	}
	synctest.Wait()
}

// silence is a store that does not answer.
type silence struct{ blob.Store }

func (silence) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	return nil, errors.New("no answer")
}

// A host that others tell of the record follows though its store is silent; one without the offer calls itself left.
func TestFollowsHomeByWord(t *testing.T) {
	sealed := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Moved: true, Intent: json.RawMessage(`{"name":"c"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.sleeps()
		b := w.leaves(sealed, "b", true)
		b.Home.Store = func() blob.Store { return silence{} }
		if err := b.Look(t.Context(), true); err == nil || b.File.Notes().Place != nil {
			t.Errorf("by nothing: %v", err)
		}
		b.Home.Heard("made again from N, or not")
		if err := b.Look(t.Context(), true); err == nil || b.File.Notes().Place != nil {
			t.Errorf("by another name: %v", err)
		}
		b.Home.Counts = func(_ context.Context, record string) bool { return record == "N" }
		if err := b.Look(t.Context(), true); err != nil || !b.File.Notes().Place.AtHosts() || b.keeper.Record() != "N" {
			t.Errorf("by word: %v %+v", err, b.File.Notes())
		}
		c := w.leaves(sealed, "c", false)
		if err := c.Look(t.Context(), true); err != nil || c.Home.Left() != "left:N" || len(c.Problems()) != 1 {
			t.Errorf("%v %q %v", err, c.Home.Left(), c.Problems())
		}
	})
}

// A host whose disk went back since it took an offer may have had the seat before, and have promised what it does not know: it is another
// keeper.
func TestSeatIsForgotten(t *testing.T) {
	sealed := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Moved: true, Intent: json.RawMessage(`{"name":"c"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.sleeps()
		b := w.leaves(sealed, "b", true)
		first := b.File.Notes().Offer.First
		if err := b.keeper.Begin(t.Context(), "b", false, w.mint, first); err != nil { // the image is of right after that
			t.Fatal(err)
		}
		if err := b.File.Forget(); err != nil {
			t.Fatal(err)
		}
		if err := b.Look(t.Context(), true); err != nil || !b.File.Notes().Place.AtHosts() {
			t.Errorf("%v", err)
		}
		k, err := b.keeper.State(t.Context())
		if err != nil || k.Seat == first.Keepers[0] || k.Accepted.Doc != nil || k.Record != "N" || k.Check() != "" {
			t.Errorf("%+v %v", k, err)
		}
	})
}

// What stands in the way of a move to the hosts leaves the store as it was, and counted once more.
func TestHomeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hinder func(w *world, a, b *life)
		says   string
	}{
		"a host that cannot": {func(_ *world, _, b *life) { b.Home.Refuses = func(context.Context) string { return "it cannot" } }, "it cannot"},
		"another store":      {func(_ *world, _, b *life) { b.Home.Store = func() blob.Store { return memory.New() } }, "it has another store"},
		"a newer intent": {func(_ *world, _, b *life) {
			b.Intent = func(context.Context) (*cluster.Intent, error) { return &cluster.Intent{Generation: 2, Write: 19}, nil }
		}, "a newer intent"},
		"a host that came": {func(_ *world, a, _ *life) {
			was, n := a.mover.Hosts, 0
			a.mover.Hosts = func() []cluster.HostID {
				if n++; n > 1 {
					return append(was(), "d")
				}
				return was()
			}
		}, "host d came meanwhile"},
		"a freeze before": {func(w *world, a, _ *life) {
			in, _, err := blob.ReadAll(w.t.Context(), w.store, control.KeyIntent, maxObject)
			if err != nil {
				w.t.Error(err)
			}
			_ = w.leaves(leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "M", Intent: in}, "b", false)
			time.AfterFunc(10*time.Second, func() { _, _ = Thaw(w.t.Context(), w.store, "f") })
			if err := a.mover.try(w.t.Context(), home("N")); !errors.As(err, new(*NotReadyError)) {
				w.t.Errorf("a look: %v", err)
			}
			a.Home.Refuses = func(context.Context) string { return "it has waited" }
		}, "it has waited"},
		"an object of a size that hosts do not keep": {func(w *world, _, _ *life) {
			if _, err := blob.PutBytes(w.t.Context(), w.store, keyRecord, make([]byte, hosts.MaxObject+1), blob.Any); err != nil {
				w.t.Error(err)
			}
		}, "bytes, and hosts keep"},
		"recoveries by themselves": {func(w *world, _, _ *life) {
			for key, data := range map[string]string{keySpec: `{"memberCount":3,"etcdVersion":"3.7.3"}`, keySpec + "-etcdadm.json": `{"autoRecoverAfter":"10m"}`} {
				if _, err := blob.PutBytes(w.t.Context(), w.store, key, []byte(data), blob.Any); err != nil {
					w.t.Error(err)
				}
			}
		}, "autoRecoverAfter"},
		"a command": {func(w *world, _, _ *life) {
			if _, err := blob.PutBytes(w.t.Context(), w.store, control.Prefix+"2026-11-20T23:14:17Z-000001/_command.json", []byte("{}"), blob.Any); err != nil {
				w.t.Error(err)
			}
		}, "a command is in the queue"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStoreWorld(t)
				defer w.end()
				a, _ := w.living("a")
				b, _ := w.living("b")
				w.sleeps()
				c.hinder(w, a, b)
				if err := a.mover.Home(t.Context(), peer.MoveRequest{Name: "N", Hosts: true}); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				if in, _, _, err := control.New(w.store, "c").ReadIntent(t.Context()); err != nil || in == nil {
					t.Errorf("the store stays frozen: %+v %v", in, err)
				}
			})
		})
	}
}

// An offer outlives the day where nothing says that the move came to nothing: a store that was left may be emptied since, or be silent.
func TestOfferOfAnEmptyStoreStays(t *testing.T) {
	frozen := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Intent: json.RawMessage(`{"name":"c","generation":2,"nonce":"n","token":"t","write":7,"state":"founded"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.sleeps()
		b := w.leaves(frozen, "b", true)
		time.Sleep(offerLasts + time.Hour)
		if err := w.store.Delete(t.Context(), control.KeyIntent); err != nil {
			t.Fatal(err)
		}
		if err := b.Look(t.Context(), true); err != nil || b.File.Notes().Offer == nil {
			t.Errorf("empty: %v %+v", err, b.File.Notes())
		}
		if _, err := blob.PutBytes(t.Context(), w.store, control.KeyIntent, []byte(frozen.Intent), blob.Any); err != nil {
			t.Fatal(err)
		}
		if err := b.Look(t.Context(), true); err != nil || b.File.Notes().Offer == nil {
			t.Errorf("gone back to before the freeze: %v %+v", err, b.File.Notes())
		}
		thawed, err := frozen.next()
		if err == nil {
			_, err = blob.PutBytes(t.Context(), w.store, control.KeyIntent, thawed, blob.Any)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Look(t.Context(), true); err != nil || b.File.Notes().Offer != nil {
			t.Errorf("thawed: %v %+v", err, b.File.Notes())
		}
	})
}

// Who was interrupted asks again while the move goes on, and is not told that the store is frozen.
func TestHomeIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		a, _ := w.living("a")
		w.sleeps()
		offer := a.mover.Offer
		a.mover.Offer = func(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
			time.Sleep(time.Second)
			return offer(ctx, h, o)
		}
		a.mover.Ask(t.Context(), home("N"))
		synctest.Wait()
		look := home("")
		look.DryRun = true
		if r := a.mover.Ask(t.Context(), look); r.Refused != "" {
			t.Errorf("%+v", r)
		}
		if r := a.mover.Ask(t.Context(), home("N2")); r.Refused != "" || len(r.Steps) == 0 {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
		if r := a.mover.Ask(t.Context(), home("N")); !r.Done {
			t.Errorf("%+v", r)
		}
		if err := a.GoHome(a.File.Notes().Place.Name); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
}

// A store that another command sealed is not told as one that was not moved.
func TestSealedByAnother(t *testing.T) {
	store := memory.New()
	l := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Intent: json.RawMessage(`{"name":"c"}`)}
	other := l
	other.Nonce, other.Moving, other.Moved = "g", "N2", true
	data, err := json.Marshal(other)
	if err == nil {
		_, err = blob.PutBytes(t.Context(), store, control.KeyIntent, data, blob.Any)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := new(Mover).leftAs(t.Context(), store, l, "tag", blob.ErrPreconditionFailed); !errors.Is(err, ErrLeft) {
		t.Errorf("%v", err)
	}
}

// A mover that cannot write down that it followed says that the store is sealed, and follows by itself once it can.
func TestSealedAndNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		a, _ := w.living("a")
		a.mover.Followed = func(string) error { return errors.New("the disk is full") }
		a.mover.Ask(t.Context(), peer.MoveRequest{Name: "N", Hosts: true})
		time.Sleep(time.Minute)
		if r := a.mover.Ask(t.Context(), peer.MoveRequest{Name: "N", Hosts: true}); !r.Unknown || r.Done || !strings.Contains(r.Refused, "the disk is full") {
			t.Errorf("%+v", r)
		}
		if !w.atHome() {
			t.Error("not all hosts are where the record is")
		}
	})
}

// The mover and the look of its host are on their way home at once: the record is begun once, and what is there is not written again.
func TestGoesHomeOnce(t *testing.T) {
	sealed := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Moved: true, Intent: json.RawMessage(`{"name":"c"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.sleeps()
		b := w.leaves(sealed, "b", true)
		begin, begun := b.Home.Begin, 0
		b.Home.Begin = func(ctx context.Context, first *register.Document, forgot bool) error {
			begun++
			time.Sleep(time.Second)
			return begin(ctx, first, forgot)
		}
		var all sync.WaitGroup
		for _, goes := range []func() error{func() error { return b.GoHome("N") }, func() error { return b.Look(t.Context(), true) }} {
			all.Go(func() {
				if err := goes(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.mu.Lock()
		writes := w.writes
		w.mu.Unlock()
		if err := b.GoHome("N"); err != nil || begun != 1 || !b.File.Notes().Place.AtHosts() {
			t.Errorf("%v, begun %d times: %+v", err, begun, b.File.Notes())
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.writes != writes {
			t.Errorf("%d writes of what is there", w.writes-writes)
		}
	})
}

// A host that cannot take up the record says so, and no word of it while it may only be late.
func TestSaysThatItDoesNotFollow(t *testing.T) {
	sealed := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Moved: true, Intent: json.RawMessage(`{"name":"c"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.mu.Lock()
		w.full = errors.New("the disk is full")
		w.mu.Unlock()
		b := w.leaves(sealed, "b", true)
		time.Sleep(sayAfter / 2)
		early := b.Problems()
		time.Sleep(sayAfter)
		late := b.Problems()
		if len(early) != 0 || len(late) != 1 || !strings.Contains(late[0].Sentence, "the disk is full") {
			t.Errorf("%+v, then %+v", early, late)
		}
	})
}

// A move ends with its daemon: it thaws the store, and writes nothing of the host after.
func TestMoveEndsWithItsDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		a, _ := w.living("a")
		w.sleeps()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var part sync.WaitGroup
		a.mover.Go = func(move func(context.Context)) { part.Go(func() { move(ctx) }) }
		a.mover.Offer = func(ctx context.Context, _ cluster.HostID, _ peer.Offer) (peer.OfferReply, error) {
			end()
			<-ctx.Done()
			return peer.OfferReply{}, ctx.Err()
		}
		a.mover.Ask(t.Context(), home("N"))
		part.Wait()
		if r := a.mover.Ask(t.Context(), home("N")); r.Done || r.Refused == "" || r.Unknown {
			t.Errorf("%+v", r)
		}
		if in, _, _, err := control.New(w.store, "c").ReadIntent(t.Context()); err != nil || in == nil || in.Write != 8 {
			t.Errorf("%+v %v", in, err)
		}
	})
}

// A host that was sent to a store and has an offer to go home from there goes by the offer: what it would arrive at may be left.
func TestOfferIsLaterThanAPlace(t *testing.T) {
	sealed := leaving{Nonce: "f", Generation: 2, Cluster: "c", Moving: "N", Moved: true, Intent: json.RawMessage(`{"name":"c"}`)}
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		w.sleeps()
		b := w.leaves(sealed, "b", true)
		err := b.File.change(func(n *Notes) error {
			n.Place = &Place{Offer: peer.Offer{Name: "S", From: "r", URL: theFolder}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Look(t.Context(), true); err != nil || !b.File.Notes().Place.AtHosts() {
			t.Errorf("%v %+v", err, b.File.Notes())
		}
	})
}

// rival writes the intent once more before each of the first freezes.
type rival struct {
	blob.Store
	left int
}

func (r *rival) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if key == control.KeyIntent && r.left > 0 {
		r.left--
		data, _, err := blob.ReadAll(ctx, r.Store, key, maxObject)
		if err != nil {
			return "", err
		}
		var in cluster.Intent
		if err := json.Unmarshal(data, &in); err != nil {
			return "", err
		}
		in.Write++
		if data, err = json.Marshal(in); err != nil {
			return "", err
		}
		if _, err := blob.PutBytes(ctx, r.Store, key, data, blob.Any); err != nil {
			return "", err
		}
	}
	return r.Store.Put(ctx, key, body, cond)
}

// Who writes the record while the store is being frozen comes first, and the move goes on from there.
func TestFreezeBesideAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoreWorld(t)
		defer w.end()
		l, err := w.living("a")
		if err != nil {
			t.Fatal(err)
		}
		store := &rival{Store: w.store, left: 2}
		l.mover.Store = func() blob.Store { return store }
		if err := l.mover.Home(l.ctx, peer.MoveRequest{Name: w.mint(), Hosts: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if store.left > 0 || !w.atHome() {
			t.Errorf("%d writes are left, and not all hosts are where the record is", store.left)
		}
	})
}
