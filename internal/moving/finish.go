package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/register"
)

// content works out what lies in the store once the record is there: all helpers come to the same bytes.
func content(doc *register.Document, clusterName string) (*sealedBy, error) {
	if doc.Moved == nil {
		return nil, errors.New("the record is not sealed")
	}
	out := &sealedBy{doc: doc, cluster: clusterName, objects: map[string][]byte{}}
	for key, o := range doc.Objects { // any order: it fills another map
		if control.IsCommand(key) {
			return nil, fmt.Errorf("the record was sealed with the command %s in its queue", key)
		}
		if key != control.KeyIntent && key != keyMove && !control.OfCommand(key) {
			out.objects[key] = o.Data
		}
	}
	var in cluster.Intent
	if err := json.Unmarshal(doc.Objects[control.KeyIntent].Data, &in); err != nil {
		return nil, fmt.Errorf("read the intent of the sealed record: %w", err)
	}
	in.Write++ // no bytes of before the move are those of after it
	var err error
	if out.intent, err = json.MarshalIndent(in, "", "  "); err != nil {
		return nil, err
	}
	out.objects[keyPlace], err = json.Marshal(place{Cluster: clusterName, Name: doc.Moved.To, From: doc.Record})
	return out, err
}

// Finish brings what a sealed record says into its next place, a store, and puts that in force. Any number of helpers may do it
// at once, and again.
//
// Errors: ErrNoClaim, ErrTaken, ErrOther: a person has to look; else what the store says.
func Finish(ctx context.Context, doc *register.Document, clusterName string, store blob.Store) error {
	s, err := content(doc, clusterName)
	if err != nil {
		return err
	}
	for {
		done, err := s.step(ctx, store)
		if done || err != nil && !errors.Is(err, blob.ErrPreconditionFailed) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// step goes on from what the marker says. ErrPreconditionFailed: somebody else went on, and it says something else by now.
func (s *sealedBy) step(ctx context.Context, store blob.Store) (done bool, err error) {
	there, exists, tag, err := read(ctx, store)
	switch {
	case err != nil:
		return false, err
	case there == nil && exists:
		p, err := which(ctx, store)
		if err == nil && (p == nil || p.Name != s.doc.Moved.To || p.Cluster != s.cluster) {
			err = fmt.Errorf("%w: it has a created marker", ErrTaken)
		}
		return err == nil, err
	case there == nil || there.Cluster != s.cluster || there.From != s.doc.Record || there.Void:
		return false, ErrNoClaim // one of another mover from the same record will do: that mover's seal can never come
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if err := s.bring(ctx, store, key); err != nil {
			return false, err
		}
	}
	_, err = blob.PutBytes(ctx, store, control.KeyIntent, s.intent, blob.IfMatch(tag))
	return err == nil, err
}

// bring writes one object if it is absent. What is there has to be the same, unless the store counts already.
func (s *sealedBy) bring(ctx context.Context, store blob.Store, key string) error {
	_, err := blob.PutBytes(ctx, store, key, s.objects[key], blob.IfAbsent)
	if !errors.Is(err, blob.ErrPreconditionFailed) {
		return err
	}
	had, _, err := blob.ReadAll(ctx, store, key, maxObject)
	if err != nil || bytes.Equal(had, s.objects[key]) {
		return err
	}
	if there, exists, _, err := read(ctx, store); err != nil {
		return err
	} else if exists && there == nil { // it is in force, and was written since
		return blob.ErrPreconditionFailed
	}
	return fmt.Errorf("%w: %s", ErrOther, key)
}
