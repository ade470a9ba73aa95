package keycopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"etcdadm.io/internal/progress"
)

// listTimeout is what an etcd of version 2 may take until the first byte of a listing:
// it goes through all of its keys and has all of the answer in memory before.
const listTimeout = 10 * time.Minute

// errSilent is that an etcd stopped sending.
var errSilent = errors.New("etcd sends nothing more")

// listing is one answer with any number of keys, which may take as long as it comes in.
// What is waited for is the next byte. Only etcd's time counts, and not what is done with
// the keys.
type listing struct {
	ctx    context.Context // ends with the patience
	cancel context.CancelCauseFunc
	timer  *time.Timer
	bound  time.Duration // of the wait that is under way, or was the last one
	body   io.Reader
	bytes  int64
	keys   int64
	step   *progress.Step
}

func beginListing(ctx context.Context, what string) *listing {
	l := &listing{bound: listTimeout, step: progress.Begin(ctx, 0, progress.Keys, "%s", what)}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(listTimeout, func() { l.cancel(errSilent) })
	return l
}

// of is the answer, which has begun to come in.
func (l *listing) of(body io.Reader) io.Reader {
	l.timer.Stop()
	l.bound, l.body = pageTimeout, body
	return l
}

func (l *listing) Read(p []byte) (int, error) {
	l.timer.Reset(pageTimeout)
	n, err := l.body.Read(p)
	l.timer.Stop()
	l.bytes += int64(n)
	return n, err
}

// counted is one more key.
func (l *listing) counted() {
	l.keys++
	l.step.Add(1)
}

// end says how far it came where it was etcd that fell silent.
func (l *listing) end(err error) error {
	l.timer.Stop()
	silent := err != nil && errors.Is(context.Cause(l.ctx), errSilent)
	l.cancel(context.Canceled)
	if silent { // the error is that it was called off, which nobody outside did
		return fmt.Errorf("%w, for %s, after %d keys in %d bytes", errSilent, l.bound, l.keys, l.bytes)
	}
	return err
}
