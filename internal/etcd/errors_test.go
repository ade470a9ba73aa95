package etcd

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// How a call ended is told by etcd's words, by whether it changes something and
// by whether it was sent.
func TestWrap(t *testing.T) {
	t.Parallel()
	learner35 := status.Error(codes.Unavailable, "etcdserver: rpc not supported for learner")
	for _, c := range []struct {
		name           string
		err            error
		mutating, sent bool
		want           error
		not            error
	}{
		{"refused by strict reconfiguration", rpctypes.ErrGRPCUnhealthy, true, true, ErrUnhealthy, ErrUnknownOutcome},
		{"refused without a code", status.Error(codes.Unknown, rpctypes.ErrMemberNotEnoughStarted.Error()), true, true, ErrNotEnoughStarted, ErrUnknownOutcome},
		{"refused by a learner of 3.5", learner35, true, true, ErrLearner, ErrUnknownOutcome},
		{"refused by a learner of 3.7", rpctypes.ErrGRPCNotSupportedForLearner, false, true, ErrLearner, ErrNoAnswer},
		{"timed out in etcd", rpctypes.ErrGRPCTimeout, true, true, ErrUnknownOutcome, nil},
		{"stopped while it waited", rpctypes.ErrGRPCStopped, true, true, ErrUnknownOutcome, nil},
		{"no leader left to pass a change on to", rpctypes.ErrGRPCNoLeader, true, true, ErrUnknownOutcome, nil},
		{"no leader to read from", rpctypes.ErrGRPCNoLeader, false, true, ErrNoLeader, ErrNoAnswer},
		{"leader changed during a read", rpctypes.ErrGRPCLeaderChanged, false, true, ErrNoAnswer, ErrUnknownOutcome},
		{"words that nobody knows", status.Error(codes.Unknown, "raft proposal dropped"), true, true, ErrUnknownOutcome, nil},
		{"deadline after it was sent", status.FromContextError(context.DeadlineExceeded).Err(), true, true, context.DeadlineExceeded, ErrUnreachable},
		{"deadline before it was sent", status.FromContextError(context.DeadlineExceeded).Err(), true, false, ErrUnreachable, ErrUnknownOutcome},
		{"connection lost before it was sent", status.Error(codes.Unavailable, "connection reset"), true, false, ErrUnreachable, ErrUnknownOutcome},
		{"call that the release does not have", status.Error(codes.Unimplemented, "unknown method"), true, true, ErrNotCapable, ErrUnknownOutcome},
	} {
		got := wrap("try", c.mutating, c.sent, c.err)
		if !errors.Is(got, c.want) || (c.not != nil && errors.Is(got, c.not)) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if wrap("try", true, true, nil) != nil {
		t.Error("success is an error")
	}
}
