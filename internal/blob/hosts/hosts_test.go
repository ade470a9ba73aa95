package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/register"
)

// world is a few hosts with a keeper each, and a network between them.
type world struct {
	mu      sync.Mutex
	keepers map[register.Seat]register.Keeper
	fault   func(from string, m register.Message) (lost, answerLost bool)
}

func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{keepers: map[register.Seat]register.Keeper{}}
	first := register.Seat{Host: "h0", Keeper: "k0"}
	doc, err := register.Found("r", first, nil)
	if err != nil {
		t.Fatal(err)
	}
	founder, err := register.Founder(doc)
	if err != nil {
		t.Fatal(err)
	}
	w.keepers[first] = founder
	s := w.store("h0")
	for i := 1; i < n; i++ {
		seat := register.Seat{Host: cluster.HostID(fmt.Sprintf("h%d", i)), Keeper: fmt.Sprintf("k%d", i)}
		w.mu.Lock() // the last keepers may still be told what is chosen
		w.keepers[seat] = register.NewKeeper(seat, "r")
		w.mu.Unlock()
		if _, err := s.ChangeKeepers(t.Context(), func(d *register.Document) (*register.Document, error) { return d.WithKeeper(seat) }); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// hurt has the network do something to messages from now on.
func (w *world) hurt(fault func(from string, m register.Message) (lost, answerLost bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func (w *world) store(host string) *Store {
	known := []register.Seat{{Host: "h0", Keeper: "k0"}} // long out of date
	var mu sync.Mutex
	return New(Options{
		Known: func() (string, []register.Seat) {
			mu.Lock()
			defer mu.Unlock()
			return "r", known
		},
		Say: func(ctx context.Context, m register.Message) (register.Reply, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := ctx.Err(); err != nil {
				return register.Reply{}, err
			}
			var lost, answerLost bool
			if w.fault != nil {
				lost, answerLost = w.fault(host, m)
			}
			k, ok := w.keepers[m.To]
			if lost || !ok {
				return register.Reply{}, errors.New("no answer")
			}
			k, r := k.Handle(m)
			w.keepers[m.To] = k
			if answerLost {
				return register.Reply{}, errors.New("no answer")
			}
			return r, nil
		},
		Learned: func(e register.Entry) {
			mu.Lock()
			defer mu.Unlock()
			known = e.Doc.Keepers
		},
		Mint: rand.Text, Now: time.Now,
	})
}

func TestConformance(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d keepers", n), func(t *testing.T) {
			blobtest.RunWith(t, blobtest.Traits{MaxObject: MaxObject}, func(t *testing.T) blob.Store { return newWorld(t, n).store("h0") })
		})
	}
}

