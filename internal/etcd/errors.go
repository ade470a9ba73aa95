package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a member answers, as far as callers decide by it. Every one but
// ErrUnknownOutcome, ErrNoAnswer and the ones about the connection is a
// refusal: the call had no effect.
var (
	// ErrUnhealthy: strict reconfiguration refused. Too few voters have been
	// connected to this member for five seconds.
	ErrUnhealthy = errors.New("unhealthy cluster")
	// ErrNotEnoughStarted: strict reconfiguration refused, because too few
	// voters have ever been started.
	ErrNotEnoughStarted = errors.New("not enough started members")
	// ErrNotReady: the learner's log is below 90 % of the leader's.
	ErrNotReady = errors.New("learner is not in sync with the leader")
	// ErrTooManyLearners: the cluster has as many learners as it accepts.
	ErrTooManyLearners = errors.New("too many learners")
	// ErrMemberNotFound: no such member, or one that was removed. An add is
	// refused by it when the member ID that etcd computes (from the peer URLs
	// and the second) was removed in that same second.
	ErrMemberNotFound = errors.New("member not found")
	// ErrMemberExists: the member ID that etcd computed is taken.
	ErrMemberExists = errors.New("member exists")
	// ErrPeerURLExists: another member has that peer URL, dead or not.
	ErrPeerURLExists = errors.New("peer URL exists")
	// ErrBadPeerURLs: etcd cannot use the peer URLs.
	ErrBadPeerURLs = errors.New("bad peer URLs")
	// ErrNotLearner: the member to promote votes already. A follower passes a
	// promotion on to the leader and tries again when that fails, so it can be
	// this very call that promoted it.
	ErrNotLearner = errors.New("member is not a learner")
	// ErrBadTransferee: leadership cannot go to a learner or a stranger.
	ErrBadTransferee = errors.New("bad leader transferee")
	// ErrNotLeader: this member is not the raft leader.
	ErrNotLeader = errors.New("not the raft leader")
	// ErrNoLeader: the member sees no raft leader.
	ErrNoLeader = errors.New("no raft leader")
	// ErrLearner: a learner serves its status and serializable reads only.
	ErrLearner = errors.New("not served by a learner")
	// ErrNotCapable: the cluster has not settled on a version that has the call.
	ErrNotCapable = errors.New("not capable yet")
	// ErrAuthRequired: auth is on, and the driver has no credential, or etcd
	// does not accept the one it has.
	ErrAuthRequired = errors.New("authentication required")
	// ErrPermission: the credential's user may not do this.
	ErrPermission = errors.New("permission denied")
	// ErrNoSpace: the database is at its quota.
	ErrNoSpace = errors.New("database space exceeded")
	// ErrCorrupt: the cluster has a CORRUPT alarm.
	ErrCorrupt = errors.New("corrupt cluster")
	// ErrCompacted: that revision is not kept any more.
	ErrCompacted = errors.New("revision was compacted")
	// ErrFutureRevision: the member has not come to that revision yet.
	ErrFutureRevision = errors.New("revision is yet to come")

	// ErrUnreachable: there was no connection to the member, so the call was
	// not sent.
	ErrUnreachable = errors.New("member unreachable")
	// ErrNoAnswer: a call that only reads was sent and not answered.
	ErrNoAnswer = errors.New("no answer")
	// ErrUnknownOutcome: a call that changes something was sent, or may have
	// been, and nobody knows whether it took effect. Only a linearizable
	// member list settles it.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrClosed: the driver was closed.
	ErrClosed = errors.New("driver closed")
)

// refusals maps etcd's own words to sentinels. It goes by the words and not by
// the gRPC code, because codes of the same refusal differ between 3.5, 3.6 and
// 3.7 ("rpc not supported for learner" is Unavailable in 3.5 and
// FailedPrecondition in 3.7) while the words do not, and because "not enough
// started members" comes without a code of its own in all of them. Source:
// api/v3rpc/rpctypes/error.go and server/etcdserver/api/v3rpc/util.go of
// 3.5.35, 3.6.16 and 3.7.3.
var refusals = func() map[string]error {
	m := make(map[string]error)
	for _, r := range []struct{ theirs, ours error }{
		{rpctypes.ErrGRPCUnhealthy, ErrUnhealthy},
		{rpctypes.ErrGRPCMemberNotEnoughStarted, ErrNotEnoughStarted},
		{rpctypes.ErrGRPCLearnerNotReady, ErrNotReady},
		{rpctypes.ErrGRPCTooManyLearners, ErrTooManyLearners},
		{rpctypes.ErrGRPCMemberNotFound, ErrMemberNotFound},
		{rpctypes.ErrGRPCMemberExist, ErrMemberExists},
		{rpctypes.ErrGRPCPeerURLExist, ErrPeerURLExists},
		{rpctypes.ErrGRPCMemberBadURLs, ErrBadPeerURLs},
		{rpctypes.ErrGRPCMemberNotLearner, ErrNotLearner},
		{rpctypes.ErrGRPCBadLeaderTransferee, ErrBadTransferee},
		{rpctypes.ErrGRPCNotLeader, ErrNotLeader},
		{rpctypes.ErrGRPCNoLeader, ErrNoLeader},
		{rpctypes.ErrGRPCNotSupportedForLearner, ErrLearner},
		{rpctypes.ErrGRPCNotCapable, ErrNotCapable},
		{rpctypes.ErrGRPCUserEmpty, ErrAuthRequired},
		{rpctypes.ErrGRPCAuthFailed, ErrAuthRequired},
		{rpctypes.ErrGRPCUserNotFound, ErrAuthRequired}, // a client certificate's name that is no user's
		{rpctypes.ErrGRPCInvalidAuthToken, ErrAuthRequired},
		{rpctypes.ErrGRPCAuthOldRevision, ErrAuthRequired},
		{rpctypes.ErrGRPCPermissionDenied, ErrPermission},
		{rpctypes.ErrGRPCNoSpace, ErrNoSpace},
		{rpctypes.ErrGRPCCorrupt, ErrCorrupt},
		{rpctypes.ErrGRPCCompacted, ErrCompacted},
		{rpctypes.ErrGRPCFutureRev, ErrFutureRevision},
	} {
		m[status.Convert(r.theirs).Message()] = r.ours
	}
	return m
}()

// wrap says how a call ended. sent tells whether the request may have left.
func wrap(op string, mutating, sent bool, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	if ours, ok := refusals[st.Message()]; ok {
		if mutating && errors.Is(ours, ErrNoLeader) {
			// Promotion through a follower ends so when an earlier try of it
			// may have reached the leader. Source: EtcdServer.PromoteMember.
			return fmt.Errorf("%s: %w: %w", op, ErrUnknownOutcome, ours)
		}
		return fmt.Errorf("%s: %w", op, ours)
	}
	if st.Code() == codes.Unimplemented {
		return fmt.Errorf("%s: %w: %s", op, ErrNotCapable, st.Message())
	}
	cause := errors.New(st.Message())
	switch st.Code() {
	case codes.DeadlineExceeded:
		cause = context.DeadlineExceeded
	case codes.Canceled:
		cause = context.Canceled
	}
	switch {
	case !sent:
		return fmt.Errorf("%s: %w: %w", op, ErrUnreachable, cause)
	case mutating:
		return fmt.Errorf("%s: %w: %w", op, ErrUnknownOutcome, cause)
	default:
		return fmt.Errorf("%s: %w: %w", op, ErrNoAnswer, cause)
	}
}
