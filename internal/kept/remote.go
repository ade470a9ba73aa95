// Package kept is the store of a cluster that has no shared one: what its hosts keep, on their own disks. The control record
// is kept by a few of them together (package blob/hosts), each backup by a majority of all, and what only tells of now by the
// host that says it.
package kept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/peer"
)

// chunk is how much of an object one answer brings, in bytes: with Base64 it fits a message of a daemon.
const chunk = 2 << 20

// Client asks one daemon.
type Client interface {
	Keep(context.Context, peer.KeepRequest) (peer.KeepReply, error)
}

// Remote is the store as one daemon sees it, or what that host has on its own disk. It implements blob.Store.
type Remote struct {
	Client Client
	Own    bool
}

// problems are the sentinels that travel by name.
var problems = map[string]error{
	"not-found": blob.ErrNotFound, "not-modified": blob.ErrNotModified, "precondition": blob.ErrPreconditionFailed, "invalid-key": blob.ErrInvalidKey,
	"too-large": blob.ErrTooLarge, "unsupported": blob.ErrUnsupported, "read-only": blob.ErrReadOnly,
}

// failure is what came of an object with an error.
func failure(err error) *peer.ObjectReply {
	r := &peer.ObjectReply{Error: err.Error()}
	for name, sentinel := range problems {
		if errors.Is(err, sentinel) {
			r.Problem = name
		}
	}
	return r
}

// told is an error that another host gave.
type told struct {
	text  string
	cause error
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.cause }

func (r Remote) ask(ctx context.Context, q peer.ObjectRequest) (*peer.ObjectReply, error) {
	q.Own = r.Own
	reply, err := r.Client.Keep(ctx, peer.KeepRequest{Object: &q})
	switch {
	case err != nil:
		return nil, err
	case reply.Object == nil:
		return nil, errors.New("the daemon answered something else")
	case reply.Object.Error != "":
		return nil, &told{reply.Object.Error, problems[reply.Object.Problem]}
	}
	return reply.Object, nil
}

// Get implements blob.Store.
func (r Remote) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	first, err := r.ask(ctx, peer.ObjectRequest{Op: peer.ObjectGet, Key: key, IfNoneMatch: string(o.IfNoneMatch)})
	if err != nil {
		return nil, err
	}
	body := &body{ctx: ctx, r: r, key: key, tag: first.ETag, size: first.Size, at: int64(len(first.Data)), here: bytes.NewReader(first.Data)}
	return &blob.Object{Body: body, ETag: blob.ETag(first.ETag), Size: first.Size, Modified: first.Modified}, nil
}

// body reads an object piece by piece.
type body struct {
	ctx      context.Context //nolint:containedctx // the body of a Get ends with the Get's
	r        Remote
	key, tag string
	size, at int64
	here     *bytes.Reader
}

func (b *body) Read(p []byte) (int, error) {
	for b.here.Len() == 0 {
		if b.at >= b.size {
			return 0, io.EOF
		}
		next, err := b.r.ask(b.ctx, peer.ObjectRequest{Op: peer.ObjectGet, Key: b.key, Offset: b.at, ETag: b.tag})
		if err != nil {
			return 0, fmt.Errorf("read %q on from byte %d: %w", b.key, b.at, err)
		}
		if len(next.Data) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		b.at += int64(len(next.Data))
		b.here = bytes.NewReader(next.Data)
	}
	return b.here.Read(p)
}

func (b *body) Close() error { return nil }

// Seek goes to another place in the object, counted from its beginning; nothing is transferred for it.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart || offset < 0 {
		return 0, errors.ErrUnsupported
	}
	b.at, b.here = offset, bytes.NewReader(nil)
	return offset, nil
}

