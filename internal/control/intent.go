package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

const adviceIntent = "nothing changes while the created marker cannot be read; if it is damaged, restore it from the store's version history, " +
	"or move control/etcd-cluster-created away while the cluster runs: the hosts keep its content and write it back"

// ReadIntent reads the created marker. marker says whether it exists. One
// that the predecessor wrote, with no intent in it, gives an intent of
// generation 0 (SAFETY.md, rule 18). No marker is no error.
//
// Errors: ErrMalformed; ErrOtherCluster, with the intent; what the store says.
func (f *Folder) ReadIntent(ctx context.Context) (in *cluster.Intent, marker bool, tag blob.ETag, err error) {
	c, err := f.read(ctx, KeyIntent, &f.intent)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, false, "", nil
	case err != nil:
		return nil, false, "", fmt.Errorf("read the created marker: %w", err)
	}
	in, err = parseIntent(c.data)
	if err != nil {
		if moves := elsewhere(c.data); moves != nil {
			return nil, true, c.tag, &blob.Error{Op: "read", Object: KeyIntent, Err: fmt.Errorf("%w: %w", ErrMalformed, moves), Advice: "etcdadm store status on a host that follows says where it is"}
		}
		return nil, true, c.tag, malformed(KeyIntent, adviceIntent, err)
	}
	if !in.Adopted() && in.Name != f.cluster {
		return in, true, c.tag, &blob.Error{
			Op: "read", Object: KeyIntent,
			Err:    fmt.Errorf("%w: it is of cluster %q, and this daemon is of cluster %q", ErrOtherCluster, in.Name, f.cluster),
			Advice: "give every cluster a backup store of its own, or start the daemon with the cluster name that the store belongs to",
		}
	}
	return in, true, c.tag, nil
}

func parseIntent(data []byte) (*cluster.Intent, error) {
	if len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	l, err := parseLoose(data)
	if err != nil {
		return nil, err
	}
	generation, err := l.integer("generation")
	if err != nil {
		return nil, err
	}
	if _, ours := l.fields["nonce"]; !ours && generation == 0 {
		at, err := l.integer("timestamp")
		if err != nil {
			return nil, err
		}
		joins, _ := l.raw("joins")
		return &cluster.Intent{Timestamp: at, State: cluster.IntentFounded, Joins: string(joins) == "true"}, nil
	}
	var in cluster.Intent
	if err := parseStrict(data, &in); err != nil {
		return nil, fmt.Errorf("%w (an etcdadm newer than this one may have written it)", err)
	}
	return &in, checkIntent(&in)
}

// checkIntent refuses what no writer of ours can have meant.
func checkIntent(in *cluster.Intent) error {
	switch {
	case in.Generation == 0:
		return errors.New("its generation is 0")
	case in.Nonce == "" || in.Token == "":
		return errors.New("it has no nonce or no token")
	case in.Name == "":
		return errors.New("it names no cluster")
	case in.State != cluster.IntentFounding && in.State != cluster.IntentFounded:
		return fmt.Errorf("its state %q is not known", in.State)
	}
	return nil
}

// CreateIntent writes the marker if there is none. When there is one already
// that is this very intent, byte for byte, an earlier try had succeeded, and that is no error.
//
// Errors: ErrConflict (another one is there), ErrUnknownOutcome; what a gate of ctx says
// (see blob.While).
func (f *Folder) CreateIntent(ctx context.Context, in *cluster.Intent) (blob.ETag, error) {
	return f.writeIntent(ctx, in, blob.IfAbsent)
}

// ReplaceIntent writes the intent over the one that was read with this ETag.
// Errors as for CreateIntent.
func (f *Folder) ReplaceIntent(ctx context.Context, tag blob.ETag, in *cluster.Intent) (blob.ETag, error) {
	return f.writeIntent(ctx, in, blob.IfMatch(tag))
}

func (f *Folder) writeIntent(ctx context.Context, in *cluster.Intent, cond blob.Condition) (blob.ETag, error) {
	if err := checkIntent(in); err != nil {
		return "", fmt.Errorf("write the intent: refused: %w", err)
	}
	if in.Name != f.cluster {
		return "", fmt.Errorf("write the intent of cluster %q: %w", in.Name, ErrOtherCluster)
	}
	data, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the intent: %w", err)
	}
	tag, err := f.putOnCondition(ctx, KeyIntent, data, cond)
	if err != nil {
		return f.settleIntent(ctx, data, err)
	}
	f.remember(&f.intent, data, tag)
	return tag, nil
}

// settleIntent finds out by reading back what became of a write that ended
// with an error. Rivals share generation, nonce and write number, so that all of the
// content is compared, which names its writer.
func (f *Folder) settleIntent(ctx context.Context, data []byte, cause error) (blob.ETag, error) {
	there, err := f.read(ctx, KeyIntent, &f.intent)
	refused := errors.Is(cause, blob.ErrPreconditionFailed)
	switch {
	case err == nil && bytes.Equal(there.data, data):
		return there.tag, nil
	case refused:
		return "", fmt.Errorf("write the intent: %w: %w", ErrConflict, cause)
	case errors.Is(cause, blob.ErrUnsupported), errors.Is(cause, blob.ErrReadOnly), errors.Is(cause, ErrCalledOff): // nothing was written
		return "", fmt.Errorf("write the intent: %w", cause)
	}
	return "", fmt.Errorf("write the intent: %w: %w", ErrUnknownOutcome, cause)
}

// putOnCondition writes conditionally. In a store that was seen not to keep
// conditions it looks first and then writes; that leaves a gap between the
// two, which is why founding through such a store asks for more (SAFETY.md,
// rule 19).
func (f *Folder) putOnCondition(ctx context.Context, key string, data []byte, cond blob.Condition) (blob.ETag, error) {
	f.mu.Lock()
	blind := f.probed && !f.can.Conditional
	f.mu.Unlock()
	if !blind {
		return f.put(ctx, key, data, cond)
	}
	return f.lookAndPut(ctx, key, data, cond)
}

// lookAndPut is putOnCondition without the store's help.
func (f *Folder) lookAndPut(ctx context.Context, key string, data []byte, cond blob.Condition) (blob.ETag, error) {
	_, tag, err := blob.ReadAll(ctx, f.store, key, maxObject)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return "", err
	}
	if !cond.Holds(err == nil, tag) {
		return "", blob.ErrPreconditionFailed
	}
	return f.put(ctx, key, data, blob.Any)
}

// NotTakenError is what came of the call that hands an object to the store, and of none
// before it: an object that had to be read first says nothing about writes.
type NotTakenError struct{ Err error }

func (e *NotTakenError) Error() string { return e.Err.Error() }
func (e *NotTakenError) Unwrap() error { return e.Err }

func (f *Folder) put(ctx context.Context, key string, data []byte, cond blob.Condition) (blob.ETag, error) {
	tag, err := blob.PutBytes(ctx, f.store, key, data, cond)
	if err != nil {
		return tag, &NotTakenError{err}
	}
	return tag, nil
}

func (f *Folder) remember(c *cached, data []byte, tag blob.ETag) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*c = cached{data: data, tag: tag}
}

// Intents is a host's own access to the intent; it implements first.Intents.
type Intents struct{ Folder *Folder }

// ReadIntent gives the intent, or nil without an error when the store holds no
// marker. A marker that the predecessor wrote is an intent that is Adopted.
func (i Intents) ReadIntent(ctx context.Context) (*cluster.Intent, error) {
	in, _, _, err := i.Folder.ReadIntent(ctx)
	if err != nil {
		return nil, err
	}
	return in, nil
}
