package moving

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/register"
)

const keySpec = control.Prefix + "etcd-cluster-spec"

// taken is a schedule of several actors, each of whom stops before each call to a store until it is its turn.
type taken struct {
	r      *rand.Rand
	actors []*actor
}

type actor struct {
	name string
	turn chan bool // false: it stops for ever
	done chan error
	asks chan struct{}
}

var errStopped = errors.New("stopped")

// begin has an actor run what do does, as far as it is let.
func (s *taken) begin(name string, store blob.Store, do func(blob.Store) error) {
	a := &actor{name: name, turn: make(chan bool), done: make(chan error, 1), asks: make(chan struct{})}
	s.actors = append(s.actors, a)
	go func() { a.done <- do(stepped{store, a}) }()
}

// run takes turns by chance until all have ended. One in thirty turns is an actor's last.
func (s *taken) run() map[string]error {
	out := map[string]error{}
	left := s.actors
	for len(left) > 0 {
		i := s.r.IntN(len(left))
		a := left[i]
		select {
		case <-a.asks:
			a.turn <- s.r.IntN(30) > 0
			continue
		case out[a.name] = <-a.done:
		}
		left = append(left[:i:i], left[i+1:]...)
	}
	return out
}

// stepped is a store whose calls wait for the actor's turn.
type stepped struct {
	blob.Store
	a *actor
}

func (s stepped) wait() error {
	s.a.asks <- struct{}{}
	if !<-s.a.turn {
		return errStopped
	}
	return nil
}

func (s stepped) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := s.wait(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key, o)
}

func (s stepped) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if err := s.wait(); err != nil {
		return "", err
	}
	return s.Store.Put(ctx, key, body, c)
}

func (s stepped) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := s.wait(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, prefix)
}

// record is the hosts' record.
type record struct {
	mu sync.Mutex
	at *register.Document // guarded by mu
}

func (r *record) doc() *register.Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *record) seal(to string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.at.Sealed(movedTo(to))
	if err == nil {
		r.at = next
	}
	return err == nil
}

func movedTo(name string) register.Moved {
	return register.Moved{To: name, Store: "s3://bucket/folder"}
}

