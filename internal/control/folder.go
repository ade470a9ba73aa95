// Package control is the control folder of a backup store: the intent (the
// object whose existence says that the cluster was created), the spec, the
// queue of commands, the record of progress and the status.
//
// What the predecessor writes or reads is written and read in its shapes, and
// leniently; everything of ours beyond that lies in objects of our own, which
// it ignores. Three invariants hold:
//
//   - the intent changes only by a conditional write, and a write whose reply
//     was lost is settled by reading back: all of the content tells whose it is;
//   - an intent that names another cluster is never acted on;
//   - reading again what has not changed transfers nothing, so an idle poll is
//     one question per object.
//
// Every call to the store ends with its context; this package adds no
// deadline and does not retry.
package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"etcdadm.io/internal/blob"
)

// Objects of the control folder, below the store's base.
const (
	Prefix      = "control/"
	KeyIntent   = Prefix + "etcd-cluster-created"
	keySpec     = Prefix + "etcd-cluster-spec"
	keySettings = Prefix + "etcd-cluster-spec-etcdadm.json"
	keyRecord   = Prefix + "etcdadm-record.json"
	keyStatus   = Prefix + "etcdadm-status.json"
	keyEnded    = Prefix + "etcdadm-commands-ended.json"
	keyPaused   = Prefix + "etcdadm-paused.json"
	keyOrigin   = Prefix + "etcdadm-origin.json"
	keyManual   = Prefix + "etcdadm-manual.json"
	keyJoining  = Prefix + "etcdadm-joining.json"
	keyTokens   = Prefix + "etcdadm-tokens.json"
	keyOwner    = Prefix + "etcdadm-owner.json"
)

// OfCommand tells whether an object of the control folder is a queued command, or lies beside one.
func OfCommand(key string) bool {
	return strings.HasPrefix(key, Prefix) && strings.Contains(strings.TrimPrefix(key, Prefix), "/")
}

// IsCommand tells whether an object of the control folder is a queued command itself. What lies beside one is written before it, and
// says nothing alone.
func IsCommand(key string) bool {
	name, _ := commandAt(key)
	return name != ""
}

// commandAt names the command that an object is, empty if it is none, and says whether it is of a kind of ours.
func commandAt(key string) (name string, ours bool) {
	dir, file, ok := strings.Cut(strings.TrimPrefix(key, Prefix), "/")
	if !ok || !strings.HasPrefix(key, Prefix) || file != fileWish && file != fileCommand {
		return "", false
	}
	return dir, file == fileWish
}

// maxObject bounds every object that is read, in bytes. A control object is a
// few kilobytes.
const maxObject = 1 << 20

// ErrMalformed is in the chain of errors about objects that cannot be
// understood, as opposed to a store that cannot be reached.
var ErrMalformed = errors.New("malformed object")

// ErrOtherCluster says that the store belongs to a cluster of another name.
var ErrOtherCluster = errors.New("the store belongs to another cluster")

// ErrConflict says that a conditional write lost: the object is not what the
// writer had read. Nothing of the write has taken effect.
var ErrConflict = errors.New("changed by another writer")

// ErrUnknownOutcome says that a write may or may not have taken effect, or
// may still do so. What was read afterwards does not hold it.
var ErrUnknownOutcome = errors.New("unknown whether the write took effect")

// ErrCalledOff is in the error of a gate (see blob.While) that kept a write from being
// sent. One that was sent before it, and whose answer was lost, may still take effect.
var ErrCalledOff = errors.New("called off")

// Notifier is what a store implements that can tell of changes below a
// prefix. The channel receives a value after a change, perhaps too often, and
// is closed when ctx ends or notification does.
type Notifier interface {
	Notify(ctx context.Context, prefix string) (<-chan struct{}, error)
}

// Folder is the control folder of one cluster. Its methods may be called from
// several goroutines at once.
type Folder struct {
	store   blob.Store
	cluster string

	mu       sync.Mutex // guards what follows
	probed   bool
	can      blob.Capabilities
	intent   cached
	spec     cached
	settings cached
	paused   cached
	manual   cached
	origin   cached
	tokens   cached
	owner    cached
}

// cached is an object as it was read last. Its bytes are never changed.
type cached struct {
	data []byte
	tag  blob.ETag
}

// New gives the control folder of a cluster by its name. It reads nothing.
func New(store blob.Store, clusterName string) *Folder {
	return &Folder{store: looking{store}, cluster: clusterName}
}

// Known spares the folder the trial of a store that is known to keep all that is asked of one.
func (f *Folder) Known() *Folder {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.can, f.probed = blob.Capabilities{Conditional: true, NotModified: true, List: true, Delete: true}, true
	f.store = f.under() // what hosts keep refuses what comes after its end
	return f
}

// under is the store as it was given: what else it can do than a blob.Store, it shows itself.
func (f *Folder) under() blob.Store {
	if l, ok := f.store.(looking); ok {
		return l.Store
	}
	return f.store
}

// Probe finds out what the store can do, once; a store that could not be
// reached is asked again by the next call.
func (f *Folder) Probe(ctx context.Context) (blob.Capabilities, error) {
	f.mu.Lock()
	can, probed := f.can, f.probed
	f.mu.Unlock()
	if probed {
		return can, nil
	}
	can, err := blob.Probe(ctx, f.under(), Prefix)
	if err != nil {
		return blob.Capabilities{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.can, f.probed = can, true
	return can, nil
}

// Conditional reports whether the store was seen to keep conditional writes.
// It is false until Probe has succeeded.
func (f *Folder) Conditional() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probed && f.can.Conditional
}

// Probed reports whether it is known what the store can do.
func (f *Folder) Probed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probed
}

// Notifies tells whether the store can tell of changes.
func (f *Folder) Notifies() bool {
	_, ok := f.under().(Notifier)
	return ok
}

// Notify tells of changes in the folder, where the store can do that; the
// error wraps blob.ErrUnsupported where it cannot.
func (f *Folder) Notify(ctx context.Context) (<-chan struct{}, error) {
	n, ok := f.under().(Notifier)
	if !ok {
		return nil, fmt.Errorf("watch the control folder: %w", blob.ErrUnsupported)
	}
	return n.Notify(ctx, Prefix)
}

// read gets an object, or what was read before when it has not changed. An
// object that is not there gives blob.ErrNotFound.
func (f *Folder) read(ctx context.Context, key string, c *cached) (cached, error) {
	f.mu.Lock()
	before := *c
	f.mu.Unlock()
	data, tag, err := blob.ReadAllIfChanged(ctx, f.store, key, before.tag, maxObject)
	if errors.Is(err, blob.ErrNotModified) {
		return before, nil
	}
	now := cached{data: data, tag: tag}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return cached{}, err
	}
	f.mu.Lock()
	*c = now
	f.mu.Unlock()
	return now, err
}

func malformed(key, advice string, err error) error {
	return &blob.Error{Op: "read", Object: key, Err: fmt.Errorf("%w: %w", ErrMalformed, err), Advice: advice}
}
