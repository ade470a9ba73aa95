// Package memory is an object store that lives in this process, for tests and simulations.
//
// It keeps every promise of blob.Store, uses nothing but mutexes, channels and timers (so it can run in a synctest bubble), and can
// be told to be slow, to fail, or to do what was asked and lose the reply.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/wake"
)

// Op names a method of blob.Store in a Call.
type Op string

// The methods of blob.Store.
const (
	Get    Op = "get"
	Put    Op = "put"
	List   Op = "list"
	Delete Op = "delete"
)

// Call is one call to the store, as a Hook sees it. Key is the prefix in a List.
type Call struct {
	Op   Op
	Key  string
	Cond blob.Condition
}

// Fault is what goes wrong with a call. Delay comes first, then Err or the call, then Lost.
type Fault struct {
	Delay time.Duration
	// Err is returned in place of doing anything.
	Err error
	// Lost is returned after a call that succeeded: its effect is there, the caller does not learn it.
	Lost error
}

// Hook decides what goes wrong with a call. It is called without locks held, possibly from several goroutines at once.
type Hook func(ctx context.Context, call Call) Fault

// Conditions is how the store treats conditional writes.
type Conditions int

// What stores in the field were seen to do with conditional writes.
const (
	Keep   Conditions = iota // as blob.Store promises
	Refuse                   // with blob.ErrUnsupported
	Ignore                   // as if there were no condition
)

// Store is an object store in memory. Use New.
type Store struct {
	conditions Conditions

	mu      sync.Mutex // guards what follows
	hook    Hook
	objects map[string]object
	writes  uint64 // makes ETags
}

type object struct {
	data     []byte // never changed once stored
	tag      blob.ETag
	modified time.Time
}

// New gives an empty store.
func New() *Store { return NewWith(Keep) }

// NewWith gives an empty store that treats conditional writes in the given way.
func NewWith(c Conditions) *Store {
	return &Store{conditions: c, objects: map[string]object{}}
}

// Inject makes the hook decide over all calls from now on; nil ends that.
func (s *Store) Inject(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Get implements blob.Store. The body fails once ctx has ended.
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if err := blob.ValidateKey(key); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	var o object
	err := s.call(ctx, Call{Op: Get, Key: key}, func() error {
		var ok bool
		if o, ok = s.objects[key]; !ok {
			return blob.ErrNotFound
		}
		if opts.IfNoneMatch != "" && opts.IfNoneMatch == o.tag {
			return blob.ErrNotModified
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	body := body{ctx: ctx, r: bytes.NewReader(o.data)}
	return &blob.Object{Body: body, ETag: o.tag, Size: int64(len(o.data)), Modified: o.modified}, nil
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	if err := blob.ValidateKey(key); err != nil {
		return "", fmt.Errorf("put: %w", err)
	}
	data, err := io.ReadAll(body{ctx: ctx, r: r})
	if err != nil {
		return "", fmt.Errorf("put %q: read body: %w", key, err)
	}
	var tag blob.ETag
	err = s.call(ctx, Call{Op: Put, Key: key, Cond: cond}, func() error {
		if cond != blob.Any && s.conditions == Refuse {
			return blob.ErrUnsupported
		}
		old, exists := s.objects[key]
		if s.conditions == Keep && !cond.Holds(exists, old.tag) {
			return blob.ErrPreconditionFailed
		}
		if err := blob.Still(ctx); err != nil {
			return err
		}
		s.writes++
		tag = blob.ETag(strconv.FormatUint(s.writes, 10))
		s.objects[key] = object{data: data, tag: tag, modified: time.Now()}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, err)
	}
	return tag, nil
}

// String says what stands where others have their URL.
func (s *Store) String() string { return "in memory" }

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	var infos []blob.Info
	err := s.call(ctx, Call{Op: List, Key: prefix}, func() error {
		for key, o := range s.objects {
			if strings.HasPrefix(key, prefix) {
				infos = append(infos, blob.Info{Key: key, Size: int64(len(o.data)), Modified: o.modified})
			}
		}
		return nil
	})
	if err != nil {
		return nil, blob.ListError(s, prefix, err)
	}
	blob.Heard(ctx, len(infos))
	slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.ValidateKey(key); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	err := s.call(ctx, Call{Op: Delete, Key: key}, func() error {
		delete(s.objects, key)
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

// call does one call under the lock, with the faults that the hook wants.
func (s *Store) call(ctx context.Context, c Call, do func() error) error {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	var fault Fault
	if hook != nil {
		fault = hook(ctx, c)
	}
	if fault.Delay > 0 {
		wake.After(ctx, fault.Delay)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault.Err != nil {
		return fault.Err
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	if err == nil && fault.Lost != nil {
		return fault.Lost
	}
	return err
}

// body reads until its context ends.
type body struct {
	ctx context.Context
	r   io.Reader
}

func (b body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

func (body) Close() error { return nil }
