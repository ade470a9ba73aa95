package keycopy

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// carrier goes through a source and tells what has a place in the target and
// what has none. It is the one place for these rules.
type carrier struct {
	to API
	// carry gets every key that has a place, once, and may keep it.
	carry func(pair) error
	// lose gets everything that cannot be carried over as it is. Of some kinds the
	// key itself is carried nevertheless (see Kind.carried).
	lose func(kind Kind, name []byte) error
	// pass gets what lose would, of what runs out soon (see passingWithin).
	pass func(kind Kind, name []byte) error
	// every gets each key of a source of version 3, before all else. May be nil.
	every func(*mvccpb.KeyValue) error

	began time.Time // the run
}

// passingWithin is how soon a key or directory of version 2 runs out that a person is
// not asked about, unless its client renews it: as long as a rehearsal counts. The list
// that a person accepts must not become another one because time goes by, and who gives
// a key a TTL has to bear that it is gone.
const passingWithin = time.Hour

// loseUntil is lose or pass, by when it runs out.
func (c *carrier) loseUntil(expires int64, kind Kind, name []byte) error {
	if expires != 0 && time.Unix(expires, 0).Before(c.began.Add(passingWithin)) {
		return c.pass(kind, name)
	}
	return c.lose(kind, name)
}

// run goes through the source, and returns at which revision or index. A source
// of version 3 is read at the given one.
func (c *carrier) run(ctx context.Context, source side, at int64) (int64, error) {
	c.began = time.Now()
	switch s := source.(type) {
	case *v2:
		return c.fromV2(ctx, s)
	case *v3:
		return at, c.fromV3(ctx, s, at)
	}
	return 0, ErrUnsupported
}

func (c *carrier) fromV2(ctx context.Context, s *v2) (int64, error) {
	return s.walk(ctx, v2Visitor{
		key: func(key, value string, expires int64) error {
			if suspect(key) {
				// Nothing is found by a name that etcd cannot write in JSON.
				node, err := s.get(ctx, key)
				if err != nil {
					return fmt.Errorf("look for a key: %w", err)
				}
				if node == nil {
					return c.loseUntil(expires, UnreadableName, []byte(key))
				}
			}
			if suspect(value) {
				if err := c.loseUntil(expires, MaybeBinary, []byte(key)); err != nil {
					return err
				}
			}
			return c.carry(pair{key: []byte(key), value: []byte(value), expires: expires})
		},
		dir: func(d v2Dir) error {
			switch {
			case d.hasTTL:
				return c.loseUntil(d.expires, DirectoryTTL, []byte(d.key))
			case d.lasting == 0:
				// Also one with keys that expire: whether they have is a matter of the
				// moment, and the list has to be the same before and after.
				return c.loseUntil(d.expires, EmptyDirectory, []byte(d.key))
			}
			return nil
		},
	})
}

func (c *carrier) fromV3(ctx context.Context, s *v3, at int64) error {
	visit := func(p pair) error { return c.carry(p) }
	t := tree{c: c, reread: func(key []byte) (*mvccpb.KeyValue, error) { return s.reread(ctx, key, at) }}
	if c.to == V2 {
		visit = t.visit
	}
	err := s.walk(ctx, at, func(kv *mvccpb.KeyValue) error {
		if c.every != nil {
			if err := c.every(kv); err != nil {
				return err
			}
		}
		return visit(pair{key: kv.Key, value: kv.Value, lease: kv.Lease})
	})
	if err != nil {
		return err
	}
	return t.flush(nil)
}

// reread reads one key again.
func (s *v3) reread(ctx context.Context, key []byte, at int64) (*mvccpb.KeyValue, error) {
	reply, err := s.rangeOnce(ctx, &pb.RangeRequest{Key: key, Revision: at, Serializable: true})
	if err != nil {
		return nil, err
	}
	if len(reply.Kvs) != 1 {
		return nil, fmt.Errorf("%w: key %s is not there any more", ErrSourceChanged, show(key))
	}
	return reply.Kvs[0], nil
}

// tree finds the keys of version 3 that have a place in the tree of version 2,
// where a name is that of a key or of a directory, not of both: then the
// directory is kept, and the key is lost.
//
// Keys come in the order of bytes, in which others lie between a key and what
// is in the directory of its name ("/a", "/a-b", "/a/b"). Those that may still
// turn out to be directories wait; each begins with the one before it.
type tree struct {
	c       *carrier
	waiting []pair
	held    int // bytes of values among them
	reread  func(key []byte) (*mvccpb.KeyValue, error)
}

// mostHeld is how many bytes of values wait; more are read again when it is
// their turn.
const mostHeld = 4 << 20

func (t *tree) visit(p pair) error {
	switch {
	case !isPath(p.key):
		return t.c.lose(NotAPath, p.key)
	case !utf8.Valid(p.value):
		return t.c.lose(NotText, p.key)
	}
	if err := t.flush(p.key); err != nil {
		return err
	}
	for i := 0; i < len(t.waiting); i++ {
		if w := t.waiting[i]; below(p.key, w.key) {
			t.held -= len(w.value)
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			i--
			if err := t.c.lose(LeafAndDirectory, w.key); err != nil {
				return err
			}
		}
	}
	if t.held+len(p.value) > mostHeld {
		p.value = nil
		p.expires = againLater
	}
	t.held += len(p.value)
	t.waiting = append(t.waiting, p)
	return nil
}

// againLater, as a pair's expiry while it waits, says that its value was let go.
const againLater = -1

// flush carries what cannot be a directory any more, now that next has come; nil
// is the end.
func (t *tree) flush(next []byte) error {
	kept := t.waiting[:0]
	for _, w := range t.waiting {
		if next != nil && !past(next, w.key) {
			kept = append(kept, w)
			continue
		}
		t.held -= len(w.value)
		if err := t.pass(w); err != nil {
			return err
		}
	}
	clear(t.waiting[len(kept):])
	t.waiting = kept
	return nil
}

func (t *tree) pass(p pair) error {
	if p.expires == againLater {
		kv, err := t.reread(p.key)
		if err != nil {
			return err
		}
		p = pair{key: p.key, value: kv.Value, lease: kv.Lease}
	}
	if isHidden(p.key) {
		if err := t.c.lose(Hidden, bytes.Clone(p.key)); err != nil {
			return err
		}
	}
	return t.c.carry(p)
}
