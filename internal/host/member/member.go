// Package member asks the host's own etcd member, changes the membership through it, and has
// its database looked after. Before each change it looks, through raft, whether things are
// as the op relies on (SAFETY.md, rule 3).
package member

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// Member is the host's own etcd member, asked at its own client URL. The driver
// internal/etcd implements it, and so does the simulator's etcd. A call without a word of
// its own ends by its context or after five seconds, whichever comes first.
//
// A Member that also is an io.Closer is closed when the host is done with it.
type Member interface {
	Asker
	Changer
	Maintainer
}

// Asker answers questions.
type Asker interface {
	Status(ctx context.Context) (cluster.MemberStatus, error)
	// LocalStatus is Status without a read through a quorum: the member's own word.
	LocalStatus(ctx context.Context) (cluster.MemberStatus, error)
	View(ctx context.Context, linearizable bool) (cluster.MemberView, error)
	// Agreed is what the members have agreed on.
	Agreed(ctx context.Context) (cluster.Agreement, error)
}

// Changer makes changes through raft. An error wraps etcd.ErrUnknownOutcome or that of the
// context when the change may have taken effect; every other error, also
// etcd.ErrUnreachable whatever it wraps, means that nothing was changed.
type Changer interface {
	AddMember(ctx context.Context, peerURLs []string, learner bool) (cluster.Member, error)
	Promote(ctx context.Context, id cluster.MemberID) error
	Remove(ctx context.Context, id cluster.MemberID) error
	UpdatePeerURLs(ctx context.Context, id cluster.MemberID, peerURLs []string) error
	MoveLeader(ctx context.Context, to cluster.MemberID) error
	// Downgrade has etcd make ready for members of the line before, and
	// CancelDowngrade takes that back.
	Downgrade(ctx context.Context, to cluster.Version) error
	CancelDowngrade(ctx context.Context) error
	// Compact has the members forget what was before a revision, and Disarm takes
	// an alarm of a member back. What was done before is no error.
	Compact(ctx context.Context, revision int64) error
	Disarm(ctx context.Context, alarm string, member cluster.MemberID) error
}

// Maintainer works on the member's database. Both calls take their time.
type Maintainer interface {
	// HashKV hashes the keys up to a revision.
	HashKV(ctx context.Context, revision int64) (etcd.KVHash, error)
	// Defragment writes the database anew.
	Defragment(ctx context.Context, limit time.Duration) error
}