// Put implements blob.Store, for what fits one message: backups are taken by daemons. Errors: blob.ErrTooLarge.
func (r Remote) Put(ctx context.Context, key string, from io.Reader, cond blob.Condition) (blob.ETag, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxPut+1))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fmt.Errorf("write %q: read what is to be written: %w", key, err)
	case len(data) > maxPut:
		return "", fmt.Errorf("write %q: %w: at most %d bytes", key, blob.ErrTooLarge, maxPut)
	}
	if err := blob.Still(ctx); err != nil {
		return "", err
	}
	reply, err := r.ask(ctx, peer.ObjectRequest{Op: peer.ObjectPut, Key: key, Condition: string(cond), Data: data})
	if err != nil {
		return "", err
	}
	return blob.ETag(reply.ETag), nil
}

// maxPut bounds what is written through a daemon, in bytes.
const maxPut = 256 << 10

// List implements blob.Store.
func (r Remote) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	reply, err := r.ask(ctx, peer.ObjectRequest{Op: peer.ObjectList, Key: prefix})
	if err != nil {
		return nil, err
	}
	var out []blob.Info
	for _, o := range reply.Objects {
		out = append(out, blob.Info(o))
	}
	blob.Heard(ctx, len(out))
	return out, nil
}

// Delete implements blob.Store.
func (r Remote) Delete(ctx context.Context, key string) error {
	_, err := r.ask(ctx, peer.ObjectRequest{Op: peer.ObjectDelete, Key: key})
	return err
}

// Serve answers a request about an object of a store.
func Serve(ctx context.Context, store blob.Store, q peer.ObjectRequest) *peer.ObjectReply {
	switch q.Op {
	case peer.ObjectGet:
		reply, err := piece(ctx, store, q)
		if err != nil {
			return failure(err)
		}
		return reply
	case peer.ObjectPut:
		tag, err := store.Put(ctx, q.Key, bytes.NewReader(q.Data), blob.Condition(q.Condition))
		if err != nil {
			return failure(err)
		}
		return &peer.ObjectReply{ETag: string(tag)}
	case peer.ObjectList:
		infos, err := store.List(ctx, q.Key)
		if err != nil {
			return failure(err)
		}
		reply := new(peer.ObjectReply)
		for _, i := range infos {
			reply.Objects = append(reply.Objects, peer.ObjectInfo(i))
		}
		return reply
	case peer.ObjectDelete:
		if err := store.Delete(ctx, q.Key); err != nil {
			return failure(err)
		}
		return new(peer.ObjectReply)
	}
	return failure(fmt.Errorf("%q is not done with objects by this release", q.Op))
}

func piece(ctx context.Context, store blob.Store, q peer.ObjectRequest) (*peer.ObjectReply, error) {
	o, err := store.Get(ctx, q.Key, blob.GetOptions{IfNoneMatch: blob.ETag(q.IfNoneMatch)})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	if q.ETag != "" && q.ETag != string(o.ETag) {
		return nil, fmt.Errorf("%q was written anew while it was read", q.Key)
	}
	if q.Offset > 0 {
		seeker, ok := o.Body.(io.Seeker)
		err = errors.ErrUnsupported
		if ok {
			_, err = seeker.Seek(q.Offset, io.SeekStart)
		}
		if errors.Is(err, errors.ErrUnsupported) {
			_, err = io.CopyN(io.Discard, o.Body, q.Offset)
		}
		if err != nil {
			return nil, fmt.Errorf("read %q from byte %d: %w", q.Key, q.Offset, err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(o.Body, chunk))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", q.Key, err)
	}
	return &peer.ObjectReply{Data: data, ETag: string(o.ETag), Size: o.Size, Modified: o.Modified}, nil
}

// merged are lists as one, in order: of a key that several hosts have the newest.
func merged(lists ...[]blob.Info) []blob.Info {
	by := map[string]blob.Info{}
	for _, list := range lists {
		for _, i := range list {
			if had, ok := by[i.Key]; !ok || i.Modified.After(had.Modified) {
				by[i.Key] = i
			}
		}
	}
	var out []blob.Info
	for _, i := range by {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b blob.Info) int { return compare(a.Key, b.Key) })
	return out
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// otherTimeout bounds a small question to one other host.
const otherTimeout = 3 * time.Second
