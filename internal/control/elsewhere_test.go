package control

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/token"
)

// A look after each write hides nothing that the store can do besides.
func TestLookingHidesNothing(t *testing.T) {
	f := New(sure{memory.New()}, "c")
	if can, err := f.Probe(t.Context()); err != nil || !can.Conditional || !f.Notifies() {
		t.Errorf("%+v %v", can, err)
	}
	if New(memory.New(), "c").Notifies() {
		t.Error("a store that cannot tell of changes is taken for one that can")
	}
}

// sure says what it can do, and tells of changes; nobody may write into it to find out.
type sure struct{ blob.Store }

func (sure) Capabilities() blob.Capabilities { return blob.Capabilities{Conditional: true} }
func (sure) Notify(context.Context, string) (<-chan struct{}, error) {
	return make(chan struct{}), nil
}
func (sure) Put(context.Context, string, io.Reader, blob.Condition) (blob.ETag, error) {
	return "", errors.New("nobody may write")
}

// What is written while the record leaves the store, or afterwards, is not told as written.
func TestWritesBesideAMove(t *testing.T) {
	spec := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}
	for marker, moves := range map[string]bool{
		`{"nonce":"f","generation":2,"name":"c","moving":"N","intent":{}}`:              true,
		`{"nonce":"f","generation":2,"name":"c","moving":"N","moved":true,"intent":{}}`: true,
		`{"nonce":"f","generation":2,"name":"c","incoming":"N","from":"r"}`:             true,
		`{"timestamp":"1"}`: false,
	} {
		store := memory.New()
		if _, err := blob.PutBytes(t.Context(), store, KeyIntent, []byte(marker), blob.Any); err != nil {
			t.Fatal(err)
		}
		err := New(store, "c").WriteSpec(t.Context(), spec)
		if moves != errors.Is(err, ErrElsewhere) || moves != errors.Is(err, ErrUnknownOutcome) || !moves && err != nil {
			t.Errorf("%s: %v", marker, err)
		}
	}
}

// What was written too late for a move, or is in a store that was left, is there when it is asked for again, and does not count: nobody
// is told that it does.
func TestNothingIsConfirmedBesideAMove(t *testing.T) {
	tok, err := token.Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	spec := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}
	record := token.Record{ID: tok.ID, Hash: tok.Hash(), Created: now, Expires: now.Add(time.Hour), Uses: 2}
	use := token.Use{Host: "h", At: now, Try: "try"}
	store := memory.New()
	f := New(store, "c")
	tokens := Tokens{f}
	again := map[string]func() error{
		"a token":               func() error { return tokens.Add(t.Context(), record) },
		"a use of it":           func() error { return tokens.Use(t.Context(), tok, use) },
		"the end of another":    func() error { _, err := tokens.Revoke(t.Context(), "other", now); return err },
		"the founder":           func() error { return tokens.Found(t.Context(), "founder", now) },
		"a hold":                func() error { return f.Settings().Hold(t.Context(), true) },
		"a spec, by two people": func() error { return f.swapSpec(t.Context(), spec, blob.IfMatch("another")) },
	}
	other := record
	other.ID, other.Hash = "other", "another"
	if err := errors.Join(tokens.Add(t.Context(), other), again["a token"](), again["a use of it"](), again["the end of another"](), again["the founder"](),
		again["a hold"](), f.WriteSpec(t.Context(), spec)); err != nil {
		t.Fatal(err)
	}
	for marker, counts := range map[string]bool{
		`{"nonce":"f","generation":2,"name":"c","moving":"N","intent":{}}`:              false,
		`{"nonce":"f","generation":2,"name":"c","moving":"N","moved":true,"intent":{}}`: false,
		`{"timestamp":"1"}`: true,
	} {
		if _, err := blob.PutBytes(t.Context(), store, KeyIntent, []byte(marker), blob.Any); err != nil {
			t.Fatal(err)
		}
		for what, do := range again {
			if err := do(); counts && err != nil || !counts && (!errors.Is(err, ErrElsewhere) || !errors.Is(err, ErrUnknownOutcome)) {
				t.Errorf("%s, %s: %v", marker, what, err)
			}
		}
		if err := (queue{f}).cancel(t.Context(), "2026-11-20T23:17:07Z-000000"); counts == errors.Is(err, ErrElsewhere) {
			t.Errorf("%s, a cancellation: %v", marker, err)
		}
	}
}
