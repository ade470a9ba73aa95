// Package moving takes the control record of a cluster from its hosts to a shared store, as docs/adr/035 says: a claim in the
// store, a seal in the record, and then the content, which anybody brings who has the sealed document.
//
// What must always hold, whoever stops at any moment and goes on at any later one:
//
//   - Nothing of a store counts before the record is sealed to the claim in it.
//   - Everything is written on a condition: an object if absent, the marker over the claim that was read.
//   - A claim, and a void, is nothing that any release takes for a record or for absent.
package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/register"
)

// maxObject bounds what is read of an object, in bytes.
const maxObject = 1 << 20

var (
	// ErrTaken says that the store belongs to something else, or is not empty.
	ErrTaken = errors.New("the store is not free for the record of this cluster")
	// ErrNoClaim says that the store has no claim of this move any more: it was emptied, or a recovery has made it void.
	ErrNoClaim = errors.New("the store has no claim of this move")
	// ErrOther says that another content is where the record's is to be.
	ErrOther = errors.New("the store has another content there")
)

// Claim is what the created marker of a store shows before it counts.
//
// Nonce and generation are where an intent has them: without, an earlier release takes the marker for etcd-manager's, of a
// cluster that exists, and writes over it.
type Claim struct {
	Nonce      string `json:"nonce"`      // of this write
	Generation uint64 `json:"generation"` // the intent's
	Cluster    string `json:"name"`
	// To is the name of the place that the store is to be, From that of the one which it is to follow.
	To   string `json:"incoming"`
	From string `json:"from"`
	// Void says that it never counts.
	Void bool `json:"void,omitempty"`
}

// place is the object that tells which place a store is.
type place struct {
	Cluster string `json:"cluster"`
	Name    string `json:"place"`
	From    string `json:"from"`
}

// keyPlace is read beside the marker before that is believed.
const keyPlace = control.Prefix + "etcdadm-place.json"

// read gives the marker of a store as a claim; nil: there is none, or it is something else.
func read(ctx context.Context, store blob.Store) (claim *Claim, exists bool, tag blob.ETag, err error) {
	data, tag, err := blob.ReadAll(ctx, store, control.KeyIntent, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, false, "", nil
	case err != nil:
		return nil, false, "", err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var c Claim
	if d.Decode(&c) != nil || c.To == "" || c.From == "" || c.Nonce == "" || c.Generation == 0 {
		return nil, true, tag, nil
	}
	return &c, true, tag, nil
}

// Make claims a store for a move. A claim of this cluster may be replaced that is to follow the same place, or one of madeFrom: the
// records that this one was made again from; a void of the latter only. Again with the same name it is the same claim.
//
// Errors: ErrTaken; what the store says. After any other one the claim may be there.
func Make(ctx context.Context, store blob.Store, c Claim, madeFrom []string) error {
	there, exists, tag, err := read(ctx, store)
	cond := blob.IfAbsent
	switch {
	case err != nil:
		return err
	case there != nil && there.Cluster == c.Cluster && there.To == c.To && !there.Void:
		return nil
	case there != nil && there.replaceable(c, madeFrom):
		cond = blob.IfMatch(tag)
	case exists:
		return fmt.Errorf("%w: it has a created marker", ErrTaken)
	}
	if err := Alone(ctx, store); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := blob.PutBytes(ctx, store, control.KeyIntent, data, cond); errors.Is(err, blob.ErrPreconditionFailed) {
		return fmt.Errorf("%w: somebody else was first", ErrTaken)
	} else if err != nil {
		return err
	}
	return nil
}

// replaceable tells whether another claim may take the place of one.
func (c *Claim) replaceable(by Claim, madeFrom []string) bool {
	return c.Cluster == by.Cluster && (slices.Contains(madeFrom, c.From) || c.From == by.From && !c.Void)
}

// Alone holds that nothing lies in the control folder of a store but its marker, and what a trial may have left.
func Alone(ctx context.Context, store blob.Store) error {
	infos, err := store.List(ctx, control.Prefix)
	if err != nil {
		return err
	}
	for _, i := range infos {
		if i.Key != control.KeyIntent && !strings.HasPrefix(i.Key, control.Prefix+blob.ProbePrefix) {
			return fmt.Errorf("%w: it has %s", ErrTaken, i.Key)
		}
	}
	return nil
}

// Void makes a claim one that never counts, whoever has sealed a record to it; where there is none the void is put, so that none
// comes. It tells whether the store is the record's place already: then nothing is made again in its stead.
//
// Errors: ErrTaken; what the store says.
func Void(ctx context.Context, store blob.Store, void Claim) (counts bool, err error) {
	for {
		there, exists, tag, err := read(ctx, store)
		cond := blob.IfAbsent
		switch {
		case err != nil:
			return false, err
		case there == nil && exists:
			p, err := which(ctx, store)
			if err == nil && (p == nil || p.From != void.From) {
				err = fmt.Errorf("%w: it has a created marker", ErrTaken)
			}
			return err == nil, err
		case there != nil && there.From != void.From:
			return false, fmt.Errorf("%w: it has a claim of another move", ErrTaken)
		case there != nil && there.Void:
			return false, nil
		case there != nil:
			cond = blob.IfMatch(tag)
		}
		data, err := json.Marshal(void)
		if err != nil {
			return false, err
		}
		_, err = blob.PutBytes(ctx, store, control.KeyIntent, data, cond)
		if !errors.Is(err, blob.ErrPreconditionFailed) {
			return false, err
		}
	}
}

// which is the place that a store says it is, nil for none.
func which(ctx context.Context, store blob.Store) (*place, error) {
	data, _, err := blob.ReadAll(ctx, store, keyPlace, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var p place
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", keyPlace, err)
	}
	return &p, nil
}

// sealedBy is a sealed document and how its content lies in a store.
type sealedBy struct {
	doc     *register.Document
	cluster string
	intent  []byte
	objects map[string][]byte
}