// Five hosts count up one object by compare-and-swap while messages and answers are lost, one after the other of the keepers
// is away for a while, and keepers come and go. A count that was acknowledged is there, and there once.
func TestCountUnderFaults(t *testing.T) {
	w := newWorld(t, 3)
	for i := 3; i < 5; i++ {
		seat := register.Seat{Host: cluster.HostID(fmt.Sprintf("h%d", i)), Keeper: fmt.Sprintf("k%d", i)}
		w.mu.Lock()
		w.keepers[seat] = register.NewKeeper(seat, "r")
		w.mu.Unlock()
	}
	began := time.Now()
	w.hurt(func(_ string, m register.Message) (bool, bool) {
		away := fmt.Sprintf("h%d", int(time.Since(began)/(100*time.Millisecond))%5)
		return string(m.To.Host) == away || mathrand.N(10) == 0, mathrand.N(10) == 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	first := w.store("h0")
	for {
		if _, err := blob.PutBytes(ctx, first, "count", nil, blob.IfAbsent); err == nil || errors.Is(err, blob.ErrPreconditionFailed) {
			break
		}
	}
	var mu sync.Mutex
	acked, open := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	end := time.Now().Add(4 * time.Second)
	for h := range 5 {
		all.Go(func() {
			s := w.store(fmt.Sprintf("h%d", h))
			for n := 0; time.Now().Before(end); n++ {
				data, tag, err := blob.ReadAll(ctx, s, "count", MaxObject)
				if err != nil {
					continue
				}
				word := fmt.Sprintf("%d.%d;", h, n)
				_, err = blob.PutBytes(ctx, s, "count", append(data, word...), blob.IfMatch(tag))
				mu.Lock()
				switch {
				case err == nil:
					acked[word] = true
				case !errors.Is(err, blob.ErrPreconditionFailed):
					open[word] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Go(func() { // keepers come and go
		s := w.store("h4")
		for n := 0; time.Now().Before(end); n++ {
			seat := register.Seat{Host: cluster.HostID(fmt.Sprintf("h%d", 3+n%2)), Keeper: fmt.Sprintf("k%d", 3+n%2)}
			_, _ = s.ChangeKeepers(ctx, func(d *register.Document) (*register.Document, error) {
				if next, err := d.WithoutKeeper(seat); err == nil {
					return next, nil
				}
				return d.WithKeeper(seat)
			})
		}
	})
	all.Wait()
	w.hurt(nil)
	data, _, err := blob.ReadAll(ctx, first, "count", MaxObject)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, word := range strings.SplitAfter(string(data), ";") {
		if word != "" {
			times[word]++
		}
	}
	for word := range acked {
		if times[word] != 1 {
			t.Errorf("%s was acknowledged and is there %d times", word, times[word])
		}
	}
	for word, n := range times {
		if n != 1 || !acked[word] && !open[word] {
			t.Errorf("%s is there %d times; acknowledged %v, open %v", word, n, acked[word], open[word])
		}
	}
	t.Logf("%d acknowledged, %d open, of which %d took effect", len(acked), len(open), len(times)-len(acked))
	if len(acked) < 20 {
		t.Errorf("only %d writes were acknowledged", len(acked))
	}
}

// A write whose outcome stayed open is decided by the next read of that host: what the read does not give never comes true,
// though one keeper had accepted it.
func TestReadDecidesWhatWasLeftOpen(t *testing.T) {
	w := newWorld(t, 3)
	s := w.store("h0")
	if _, err := blob.PutBytes(t.Context(), s, "a", []byte("old"), blob.Any); err != nil {
		t.Fatal(err)
	}
	var first register.Ballot // of the write, of which some messages may still be on their way
	without := func(away cluster.HostID) {
		w.hurt(func(_ string, m register.Message) (bool, bool) {
			if first == (register.Ballot{}) && m.Kind == register.Accept && string(m.Entry.Doc.Objects["a"].Data) == "new" {
				first = m.Entry.Ballot
			}
			open := m.Kind == register.Accept && m.Entry.Ballot == first // one keeper accepts it, and nobody hears that
			return m.To.Host == away || open && m.To.Host != "h2", open
		})
	}
	without("")
	if _, err := blob.PutBytes(t.Context(), s, "a", []byte("new"), blob.Any); err == nil || errors.Is(err, blob.ErrPreconditionFailed) {
		t.Fatalf("the write: %v", err)
	}
	without("h2")
	another := w.store("h1")
	for _, host := range []*Store{s, another} {
		data, _, err := blob.ReadAll(t.Context(), host, "a", MaxObject)
		if err != nil || string(data) != "old" {
			t.Fatalf("while that keeper is away: %q, %v", data, err)
		}
	}
	without("h0")
	if data, _, err := blob.ReadAll(t.Context(), another, "a", MaxObject); err != nil || string(data) != "old" {
		t.Fatalf("when it is back: %q, %v", data, err)
	}
}

// Without a majority of the keepers nothing is read or written, soon and in words.
func TestNoMajority(t *testing.T) {
	w := newWorld(t, 3)
	w.hurt(func(_ string, m register.Message) (bool, bool) { return m.To.Host != "h0", false })
	s := w.store("h0")
	began := time.Now()
	_, _, err := blob.ReadAll(t.Context(), s, "a", 10)
	if !errors.Is(err, register.ErrNoMajority) || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "a", nil, blob.IfAbsent); !errors.Is(err, register.ErrNoMajority) || errors.Is(err, blob.ErrPreconditionFailed) {
		t.Errorf("write: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Two hosts seal the record to two places, and others write it, while messages and answers are lost: one seal is chosen, what was
// written before it is in it, and nothing counts after it.
func TestSealUnderFaults(t *testing.T) {
	w := newWorld(t, 3)
	var dice sync.Mutex
	r := mathrand.New(mathrand.NewPCG(1, 7)) //nolint:gosec // a test's dice
	w.hurt(func(string, register.Message) (bool, bool) {
		dice.Lock()
		defer dice.Unlock()
		return r.IntN(8) == 0, r.IntN(8) == 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	sealed := map[string]bool{}
	var all sync.WaitGroup
	for i := range 2 {
		s := w.store(fmt.Sprintf("h%d", i+1))
		all.Go(func() {
			m := register.Moved{To: fmt.Sprintf("place %d", i), Store: fmt.Sprintf("s3://bucket/%d", i)}
			for ctx.Err() == nil {
				seen, err := s.Document(ctx)
				if err != nil || len(seen.Objects) < 20 {
					continue
				}
				doc, err := s.Seal(ctx, seen, m)
				if err == nil {
					mu.Lock()
					sealed[doc.Moved.To] = true
					mu.Unlock()
				}
				if err == nil || errors.Is(err, register.ErrMoved) {
					return
				}
			}
		})
	}
	for i := range 2 {
		s := w.store(fmt.Sprintf("w%d", i))
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%d/%d", i, n)
				_, err := blob.PutBytes(ctx, s, key, []byte("x"), blob.IfAbsent)
				if errors.Is(err, register.ErrMoved) {
					return
				}
				if err == nil {
					mu.Lock()
					acknowledged[key] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	w.hurt(nil)
	s := w.store("h0")
	doc, err := s.Decide(t.Context())
	if err != nil || doc.Moved == nil {
		t.Fatal(doc, err)
	}
	if len(sealed) > 1 || len(sealed) == 1 && !sealed[doc.Moved.To] {
		t.Errorf("sealed to %v, and the record says %q", sealed, doc.Moved.To)
	}
	for key := range acknowledged {
		if _, ok := doc.Objects[key]; !ok {
			t.Errorf("%s was written and is not in what was sealed", key)
		}
	}
	if _, _, err := blob.ReadAll(t.Context(), s, "0/0", 10); !errors.Is(err, register.ErrMoved) || errors.Is(err, blob.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.List(t.Context(), ""); !errors.Is(err, register.ErrMoved) {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "0/0"); !errors.Is(err, register.ErrMoved) {
		t.Error(err)
	}
	if _, err := s.ChangeKeepers(t.Context(), func(d *register.Document) (*register.Document, error) { return d.WithoutKeeper(d.Keepers[0]) }); !errors.Is(err, register.ErrMoved) {
		t.Error(err)
	}
	if again, err := s.Seal(t.Context(), doc, *doc.Moved); err != nil || !again.Same(doc) {
		t.Errorf("said again: %v", err)
	}
	if len(acknowledged) < 10 {
		t.Errorf("only %d writes before the seal", len(acknowledged))
	}
}
