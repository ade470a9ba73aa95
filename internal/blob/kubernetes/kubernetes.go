// Package kubernetes is an object store for the control record of one cluster, in two ConfigMaps of a Kubernetes cluster: CLUSTER-control,
// and CLUSTER-status for the objects that change all the time, so that who watches the first one is told of what matters.
//
// The invariant: a ConfigMap is read whole, a condition is held against the content of its own object, and the write names the
// resourceVersion that was read. So another object of the same ConfigMap that changed meanwhile is a reason to look again, and never
// that a condition failed. ETags are made of content: who has to tell two writes apart puts a nonce into them.
//
// A ConfigMap that is not there is no empty one. Nothing is concluded from it, and only a person's command makes it: the account of a
// daemon is allowed two ConfigMaps by name, which cannot include making them, and one that somebody deleted is an accident.
package kubernetes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/wake"
)

const (
	// MaxObject bounds an object, in bytes: an intent and the history of a cluster have a few thousand.
	MaxObject = 512 << 10
	// maxMap is what Kubernetes allows the values of a ConfigMap together, in bytes.
	maxMap = 1 << 20
	// rivals is how often a write is overtaken by others before it is given up: each time one of them has come to its end.
	rivals = 100
	// longPause bounds the pause after each time.
	longPause = 100 * time.Millisecond
)

// Often are the objects that change all the time.
var Often = []string{"control/etcdadm-status.json", "control/etcdadm-record.json"}

// ErrMissing says that a ConfigMap is not there, which says nothing of the objects that were in it.
var ErrMissing = errors.New("the ConfigMap is missing")

// Store is an object store in two ConfigMaps. Use Open.
type Store struct {
	config
	api api
}

// Options say how a store is opened.
type Options struct {
	Create bool // make the ConfigMaps that are not there
}

// Open opens the store of a URL, kubernetes://NAMESPACE/CLUSTER. In a pod the rest is known; outside of one the parameters are server=URL,
// and account=DIR with the files token and ca.crt, which are read for each request. Nothing is asked before the first call, but with
// Options.Create. Errors are *blob.Error.
func Open(ctx context.Context, storeURL string, o Options) (*Store, error) {
	c, err := parse(storeURL)
	if err == nil {
		c, err = c.atHome()
	}
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, api: api{server: c.server, account: c.account}}
	if !o.Create {
		return s, nil
	}
	for _, name := range []string{s.Control(), s.Status()} {
		_, err := s.read(ctx, name)
		if errors.Is(err, ErrMissing) {
			err = s.create(ctx, name)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Control is the name of the ConfigMap that the cluster lives by.
func (c config) Control() string { return c.cluster + "-control" }

// Status is the name of the other one.
func (c config) Status() string { return c.cluster + "-status" }

func (c config) mapOf(key string) string {
	if slices.Contains(Often, key) {
		return c.Status()
	}
	return c.Control()
}

// Capabilities implements blob.Sure: an API server keeps all of it.
func (s *Store) Capabilities() blob.Capabilities {
	return blob.Capabilities{Conditional: true, NotModified: true, List: true, Delete: true}
}

func tagOf(data []byte) blob.ETag {
	sum := sha256.Sum256(data)
	return blob.ETag(fmt.Sprintf("%x", sum[:16]))
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	name, err := Name(key)
	var m *configMap
	if err == nil {
		m, err = s.shared(ctx, s.mapOf(key))
	}
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	data, is := m.value(name)
	switch {
	case !is:
		return nil, fmt.Errorf("get %q: %w", key, blob.ErrNotFound)
	case o.IfNoneMatch != "" && o.IfNoneMatch == tagOf(data):
		return nil, fmt.Errorf("get %q: %w", key, blob.ErrNotModified)
	}
	return &blob.Object{Body: io.NopCloser(bytes.NewReader(data)), ETag: tagOf(data), Size: int64(len(data)), Modified: m.modified()}, nil
}

// List implements blob.Store. Modified is when the ConfigMap was changed last: Kubernetes knows no more.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	var out []blob.Info
	for _, name := range []string{s.Control(), s.Status()} {
		m, err := s.shared(ctx, name)
		if err != nil {
			return nil, blob.ListError(s, prefix, err)
		}
		for entry, size := range m.sizes() {
			if key, ours := Key(entry); ours && strings.HasPrefix(key, prefix) && s.mapOf(key) == name {
				out = append(out, blob.Info{Key: key, Size: int64(size), Modified: m.modified()})
			}
		}
	}
	slices.SortFunc(out, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	blob.Heard(ctx, len(out))
	return out, nil
}

// Put implements blob.Store. An object of more than [MaxObject] bytes, or one that the ConfigMap has no room for, gives
// blob.ErrTooLarge.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	data, err := whole(ctx, body)
	if err == nil {
		err = s.change(ctx, key, func(was []byte, is bool) ([]byte, error) {
			if !cond.Holds(is, tagOf(was)) {
				return nil, blob.ErrPreconditionFailed
			}
			return data, nil
		})
	}
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, err)
	}
	return tagOf(data), nil
}

// whole reads a body.
func whole(ctx context.Context, body io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, MaxObject+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("read what is to be written: %w", err)
	case len(data) > MaxObject:
		return nil, fmt.Errorf("%w: in a ConfigMap an object has at most %d bytes", blob.ErrTooLarge, MaxObject)
	}
	return data, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := s.change(ctx, key, func(_ []byte, is bool) ([]byte, error) {
		if !is {
			return nil, blob.ErrNotFound
		}
		return nil, nil
	})
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

// change has an object be what edit makes of the one that is there; nil: none. An error of edit ends it.
func (s *Store) change(ctx context.Context, key string, edit func(was []byte, is bool) ([]byte, error)) error {
	name, err := Name(key)
	if err != nil {
		return err
	}
	unsure := false // a write may have taken effect although no answer came
	for range rivals {
		var m *configMap
		if m, err = s.read(ctx, s.mapOf(key)); err != nil {
			break
		}
		var now []byte
		if now, err = edit(m.value(name)); err != nil {
			break
		}
		if err = m.set(name, now); err != nil {
			break
		}
		var lost bool
		lost, err = s.replace(ctx, s.mapOf(key), m)
		unsure = unsure || lost
		if !errors.Is(err, errOvertaken) || !wake.After(ctx, rand.N(longPause)) {
			break
		}
	}
	if err == nil || !unsure {
		return remote.Ended(ctx, err)
	}
	return remote.Ended(ctx, s.failed(fmt.Errorf("the answer to a write was lost, and it may have taken effect: read the object to find out (%s)", err.Error()), "")) //nolint:errorlint // nothing may be concluded from it
}

// sizes are the entries and their bytes.
func (m *configMap) sizes() map[string]int {
	out := make(map[string]int, len(m.Data)+len(m.BinaryData))
	for name, v := range m.Data {
		out[name] = len(v)
	}
	for name, v := range m.BinaryData {
		out[name] = len(v)
	}
	return out
}

// room is an error where the ConfigMap holds more than Kubernetes takes.
func (m *configMap) room() error {
	sum := 0
	for size := range maps.Values(m.sizes()) {
		sum += size
	}
	if sum > maxMap {
		return fmt.Errorf("%w: the objects of the ConfigMap would have %d bytes together, and Kubernetes takes %d", blob.ErrTooLarge, sum, maxMap)
	}
	return nil
}
