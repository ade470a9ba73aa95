package keeper

import (
	"crypto/rand"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/register"
)

// The record is made again from what the look found only, if nothing was accepted since.
func TestAgainAfterWhatWasAcceptedSince(t *testing.T) {
	k := open(t, t.TempDir())
	doc, err := k.Found(t.Context(), "a", rand.Text, map[string]register.Object{"x": {Tag: "1", Data: []byte("one")}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := k.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base := state.Newest()
	next, err := doc.With("x", &register.Object{Tag: "2", Data: []byte("two")})
	if err != nil {
		t.Fatal(err)
	}
	e := register.Entry{Ballot: register.Ballot{Number: 9, Nonce: "n"}, Part: register.Next, Doc: next}
	if r, err := k.Handle(t.Context(), register.Message{Kind: register.Accept, Record: doc.Record, To: state.Seat, Entry: e}); err != nil || r.Refused != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	lost, none := []cluster.HostID{"b"}, func(string) bool { return false }
	if _, err := k.Again(t.Context(), rand.Text, time.Now(), base, lost, none); err == nil || k.Record() != doc.Record {
		t.Errorf("the record is made again without what was accepted since: %v", err)
	}
	if made, err := k.Again(t.Context(), rand.Text, time.Now(), e, lost, none); err != nil || string(made.Objects["x"].Data) != "two" {
		t.Errorf("from what was accepted: %v", err)
	}
}

// A seat that this process minted has promised nothing before; one that it found on the disk may have.
func TestSeatThatWasMintedHere(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	minted := func(want bool) {
		t.Helper()
		if got, _ := k.Alone(t.Context()); got != want {
			t.Errorf("minted here: %v", got)
		}
	}
	minted(false)
	doc, err := k.Found(t.Context(), "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	minted(true)
	k = open(t, dir)
	minted(false)
	if _, err := k.Enrol(t.Context(), "a", doc.Record, rand.Text); err != nil {
		t.Fatal(err)
	}
	minted(false)
	if err := k.Renew(t.Context(), rand.Text); err != nil {
		t.Fatal(err)
	}
	minted(true)
	k = open(t, dir)
	first, err := register.Begin("r2", []register.Seat{{Host: "a", Keeper: "offered"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Begin(t.Context(), "a", false, rand.Text, first); err != nil {
		t.Fatal(err)
	}
	minted(false) // it was offered before
}

// A host that keeps the record alone knows so after a restart, whichever host led when the other keepers went.
func TestWhoKeepsItAloneIsOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	doc, err := k.Found(t.Context(), "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	seat, number := doc.Keepers[0], uint64(9)
	choose := func(next *register.Document) {
		t.Helper()
		number++
		e := register.Entry{Ballot: register.Ballot{Number: number, Nonce: "n"}, Part: register.Next, Doc: next}
		for _, kind := range []register.Kind{register.Accept, register.Learn} {
			if r, err := k.Handle(t.Context(), register.Message{Kind: kind, Record: doc.Record, To: seat, Entry: e}); err != nil || r.Refused != "" {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if err := k.Learned(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	two, err := doc.WithKeeper(register.Seat{Host: "b", Keeper: "k"})
	if err != nil {
		t.Fatal(err)
	}
	choose(two)
	k = open(t, dir)
	if _, only := k.Alone(t.Context()); only != nil {
		t.Error("one of two keeps it alone")
	}
	one, err := two.WithoutKeeper(register.Seat{Host: "b", Keeper: "k"})
	if err != nil {
		t.Fatal(err)
	}
	choose(one)
	k = open(t, dir)
	if _, only := k.Alone(t.Context()); !only.Same(one) {
		t.Error("after a restart it does not know that it keeps the record alone")
	}
}
