// Package etcd asks one etcd member: the host's own, at its own client URLs. The
// one thing it asks of another is an auth token, while the own one is a learner.
//
// Invariants:
//
//   - every call ends by its context or after [CallTimeout], whichever is
//     first; only [Client.HashKV], [Client.CountKeys] and [Client.Defragment] have
//     longer, and [Client.Snapshot] as long as
//     bytes come;
//   - a call is sent at most once. Nothing is retried behind the caller's back;
//     the only repetition is after a refusal for a stale auth token, which etcd
//     gives before it does anything. This is why the raw gRPC stubs are used and
//     not etcd's Go client, whose wrappers repeat some calls;
//   - the end of a mutating call is one of three: done, refused by a sentinel
//     that says why, or [ErrUnknownOutcome]. [ErrUnreachable] means that nothing
//     was sent;
//   - [V2] keeps the same promises towards a member that has no API of version 3;
//   - the driver knows no policy: it reports, it does not decide.
//
// One connection is kept. It comes back on its own after the member restarted,
// with pauses of 50 to 500 ms, and each call tries at once whatever pause is
// running, because the time until a restarted member is seen is measured.
package etcd
