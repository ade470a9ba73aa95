package backupstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/progress"
)

// watch ends a transfer that stands still.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newWatch(ctx context.Context) *watch {
	w := &watch{}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(StallAfter, func() { w.cancel(ErrStalled) })
	return w
}

// end stops the watch and what still runs under its context.
func (w *watch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// explain says when it was the watch that ended the transfer.
func (w *watch) explain(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), ErrStalled) {
		return fmt.Errorf("%w: no byte for %s: %w", ErrStalled, StallAfter, err)
	}
	return err
}

// uploaded is a body that the store reads. Only the store's time counts as
// standing still, not what the source takes.
type uploaded struct {
	r     io.Reader
	watch *watch
}

func (u uploaded) Read(p []byte) (int, error) {
	u.watch.timer.Stop()
	defer u.watch.timer.Reset(StallAfter)
	return u.r.Read(p)
}

// download is an object as it comes in, counted and hashed. It keeps the store's
// error, so that what is read through it can tell a transfer that broke from
// content that is bad.
type download struct {
	counted
	body  io.ReadCloser
	size  int64 // as announced
	step  *progress.Step
	watch *watch
	err   error // not io.EOF
}

func (c *Catalogue) download(ctx context.Context, key string) (*download, error) {
	w := newWatch(ctx)
	object, err := c.store.Get(w.ctx, key, blob.GetOptions{})
	if err != nil {
		err = w.explain(err)
		w.end()
		return nil, err
	}
	w.timer.Stop()
	step := progress.Begin(ctx, object.Size, progress.Bytes, "reading %s from the store", key)
	return &download{counted: *newCounted(object.Body), body: object.Body, size: object.Size, watch: w, step: step}, nil
}

func (d *download) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	d.watch.timer.Reset(StallAfter)
	n, err := d.counted.Read(p)
	d.watch.timer.Stop()
	d.step.Add(int64(n))
	switch {
	case err == io.EOF && d.counted.size != d.size: //nolint:errorlint // a wrapped one is no end
		d.err = fmt.Errorf("read object: got %d bytes of %d: %w", d.counted.size, d.size, io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF: //nolint:errorlint // see above
		d.err = fmt.Errorf("read object: %w", d.watch.explain(err))
	default:
		return n, err
	}
	return n, d.err
}

// drain reads what is left, so that all was counted.
func (d *download) drain() error {
	_, err := io.Copy(io.Discard, d)
	return err
}

func (d *download) Close() error {
	defer d.watch.end()
	return d.body.Close()
}
