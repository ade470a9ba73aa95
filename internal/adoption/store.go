package adoption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// storeTimeout bounds what is read or written in the store at one time: a few small
// objects, also over a slow line. The store that was opened may fall silent later.
const storeTimeout = 30 * time.Second

// SilentError is that the backup store did not answer within storeTimeout. What was
// being written may be there or not; whoever goes on looks first.
type SilentError struct {
	What string // was asked of it
	Err  error
}

func (e *SilentError) Error() string {
	return fmt.Sprintf("the backup store did not answer within %s, asked to %s: %v", storeTimeout, e.What, e.Err)
}

func (e *SilentError) Unwrap() error { return e.Err }

// Hint is the way out.
func (e *SilentError) Hint() string {
	return "what was done stands: run the same again once the store answers, and it goes on from what is there"
}

// atStore gives a call to the store its deadline.
func atStore(ctx context.Context, what string, call func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := call(within)
	if err != nil && ctx.Err() == nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		return &SilentError{what, err}
	}
	return err
}

// readJoining is what is written down about the adoption.
func readJoining(ctx context.Context, f *control.Folder) (now *control.Joining, tag blob.ETag, err error) {
	err = atStore(ctx, "read how far the joining is", func(ctx context.Context) (err error) {
		now, tag, err = f.ReadJoining(ctx)
		return err
	})
	return now, tag, err
}

// readIntent is the cluster's record, or the marker of one that something else founded.
func readIntent(ctx context.Context, f *control.Folder) (in *cluster.Intent, marker bool, err error) {
	err = atStore(ctx, "read the cluster's record", func(ctx context.Context) (err error) {
		in, marker, _, err = f.ReadIntent(ctx)
		return err
	})
	return in, marker, err
}

func readSpec(ctx context.Context, f *control.Folder) (read control.SpecRead, err error) {
	err = atStore(ctx, "read the spec", func(ctx context.Context) (err error) {
		read, err = f.ReadSpec(ctx)
		return err
	})
	return read, err
}

// markForeign makes the store one of a cluster that something else founded.
func markForeign(ctx context.Context, f *control.Folder, spec cluster.Spec) error {
	return atStore(ctx, "write down that something else founded this cluster", func(ctx context.Context) error {
		return f.MarkForeign(ctx, spec, time.Now())
	})
}
