package sim

import (
	"context"
	"io"
	"strings"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// keptView is what the hosts keep, as one daemon reaches it.
type keptView struct{ d *daemon }

func (s keptView) call(op memory.Op, key string, f func() error) error {
	k, detail := kindStoreRead, ""
	switch op {
	case memory.Put:
		k, detail = kindStorePut, key
	case memory.List, memory.Delete:
		key = string(op)
	}
	dice := s.d.w.links.next("kept " + string(k) + " " + key + " " + s.d.link)
	s.d.w.pause(s.d.ctx, dice.wait(), dice)
	if err := s.d.pass(k, detail, false); err != nil {
		return err
	}
	err := f()
	if k == kindStorePut {
		s.d.w.step()
	}
	if dead := s.d.pass(k, detail, true); dead != nil {
		return dead
	}
	return err
}

// Get implements blob.Store.
func (s keptView) Get(ctx context.Context, key string, o blob.GetOptions) (out *blob.Object, err error) {
	err = s.call(memory.Get, key, func() error {
		out, err = s.d.keeping.Store().Get(ctx, key, o)
		return err
	})
	return out, err
}

// Put implements blob.Store.
func (s keptView) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (tag blob.ETag, err error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	w := s.d.w
	w.register.sends(key, data, s.d)
	err = s.call(memory.Put, key, func() error {
		tag, err = s.d.keeping.Store().Put(ctx, key, strings.NewReader(string(data)), cond)
		return err
	})
	if err == nil && strings.HasPrefix(key, backupPrefix) {
		w.shows(key, data)
	}
	return tag, err
}

// List implements blob.Store.
func (s keptView) List(ctx context.Context, prefix string) (out []blob.Info, err error) {
	err = s.call(memory.List, prefix, func() error {
		out, err = s.d.keeping.Store().List(ctx, prefix)
		return err
	})
	return out, err
}

// Delete implements blob.Store.
func (s keptView) Delete(ctx context.Context, key string) error {
	return s.call(memory.Delete, key, func() error { return s.d.keeping.Store().Delete(ctx, key) })
}
