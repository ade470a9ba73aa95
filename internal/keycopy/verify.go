package keycopy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// mark is what two sides are compared by: how many keys, and a digest over names,
// values and leases.
type mark struct{ digest }

func (m *mark) add(h *hasher, key, value []byte, lease int64) {
	m.digest.add(h.of(lease, key, value))
}

// verify reads the target back.
func (c *copier) verify(ctx context.Context) error {
	var there mark
	var err error
	switch to := c.to.(type) {
	case *v3:
		there, err = c.markV3(ctx, to)
	case *v2:
		there, err = c.markV2(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if there != c.read {
		return fmt.Errorf("verify: %w: %d keys with digest %s instead of %d with %s",
			ErrDiffers, there.count, &there.digest, c.read.count, &c.read.digest)
	}
	c.Digest = there.String()
	c.terms.mu.Lock()
	c.Leases = int64(len(c.terms.known))
	c.terms.mu.Unlock()
	return nil
}

func (c *copier) markV3(ctx context.Context, to *v3) (mark, error) {
	at, err := to.position(ctx)
	if err != nil {
		return mark{}, err
	}
	c.Revision = at
	var there mark
	err = to.walk(ctx, at, func(kv *mvccpb.KeyValue) error {
		there.add(c.hasher, kv.Key, kv.Value, kv.Lease)
		return nil
	})
	if err != nil {
		return mark{}, err
	}
	return there, c.terms.verify(ctx, to)
}

func (c *copier) markV2(ctx context.Context, to *v2) (mark, error) {
	var there mark
	at, err := to.walk(ctx, v2Visitor{
		key: func(key, value string, expires int64) error {
			if b, is := c.brief[key]; is {
				return c.arrived(key, b, value, expires != 0)
			}
			there.add(c.hasher, []byte(key), []byte(value), min(1, expires))
			return nil
		},
		dir: func(v2Dir) error { return nil },
	})
	c.Revision = at
	if err != nil {
		return there, err
	}
	if err := c.rest(ctx, to); err != nil || c.hidden.count == 0 {
		return there, err
	}
	hidden, err := c.markHidden(ctx, to)
	if err == nil && hidden != c.hidden {
		err = fmt.Errorf("%w: %d hidden keys instead of %d, or others", ErrDiffers, hidden.count, c.hidden.count)
	}
	return there, err
}

// markHidden asks for each hidden key by its name.
func (c *copier) markHidden(ctx context.Context, to *v2) (mark, error) {
	var there mark
	again := carrier{to: V2, lose: c.skip, pass: c.skip, carry: func(p pair) error {
		if !isHidden(p.key) || c.terms.lease(p) != 0 {
			return nil
		}
		node, err := to.get(ctx, string(p.key))
		if err != nil || node == nil {
			return err // one that is not there is missing in the mark
		}
		lease := int64(0)
		if node.Expiration != nil {
			lease = 1
		}
		there.add(c.hasher, []byte(node.Key), []byte(node.Value), lease)
		return nil
	}}
	_, err := again.run(ctx, c.from, c.At)
	return there, err
}

func (c *copier) skip(Kind, []byte) error { return nil }

// brief is a key that expires, in a target of version 2, which may take it away at any
// moment: each is looked for by itself.
type brief struct {
	sum            [sha256.Size]byte // of its value
	lease, expires int64             // as in a pair
}

// arrived holds one that is there against what was read.
func (c *copier) arrived(key string, b brief, value string, expires bool) error {
	if c.hasher.of(0, []byte(value)) != b.sum || !expires {
		return fmt.Errorf("%w: key %s has another value, or no TTL", ErrDiffers, show([]byte(key)))
	}
	delete(c.brief, key)
	return nil
}

// rest looks for those that were not listed: they are hidden, or have run out.
func (c *copier) rest(ctx context.Context, to *v2) error {
	for key, b := range c.brief {
		node, err := to.get(ctx, key)
		if err != nil {
			return err
		}
		if node != nil {
			if err := c.arrived(key, b, node.Value, node.Expiration != nil); err != nil {
				return err
			}
			continue
		}
		expires := b.expires
		if b.lease != 0 {
			expires = c.terms.of(b.lease).expires
			c.RanOut++
		}
		if time.Until(time.Unix(expires, 0)) > clockTolerance {
			return fmt.Errorf("%w: key %s is not there, and has not run out", ErrDiffers, show([]byte(key)))
		}
	}
	return nil
}
