package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// SnapshotIdle ends a snapshot's stream that brings no byte for so long, while
// its reader waits for one. There is no limit to the whole: a database may be
// large and the store slow. It covers the time that etcd takes to open a
// consistent view, before the first byte.
const SnapshotIdle = 30 * time.Second

// ErrSnapshotCut says that a snapshot's stream ended before its announced end.
var ErrSnapshotCut = errors.New("snapshot stream was cut short")

// Snapshot is a database as it comes in: its bytes, then the SHA-256 of them, 32
// bytes more. Nothing of it is checked here but its length. Read and Close are
// for one goroutine.
type Snapshot struct {
	// Size is that of the database without the hash, in bytes.
	Size int64
	// StorageVersion is that of the database's schema, such as 3.6.0; empty
	// from releases before 3.6.
	StorageVersion string

	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer
	wait   time.Duration
	stream grpc.ServerStreamingClient[pb.SnapshotResponse]
	rest   []byte // of the last message
	want   int64  // bytes yet to come, by the member's word
	err    error
}

var errIdle = errors.New("no byte within the deadline")

// Snapshot begins to read the database through the member. The stream ends
// when ctx does, or after SnapshotIdle without a byte. The caller closes it.
// With auth on it needs the root role.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	return c.snapshot(ctx, SnapshotIdle)
}

func (c *Client) snapshot(ctx context.Context, idle time.Duration) (*Snapshot, error) {
	const op = "begin snapshot"
	token := c.currentToken()
	s, err := c.beginSnapshot(ctx, op, token, idle)
	if c.credential == nil || !errors.Is(err, ErrAuthRequired) {
		return s, err
	}
	// The refusal came before anything was read.
	authCtx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	token, authErr := c.authenticate(authCtx, token)
	if authErr != nil {
		return nil, fmt.Errorf("%s: %w", op, authErr)
	}
	return c.beginSnapshot(ctx, op, token, idle)
}

// beginSnapshot opens the stream and reads its first message, because that is
// where a refusal shows.
func (c *Client) beginSnapshot(ctx context.Context, op, token string, idle time.Duration) (*Snapshot, error) {
	s := &Snapshot{wait: idle}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.idle = time.AfterFunc(idle, func() { s.cancel(errIdle) })
	var first *pb.SnapshotResponse
	var empty bool
	err := c.once(s.ctx, op, reads, token, func(ctx context.Context) error {
		var err error
		if s.stream, err = c.maintenance.Snapshot(ctx, &pb.SnapshotRequest{}); err != nil {
			return err
		}
		first, err = s.stream.Recv()
		empty = errors.Is(err, io.EOF)
		return err
	})
	if empty {
		err = fmt.Errorf("%s: %w: no byte came", op, ErrSnapshotCut)
	}
	if err != nil {
		err = s.explain(err)
		s.Close()
		return nil, err
	}
	s.idle.Stop()
	s.take(first)
	s.Size = int64(len(first.Blob)) + int64(first.RemainingBytes)
	s.StorageVersion = first.Version
	return s, nil
}

func (s *Snapshot) take(m *pb.SnapshotResponse) {
	s.rest, s.want = m.Blob, int64(m.RemainingBytes)
}

// Read gives the next bytes; io.EOF once all have come and the member has said
// so. Errors: ErrNoAnswer with the reason, ErrSnapshotCut.
func (s *Snapshot) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.err = s.receive()
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// receive gets the next message that has bytes. Only the time in here counts as
// idle, not what the reader takes. Messages without bytes do not make it
// start anew: a member whose disk fails while it reads sends them without end.
// Source: maintenanceServer.Snapshot, which drops the error of Snapshot.WriteTo.
func (s *Snapshot) receive() error {
	s.idle.Reset(s.wait)
	defer s.idle.Stop()
	for {
		m, err := s.stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && s.want > 0:
			return fmt.Errorf("read snapshot: %w: %d bytes did not come", ErrSnapshotCut, s.want)
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return s.explain(wrap("read snapshot", bool(reads), true, err))
		}
		s.take(m)
		if len(m.Blob) > 0 {
			return nil
		}
	}
}

// explain names the reason when it is the stream's own context that ended.
func (s *Snapshot) explain(err error) error {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Close ends the stream; the member stops reading its database. It can be
// called again.
func (s *Snapshot) Close() error {
	s.idle.Stop()
	s.cancel(context.Canceled)
	if s.err == nil {
		s.err = fmt.Errorf("read snapshot: %w", ErrClosed)
	}
	return nil
}
