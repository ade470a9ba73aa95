package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/token"
)

const adviceTokens = "move control/etcdadm-tokens.json away in the store, then make new tokens: etcdadm token create"

const (
	// tokensKept is how long a token that is over is kept, for who presents it to be told why.
	tokensKept = 7 * duration.Day
	// maxTokens bounds those that are kept.
	maxTokens = 100
)

// ErrTokensFull says that as many tokens as are kept can all be used.
var ErrTokensFull = fmt.Errorf("%d join tokens are valid, and no more are kept", maxTokens)

// ErrTaken says that another founder's mark is in the store.
var ErrTaken = errors.New("another host has begun a cluster in this store")

// tokensFile is the object that holds the join tokens. Daemons that know of none pass it over.
type tokensFile struct {
	// Founder is the hash of the authority that the cluster was begun with, which only `etcdadm init` looks
	// at, and only before the cluster runs: of two that begin in one store, the second one is refused.
	Founder string         `json:"founder,omitempty"`
	Tokens  []token.Record `json:"tokens"`
}

// Tokens are the join tokens of a control folder, and who founded the cluster.
type Tokens struct{ *Folder }

// Tokens are those of this folder.
func (f *Folder) Tokens() Tokens { return Tokens{f} }

func (f Tokens) readTokens(ctx context.Context) (tokensFile, blob.Condition, error) {
	c, err := f.read(ctx, keyTokens, &f.tokens)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return tokensFile{}, blob.IfAbsent, nil
	case err != nil:
		return tokensFile{}, "", fmt.Errorf("read the join tokens: %w", err)
	}
	var t tokensFile
	if err := parseStrict(c.data, &t); err != nil { // it is written anew, and nothing of it may be lost
		return tokensFile{}, "", malformed(keyTokens, adviceTokens, err)
	}
	return t, blob.IfMatch(c.tag), nil
}

// All are the join tokens, those included that are over and not forgotten yet, in the order of their making.
//
// Errors: ErrMalformed; what the store says.
func (f Tokens) All(ctx context.Context) ([]token.Record, error) {
	t, _, err := f.readTokens(ctx)
	return t.Tokens, err
}

// Add keeps a new token. Those that were over for long are forgotten with it.
//
// Errors: ErrTokensFull; ErrConflict; ErrMalformed; what the store says.
func (f Tokens) Add(ctx context.Context, r token.Record) error {
	return f.amendTokens(ctx, r.Created, func(t *tokensFile) error {
		if at := slices.IndexFunc(t.Tokens, func(o token.Record) bool { return o.ID == r.ID }); at >= 0 {
			if t.Tokens[at].Hash == r.Hash {
				return errUnchanged // the answer of the first try was lost
			}
			return fmt.Errorf("a join token %s exists", r.ID)
		}
		for over := 0; len(t.Tokens) >= maxTokens; {
			if over = oldestOver(t.Tokens, r.Created); over < 0 {
				return ErrTokensFull
			}
			t.Tokens = slices.Delete(t.Tokens, over, over+1)
		}
		t.Tokens = append(t.Tokens, r)
		return nil
	})
}

// oldestOver is where the token is that was over first; negative: all are valid.
func oldestOver(all []token.Record, now time.Time) int {
	first := -1
	for i, r := range all {
		if over := r.Over(now); !over.IsZero() && (first < 0 || over.Before(all[first].Over(now))) {
			first = i
		}
	}
	return first
}

// Revoke has a token refused from now on. One that is revoked already stays as it is.
//
// Errors: token.ErrUnknown; ErrConflict; ErrMalformed; what the store says.
func (f Tokens) Revoke(ctx context.Context, id string, now time.Time) (token.Record, error) {
	var was token.Record
	err := f.amendTokens(ctx, now, func(t *tokensFile) error {
		at := slices.IndexFunc(t.Tokens, func(o token.Record) bool { return o.ID == id })
		if at < 0 {
			return fmt.Errorf("token %s %w", id, token.ErrUnknown)
		}
		was = t.Tokens[at]
		if !was.Revoked.IsZero() {
			return errUnchanged
		}
		t.Tokens[at].Revoked = now
		was = t.Tokens[at]
		return nil
	})
	return was, err
}

