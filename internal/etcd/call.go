package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
)

// kind tells what it means when no answer comes.
type kind bool

const (
	reads   kind = false
	mutates kind = true
)

// rpc makes one call under a deadline and says how it ended.
func rpc[Q, R any](ctx context.Context, c *Client, d time.Duration, op string, k kind, method func(context.Context, *Q, ...grpc.CallOption) (*R, error), request *Q) (reply *R, err error) {
	err = c.call(ctx, d, op, k, func(ctx context.Context) error {
		reply, err = method(ctx, request)
		return err
	})
	return reply, err
}

// call has fn make one call. fn gets the context to call with and is run a second time
// only after a refusal for the auth token, which etcd gives before it does anything.
func (c *Client) call(ctx context.Context, d time.Duration, op string, k kind, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	token := c.currentToken()
	err := c.once(ctx, op, k, token, fn)
	if c.credential == nil || !errors.Is(err, ErrAuthRequired) {
		return err
	}
	token, authErr := c.authenticate(ctx, token)
	if authErr != nil {
		return fmt.Errorf("%s: %w", op, authErr)
	}
	return c.once(ctx, op, k, token, fn)
}

func (c *Client) once(ctx context.Context, op string, k kind, token string, fn func(ctx context.Context) error) error {
	if err := c.connect(ctx); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	var sent atomic.Bool
	ctx = context.WithValue(ctx, sentKey{}, &sent)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
	}
	err := fn(ctx)
	return wrap(op, bool(k), sent.Load(), err)
}

// sentKey carries the *atomic.Bool that sentStats sets.
type sentKey struct{}

// sentStats notes, for each call, that its request was handed to a connection.
// Before that it cannot have reached the member.
type sentStats struct{}

func (sentStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sentStats) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.OutHeader, *stats.OutPayload:
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}
}

func (sentStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentStats) HandleConn(context.Context, stats.ConnStats)                       {}