func newRecord(t *testing.T) *record {
	t.Helper()
	in, err := json.Marshal(cluster.Intent{Name: "c", Generation: 2, Nonce: "n", Token: "t", Write: 7, State: cluster.IntentFounded})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := register.Found("r", register.Seat{Host: "a", Keeper: "1"}, map[string]register.Object{
		control.KeyIntent: {Tag: "1", Data: in}, keySpec: {Tag: "2", Data: []byte(`{"memberCount":3,"etcdVersion":"3.7.3"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &record{at: doc}
}

func claimOf(to string) Claim {
	return Claim{Nonce: "nonce-" + to, Generation: 2, Cluster: "c", To: to, From: "r"}
}

// state is what a store shows: nothing, a claim, a void, or the intent that counts.
func state(t *testing.T, store blob.Store) string {
	t.Helper()
	c, exists, _, err := read(t.Context(), store)
	switch {
	case err != nil:
		t.Fatal(err)
	case !exists:
		return ""
	case c != nil && c.Void:
		return "void"
	case c != nil:
		return "claim"
	}
	in, _, _, err := control.New(store, "c").ReadIntent(t.Context())
	if err != nil || in.Nonce != "n" {
		t.Fatalf("%+v %v", in, err)
	}
	return "counts"
}

// Two movers to one store, two helpers, a person who writes the spec once the store counts, and a recovery, each of whom may stop
// for ever or go on late: in the end one place counts, a helper who comes alone sees to that, and what the person wrote is there.
func TestSchedules(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(4000) {
		ends[schedule(t, seed)]++
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(ends)
	for _, end := range []string{"moved", "made again", "not moved"} {
		if ends[end] < 20 {
			t.Errorf("%s: %d times", end, ends[end])
		}
	}
}

func schedule(t *testing.T, seed uint64) (end string) {
	t.Helper()
	s := &taken{r: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test's dice
	store, r := memory.New(), newRecord(t)
	var again, wrote atomic.Bool
	var mu sync.Mutex // a host takes an offer or makes a record again, and no two of that at a time
	making, offers := false, 0
	mover := func(to string) func(blob.Store) error {
		return func(x blob.Store) error {
			if err := Make(t.Context(), x, claimOf(to), nil); err != nil {
				return err
			}
			if c, _, _, err := read(t.Context(), x); err != nil || c == nil || c.To != to || c.Void || Alone(t.Context(), x) != nil {
				return errors.Join(errors.New("the claim is not there, and alone"), err)
			}
			mu.Lock()
			refused := making
			if !refused {
				offers++
			}
			mu.Unlock()
			if refused {
				return errors.New("the offer was refused")
			}
			if _, err := x.List(t.Context(), control.Prefix); err != nil { // it may be late
				return err
			}
			if !r.seal(to) {
				return register.ErrMoved
			}
			return Finish(t.Context(), r.doc(), "c", x)
		}
	}
	helper := func(x blob.Store) error {
		for range 4 {
			if _, err := x.List(t.Context(), control.Prefix); err != nil {
				return err
			}
			if r.doc().Moved != nil {
				return Finish(t.Context(), r.doc(), "c", x)
			}
		}
		return nil
	}
	s.begin("mover 1", store, mover("N1"))
	s.begin("mover 2", store, mover("N2"))
	s.begin("helper 1", store, helper)
	s.begin("helper 2", store, helper)
	s.begin("person", store, func(x blob.Store) error {
		for range 12 {
			if c, exists, _, err := read(t.Context(), x); err != nil {
				return err
			} else if exists && c == nil {
				_, tag, err := blob.ReadAll(t.Context(), x, keySpec, maxObject)
				if err == nil {
					_, err = blob.PutBytes(t.Context(), x, keySpec, []byte("five"), blob.IfMatch(tag))
				}
				wrote.Store(err == nil)
				return err
			}
		}
		return nil
	})
	if seed%2 == 0 {
		s.begin("recovery", store, func(x blob.Store) error {
			for range int(seed % 7) {
				if _, err := x.List(t.Context(), control.Prefix); err != nil {
					return err
				}
			}
			mu.Lock()
			making = true
			offered := offers > 0
			mu.Unlock()
			if offered {
				counts, err := Void(t.Context(), x, Claim{Nonce: "void", Generation: 1, Cluster: "c", To: "N0", From: "r", Void: true})
				if err != nil || counts {
					mu.Lock()
					making = false
					mu.Unlock()
					return err
				}
			}
			again.Store(true)
			return nil
		})
	}
	s.run()
	if r.doc().Moved != nil {
		err := Finish(t.Context(), r.doc(), "c", store)
		if err != nil && !(again.Load() && errors.Is(err, ErrNoClaim)) {
			t.Errorf("a helper alone: %v", err)
		}
	}
	at := state(t, store)
	switch {
	case at == "counts" && r.doc().Moved == nil:
		t.Error("the store counts, and the record is not sealed")
	case at == "counts" && again.Load():
		t.Error("the store counts, and the record that was made again")
	case at != "counts" && r.doc().Moved != nil && !again.Load():
		t.Errorf("nothing counts: the store shows %q", at)
	}
	if at == "counts" {
		spec, _, err := blob.ReadAll(t.Context(), store, keySpec, maxObject)
		if err != nil || wrote.Load() != (string(spec) == "five") {
			t.Errorf("the spec is %s, and the person wrote: %v (%v)", spec, wrote.Load(), err)
		}
		if in, _, _, err := control.New(store, "c").ReadIntent(t.Context()); err != nil || in.Write != 8 {
			t.Errorf("%+v %v", in, err)
		}
		return "moved"
	}
	if again.Load() {
		return "made again"
	}
	return "not moved"
}

// No parser of ours takes a claim for etcd-manager's marker, for none, or for an intent.
func TestClaimIsNoRecord(t *testing.T) {
	for _, void := range []bool{false, true} {
		store := memory.New()
		c := claimOf("N")
		c.Void = void
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blob.PutBytes(t.Context(), store, control.KeyIntent, data, blob.IfAbsent); err != nil {
			t.Fatal(err)
		}
		in, marker, _, err := control.New(store, "c").ReadIntent(t.Context())
		if !errors.Is(err, control.ErrMalformed) || !marker || in != nil {
			t.Errorf("%+v %v %v", in, marker, err)
		}
	}
}

// What is there already keeps a store from being claimed.
func TestClaims(t *testing.T) {
	marked := func(text string) blob.Store {
		store := memory.New()
		if _, err := blob.PutBytes(t.Context(), store, control.KeyIntent, []byte(text), blob.IfAbsent); err != nil {
			t.Fatal(err)
		}
		return store
	}
	with := func(change func(*Claim)) blob.Store {
		c := claimOf("N1")
		change(&c)
		data, _ := json.Marshal(c)
		return marked(string(data))
	}
	left := memory.New()
	if _, err := blob.PutBytes(t.Context(), left, keySpec, []byte("{}"), blob.Any); err != nil {
		t.Fatal(err)
	}
	tried := memory.New()
	if _, err := blob.PutBytes(t.Context(), tried, control.Prefix+blob.ProbePrefix+"x", []byte("{}"), blob.Any); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store blob.Store
		free  bool
	}{
		"empty": {memory.New(), true}, "a trial": {tried, true}, "a spec": {left, false},
		"etcd-manager's": {marked(`{"timestamp":"1"}`), false}, "garbage": {marked("x"), false},
		"an earlier claim":              {with(func(*Claim) {}), true},
		"another cluster's":             {with(func(c *Claim) { c.Cluster = "d" }), false},
		"of another place":              {with(func(c *Claim) { c.From = "s" }), false},
		"of the record before":          {with(func(c *Claim) { c.From = "before" }), true},
		"a void":                        {with(func(c *Claim) { c.Void = true }), false},
		"a void of the record before":   {with(func(c *Claim) { c.Void, c.From = true, "before" }), true},
		"a claim of a release to come":  {marked(strings.Replace(string(mustJSON(claimOf("N1"))), "{", `{"new":1,`, 1)), false},
		"its own name, void":            {with(func(c *Claim) { c.Void, c.To = true, "N2" }), false},
		"its own name, somebody else's": {with(func(c *Claim) { c.Cluster, c.To = "d", "N2" }), false},
	} {
		err := Make(t.Context(), c.store, claimOf("N2"), []string{"before"})
		if c.free && err != nil || !c.free && !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