// Check judges a token and uses nothing of it. The record is the one that it was judged by.
//
// Errors: those of token.Check; ErrMalformed; what the store says.
func (f Tokens) Check(ctx context.Context, t token.Token, try string, now time.Time) (token.Record, error) {
	all, _, err := f.readTokens(ctx)
	if err != nil {
		return token.Record{}, err
	}
	r := find(all.Tokens, t.ID)
	if _, err := token.Check(r, t, try, now); err != nil {
		return token.Record{}, err
	}
	return *r, nil
}

func find(all []token.Record, id string) *token.Record {
	if at := slices.IndexFunc(all, func(o token.Record) bool { return o.ID == id }); at >= 0 {
		return &all[at]
	}
	return nil
}

// Use judges a token and notes its use, by a conditional write that has taken effect when it returns without
// an error. A host that asks again with the same try uses it once.
//
// Errors: those of token.Check; ErrConflict; ErrMalformed; what the store says, and then it may have been used.
func (f Tokens) Use(ctx context.Context, t token.Token, use token.Use) error {
	return f.amendTokens(ctx, use.At, func(all *tokensFile) error {
		r := find(all.Tokens, t.ID)
		again, err := token.Check(r, t, use.Try, use.At)
		switch {
		case err != nil:
			return err
		case again:
			return errUnchanged
		}
		*r = r.With(use)
		return nil
	})
}

// Found marks the store as begun by the founder of this authority. It is repeated without an effect.
//
// Errors: ErrTaken; ErrConflict; ErrMalformed; what the store says.
func (f Tokens) Found(ctx context.Context, founder string, now time.Time) error {
	return f.amendTokens(ctx, now, func(t *tokensFile) error {
		switch t.Founder {
		case founder:
			return errUnchanged
		case "":
			t.Founder = founder
			return nil
		}
		return ErrTaken
	})
}

// Founder is the hash of the authority that the cluster was begun with by `etcdadm init`; empty: it was not.
//
// Errors: ErrMalformed; what the store says.
func (f Tokens) Founder(ctx context.Context) (string, error) {
	t, _, err := f.readTokens(ctx)
	return t.Founder, err
}

// tokenTries is how often a write is made again over what another writer has written.
const tokenTries = 5

// amendTokens writes the tokens as amend makes them, if nobody else has written them meanwhile; else amend is asked
// again over what was written.
func (f Tokens) amendTokens(ctx context.Context, now time.Time, amend func(*tokensFile) error) error {
	var lost error
	for range tokenTries {
		t, cond, err := f.readTokens(ctx)
		if err != nil {
			return err
		}
		t.Tokens = slices.Clone(t.Tokens)
		switch err := amend(&t); {
		case errors.Is(err, errUnchanged):
			return confirmed(ctx, f.Folder, keyTokens)
		case err != nil:
			return err
		}
		t.Tokens = slices.DeleteFunc(t.Tokens, func(r token.Record) bool {
			over := r.Over(now)
			return !over.IsZero() && now.Sub(over) > tokensKept
		})
		data, err := json.MarshalIndent(tokensFile{Founder: t.Founder, Tokens: append([]token.Record{}, t.Tokens...)}, "", "  ")
		if err != nil {
			return fmt.Errorf("write the join tokens: %w", err)
		}
		if len(data) > maxObject { // nobody could read it
			return fmt.Errorf("write the join tokens: %w: %d bytes", blob.ErrTooLarge, len(data))
		}
		tag, err := f.putOnCondition(ctx, keyTokens, data, cond)
		switch {
		case err == nil:
			f.remember(&f.tokens, data, tag)
			return nil
		case !errors.Is(err, blob.ErrPreconditionFailed):
			return fmt.Errorf("write the join tokens: %w", err)
		}
		lost = err
	}
	return fmt.Errorf("write the join tokens: %w: %w", ErrConflict, lost)
}
