package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/token"
)

var tokenTime = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func mintToken(t *testing.T) token.Token {
	t.Helper()
	tok, err := token.Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func recordOf(tok token.Token, uses int) token.Record {
	return token.Record{ID: tok.ID, Hash: tok.Hash(), Created: tokenTime, Expires: tokenTime.Add(token.DefaultLife), Uses: uses}
}

func TestTokens(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f, other := New(s, "etcd"), New(s, "etcd")
	tok := mintToken(t)
	use := func(host, try string) token.Use {
		return token.Use{Host: host, At: tokenTime.Add(time.Minute), Try: try}
	}
	if err := f.Tokens().Use(ctx, tok, use("b", "1")); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("before there are any: %v", err)
	}
	if all, err := f.Tokens().All(ctx); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	for range 2 { // the answer may be lost
		if err := f.Tokens().Add(ctx, recordOf(tok, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if text := content(t, s, keyTokens); strings.Contains(text, strings.TrimPrefix(tok.Reveal(), tok.ID+".")) {
		t.Error("the secret is in the store")
	}
	if _, err := other.Tokens().Check(ctx, tok, "1", tokenTime); err != nil {
		t.Fatal(err)
	}
	if err := other.Tokens().Use(ctx, tok, use("b", "1")); err != nil {
		t.Fatal(err)
	}
	if err := f.Tokens().Use(ctx, tok, use("b", "1")); err != nil {
		t.Errorf("the same host again: %v", err)
	}
	if err := f.Tokens().Use(ctx, tok, use("c", "2")); !errors.Is(err, token.ErrUsedUp) {
		t.Errorf("another host: %v", err)
	}
	if r, err := f.Tokens().Revoke(ctx, tok.ID, tokenTime.Add(time.Hour)); err != nil || !r.Revoked.Equal(tokenTime.Add(time.Hour)) {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := other.Tokens().Revoke(ctx, tok.ID, tokenTime.Add(2*time.Hour)); err != nil || !r.Revoked.Equal(tokenTime.Add(time.Hour)) {
		t.Errorf("revoked twice: %v, %v", r, err)
	}
	if err := f.Tokens().Use(ctx, tok, use("b", "1")); !errors.Is(err, token.ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	if _, err := f.Tokens().Revoke(ctx, "zzzzzz", tokenTime); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("revoke nothing: %v", err)
	}
	// A week later it is forgotten with the next write.
	later := recordOf(mintToken(t), 0)
	later.Created = tokenTime.Add(time.Hour + tokensKept + time.Second)
	later.Expires = later.Created.Add(time.Hour)
	if err := f.Tokens().Add(ctx, later); err != nil {
		t.Fatal(err)
	}
	if all, err := other.Tokens().All(ctx); err != nil || len(all) != 1 || all[0].ID != later.ID {
		t.Errorf("%v, %v", all, err)
	}
	// What cannot be read is not written over.
	for _, bad := range []string{`{"tokens":[`, `{"tokens":[],"color":1}`} {
		place(t, s, keyTokens, bad)
		if err := f.Tokens().Add(ctx, recordOf(mintToken(t), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestTokensAreBounded(t *testing.T) {
	ctx := t.Context()
	f := New(memory.New(), "etcd")
	var first, second token.Token
	for n := range maxTokens {
		tok := mintToken(t)
		switch n {
		case 0:
			first = tok
		case 1:
			second = tok
		}
		if err := f.Tokens().Add(ctx, recordOf(tok, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Tokens().Add(ctx, recordOf(mintToken(t), 0)); !errors.Is(err, ErrTokensFull) {
		t.Errorf("one more: %v", err)
	}
	// The one that was over first gives way.
	for at, tok := range []token.Token{second, first} {
		if _, err := f.Tokens().Revoke(ctx, tok.ID, tokenTime.Add(-time.Duration(2-at)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Tokens().Add(ctx, recordOf(mintToken(t), 0)); err != nil {
		t.Fatal(err)
	}
	all, err := f.Tokens().All(ctx)
	if err != nil || len(all) != maxTokens || find(all, second.ID) != nil || find(all, first.ID) == nil {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// Of many that present a token for one, one gets in, whatever daemon each asks.
func TestTokenForOneLetsOneIn(t *testing.T) {
	s := memory.New()
	tok := mintToken(t)
	if err := New(s, "etcd").Tokens().Add(t.Context(), recordOf(tok, 1)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards in
	var all sync.WaitGroup
	in := 0
	for n := range 8 {
		all.Go(func() {
			err := New(s, "etcd").Tokens().Use(t.Context(), tok, token.Use{Host: fmt.Sprint(n), At: tokenTime, Try: fmt.Sprint(n)})
			switch {
			case err == nil:
				mu.Lock()
				in++
				mu.Unlock()
			case !errors.Is(err, token.ErrUsedUp) && !errors.Is(err, ErrConflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if in != 1 {
		t.Errorf("%d got in", in)
	}
}

func TestFounders(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	if err := New(s, "etcd").Tokens().Found(ctx, "sha256:a", tokenTime); err != nil {
		t.Fatal(err)
	}
	f := New(s, "etcd")
	if err := f.Tokens().Found(ctx, "sha256:a", tokenTime); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := f.Tokens().Found(ctx, "sha256:b", tokenTime); !errors.Is(err, ErrTaken) {
		t.Errorf("another one: %v", err)
	}
	if err := f.Tokens().Add(ctx, recordOf(mintToken(t), 0)); err != nil {
		t.Fatal(err)
	}
	if err := New(s, "etcd").Tokens().Found(ctx, "sha256:b", tokenTime); !errors.Is(err, ErrTaken) {
		t.Errorf("another one, after a token was made: %v", err)
	}
}
