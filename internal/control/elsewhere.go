package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"etcdadm.io/internal/blob"
)

// ErrElsewhere says that the record is not in this store now: it is on its way there or away, or was moved.
var ErrElsewhere = errors.New("the control record is moved")

// Fixed are the objects of the folder that a move takes along, besides the intent; commands are waited for.
var Fixed = []string{keySpec, keySettings, keyEnded, keyPaused, keyOrigin, keyManual, keyJoining, keyTokens, keyRecord}

// elsewhere tells why a created marker is no intent, nil if it may be one: see package moving.
func elsewhere(marker []byte) error {
	var m struct {
		Incoming, Moving string
		Moved            bool
	}
	switch err := json.Unmarshal(marker, &m); {
	case err != nil:
		return nil
	case m.Moved:
		return fmt.Errorf("%w: it was moved from this store to the hosts of the cluster", ErrElsewhere)
	case m.Moving != "":
		return fmt.Errorf("%w: it is being moved from this store to the hosts of the cluster", ErrElsewhere)
	case m.Incoming != "":
		return fmt.Errorf("%w: it is on its way into this store", ErrElsewhere)
	}
	return nil
}

// looking reads the marker after each write of another object. If a move began meanwhile, the write may not have been taken along, and the
// writer is told that its outcome is not known. Otherwise a person would be told that a spec is written which nobody reads.
type looking struct{ blob.Store }

// Put implements blob.Store.
func (l looking) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	tag, err := l.Store.Put(ctx, key, body, c)
	if err != nil {
		return tag, err
	}
	return tag, l.counts(ctx, key)
}

// Delete implements blob.Store.
func (l looking) Delete(ctx context.Context, key string) error {
	if err := l.Store.Delete(ctx, key); err != nil {
		return err
	}
	return l.counts(ctx, key)
}

// confirmed is asked before a writer is told that what it wants is there already. An earlier write may have put it there too late for
// a move, with an outcome that was not known.
func confirmed(ctx context.Context, f *Folder, key string) error {
	if l, ok := f.store.(looking); ok {
		return l.counts(ctx, key)
	}
	return nil
}

func (l looking) counts(ctx context.Context, key string) error {
	if !slices.Contains(Fixed, key) && !strings.Contains(strings.TrimPrefix(key, Prefix), "/") {
		return nil
	}
	marker, _, err := blob.ReadAll(ctx, l.Store, KeyIntent, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	if err := elsewhere(marker); err != nil {
		return fmt.Errorf("%w: %w: look whether it is there once the move is over (etcdadm store status)", ErrUnknownOutcome, err)
	}
	return nil
}
