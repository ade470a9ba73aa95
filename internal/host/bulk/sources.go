package bulk

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Sources does the long work with data: it makes the source of a new generation
// ready on this host's disk, and takes backups. Nothing of it touches what a
// member runs on, except Install.
type Sources interface {
	// Stage brings the source of an order to this disk, verifies it, and builds
	// a data directory of one voter from it beside everything else, with the
	// mark of this disk. It returns what was built, durable. ErrBadSource is in
	// the chain when no other host could do better. What an earlier try under
	// this token left is overwritten.
	Stage(ctx context.Context, o StageOrder, progress func(cluster.StageState, int64)) (Built, error)
	// Install moves what was staged under a token into the place of the
	// member's data directory. Done already is no error; one that wraps
	// fs.ErrNotExist says that it is gone.
	Install(token string, disk cluster.DiskID) error
	// DropStaged takes away what was staged under a token and never ran.
	DropStaged(token string) error
	// LogEnd reads the end of the log of the member's data directory, and tells how
	// far it has come. It changes nothing, and may be called while the member runs.
	// Called again, it reads what may have changed since; one call at a time.
	LogEnd(ctx context.Context, token string, progress func(cluster.LogReading)) (cluster.Progress, error)
	// V2InLog tells whether the log of the member's data directory holds requests of
	// version 2 of the API behind its newest raft snapshot. It changes nothing, and
	// may be called while the member runs.
	V2InLog(ctx context.Context, token string) (bool, error)
	// Backup takes a backup through the member that runs like l.
	Backup(ctx context.Context, l record.Launch, o BackupOrder) (cluster.Backup, error)
	// Tidy takes away the backups that are not kept any longer, and says itself what
	// it could not; one call at a time.
	Tidy(ctx context.Context)
	// Drill restores a backup into an etcd that is thrown away, compares what it
	// serves with what was recorded, and keeps the result beside the backup. With
	// another release than that of the backup (zero: the backup's) it tells whether
	// that serves what the backup holds, and keeps nothing.
	Drill(ctx context.Context, name string, with cluster.Version) (cluster.Backup, error)
	// Survey makes what another release would begin with, key by key, of a backup or
	// of the own member's data, sees that the release serves it, throws it away, and
	// lists what cannot be carried over. Nothing is kept of it.
	// One that the end of the daemon cut short several times fails under its name.
	Survey(ctx context.Context, o SurveyOrder) (cluster.Survey, error)
	// Received tells how long ago the member of a token finished receiving a
	// snapshot from raft's leader; zero: it did not, or that cannot be seen.
	Received(token string) time.Duration
	// FreeSpace is that of the disk in bytes; zero: unknown.
	FreeSpace() int64
}

// ErrBadSource is in the chain of an error about a source that cannot be used on
// any host.
var ErrBadSource = errors.New("the source cannot be used")

// StageOrder is what is to be staged, and as what.
type StageOrder struct {
	Source   cluster.Source
	Version  cluster.Version // the release that will run it
	Token    string
	Disk     cluster.DiskID
	Name     cluster.HostID
	PeerURLs []string
	// From is the token of this host's own data directory that a survivor's
	// source is read from, and Wrote the release that wrote it.
	From string
}

// SurveyOrder is what is to be surveyed.
type SurveyOrder struct {
	Name   string          // of the rehearsal: another one with each word
	Backup string          // empty: the data of the own member, which may run
	From   string          // the token of these
	Wrote  cluster.Version // what wrote it
	To     cluster.Version
}

// Built is what lies ready.
type Built struct {
	Source  cluster.Source // with digest, revision, tool and the target that was reached
	Cluster cluster.ClusterID
	Member  cluster.MemberID
}

// BackupOrder says what a backup is taken for.
type BackupOrder struct {
	Reason  string
	Member  cluster.MemberID
	Cluster cluster.ClusterID
	Spec    *cluster.Spec // as the predecessor's readers expect it beside a backup
	Highest cluster.Progress
	KeepFor time.Duration // at least; zero: as the policy has it
}
