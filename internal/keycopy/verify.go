package keycopy

import (
	"context"
	"fmt"

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
			there.add(c.hasher, []byte(key), []byte(value), int64(min(1, expires)))
			return nil
		},
		dir: func(string, int64, bool) error { return nil },
	})
	c.Revision = at
	if err != nil || c.hidden.count == 0 {
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
	again := carrier{to: V2, lose: c.skip, carry: func(p pair) error {
		if !isHidden(p.key) {
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
