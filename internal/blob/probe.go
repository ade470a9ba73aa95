package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ProbePrefix begins the last segment of the object that Probe writes and removes again. One that is found lying around was
// left by a probe that was cut short, and means nothing.
const ProbePrefix = ".etcdadm-probe-"

// cleanUpTimeout bounds the removal of the probe object, whatever the caller's context still gives.
const cleanUpTimeout = 10 * time.Second

// leftTimeout is what is left of that once the caller's context has ended: it may be that of a daemon that ends, whose etcd
// is stopped after it, and a store that answers at all does so sooner.
const leftTimeout = time.Second

// Capabilities is what a store was seen to do.
type Capabilities struct {
	Conditional bool // writes with IfAbsent and IfMatch take effect only when they should
	NotModified bool // a read with IfNoneMatch spares the transfer of what has not changed
	List        bool // a listing shows an object as soon as it was written
	Delete      bool // an object that was deleted is gone at once
	// Problems says in a sentence each what the store cannot do and what follows from it.
	Problems []string
}

func (c *Capabilities) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// Sure is a store whose service promises what Probe tries out, so that nobody has to write into it for that.
type Sure interface {
	Capabilities() Capabilities
}

// Probe finds out what the store can do by trying it on one object below prefix (empty, or ending with a slash), which it
// removes again. A store that cannot be reached, read or written is an error, and says nothing about what it could do.
//
// It tries one thing after the other: that the store also keeps conditions when several write at once is not probed.
func Probe(ctx context.Context, store Store, prefix string) (caps Capabilities, err error) {
	if s, ok := store.(Sure); ok {
		return s.Capabilities(), nil
	}
	key := prefix + ProbePrefix + strings.ToLower(rand.Text()[:16])
	if err := ValidateKey(key); err != nil {
		return Capabilities{}, err
	}
	p := probe{store: store, key: key}
	defer func() {
		p.remove(ctx, &caps, err == nil)
		if err == nil && ctx.Err() != nil { // it is not known whether the object is gone
			caps, err = Capabilities{}, fmt.Errorf("probe store: %w", ctx.Err())
		}
	}()

	if err := p.conditions(ctx, &caps); err != nil {
		return Capabilities{}, fmt.Errorf("probe store: %w", err)
	}
	tag, err := PutBytes(ctx, store, key, []byte("probe: last"), Any)
	if err != nil {
		return Capabilities{}, fmt.Errorf("probe store: write: %w", err)
	}
	if err := p.reads(ctx, tag, &caps); err != nil {
		return Capabilities{}, fmt.Errorf("probe store: %w", err)
	}
	return caps, nil
}

type probe struct {
	store Store
	key   string
}

// conditions plays the two conditional writes through, each once where it must work and once where it must not.
func (p probe) conditions(ctx context.Context, caps *Capabilities) error {
	const consequence = "so hosts cannot agree through it on who founds a cluster: name the hosts in the spec, or run `etcdadm init` once"
	first, second := []byte("probe: first"), []byte("probe: second")

	old, err := PutBytes(ctx, p.store, p.key, first, IfAbsent)
	if errors.Is(err, ErrUnsupported) {
		caps.problem("the store refuses conditional writes, %s", consequence)
		return nil
	} else if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	switch _, err = PutBytes(ctx, p.store, p.key, second, IfAbsent); {
	case err == nil:
		caps.problem("the store overwrote an object that was to be written only if absent, %s", consequence)
		return nil
	case errors.Is(err, ErrUnsupported):
		caps.problem("the store refuses to write only if absent, %s", consequence)
		return nil
	case !errors.Is(err, ErrPreconditionFailed):
		return fmt.Errorf("write if absent: %w", err)
	}
	switch _, err = PutBytes(ctx, p.store, p.key, second, IfMatch(old)); {
	case errors.Is(err, ErrUnsupported):
		caps.problem("the store refuses to write only if unchanged, %s", consequence)
		return nil
	case errors.Is(err, ErrPreconditionFailed):
		caps.problem("the store refused a write if unchanged although nothing had changed, %s", consequence)
		return nil
	case err != nil:
		return fmt.Errorf("write if unchanged: %w", err)
	}
	switch _, err = PutBytes(ctx, p.store, p.key, first, IfMatch(old)); {
	case err == nil:
		caps.problem("the store overwrote an object that was to be written only if unchanged, %s", consequence)
		return nil
	case !errors.Is(err, ErrPreconditionFailed):
		return fmt.Errorf("write if unchanged: %w", err)
	}
	data, _, err := ReadAll(ctx, p.store, p.key, 1024)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(data, second) {
		caps.problem("a conditional write that the store confirmed is not what it returns, %s", consequence)
		return nil
	}
	caps.Conditional = true
	return nil
}

// reads looks at an object that was just written with the given ETag.
func (p probe) reads(ctx context.Context, tag ETag, caps *Capabilities) error {
	_, _, err := ReadAllIfChanged(ctx, p.store, p.key, tag, 1024)
	switch {
	case errors.Is(err, ErrNotModified):
		caps.NotModified = true
	case err == nil:
		caps.problem("the store sends objects again that have not changed, so polling it costs more")
	default:
		return fmt.Errorf("read: %w", err)
	}
	infos, err := p.store.List(ctx, p.key)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if slices.ContainsFunc(infos, func(i Info) bool { return i.Key == p.key }) {
		caps.List = true
	} else {
		caps.problem("a listing of the store does not show an object right after it was written, so commands and backups can be seen late")
	}
	return nil
}

// remove takes the probe object away, also when the probe failed or ctx has ended. The capability is judged only in a probe
// that came through.
func (p probe) remove(ctx context.Context, caps *Capabilities, judge bool) {
	caller := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), cleanUpTimeout)
	defer cancel()
	defer context.AfterFunc(caller, func() { time.AfterFunc(leftTimeout, cancel) })()
	err := p.store.Delete(ctx, p.key)
	if !judge || caller.Err() != nil {
		return
	}
	if err == nil {
		if _, _, err = ReadAll(ctx, p.store, p.key, 1024); errors.Is(err, ErrNotFound) {
			caps.Delete = true
			return
		}
		if err == nil {
			err = errors.New("it is still there")
		}
	}
	caps.problem("the store did not delete the object %q (%v), so old backups stay, and commands that were run have to be removed by hand", p.key, err)
}
