package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/release"
)

// Hash is an answer to HashKV. Two are of the same data only if revision and
// compact revision are the same, too.
type Hash struct {
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"` // -1: never compacted
	Hash            uint32 `json:"hash"`
}

// ErrDiffers says that what a snapshot restores to is not what was backed up.
var ErrDiffers = errors.New("the restored data differ")

// DrillOptions say what to prove.
type DrillOptions struct {
	Snapshot string
	Verified string          // as in RestoreOptions
	Site     string          // a directory of ours for the time of the drill, on a disk with room; its parent is there
	Release  release.Release // of the version that wrote the backup
	Expect   *Hash           // what a member answered when the backup was taken; nil: the snapshot's own contents
}

// Drilled is what a real etcd served.
type Drilled struct {
	Hash   Hash          `json:"hash"`
	Info   Info          `json:"info"`           // of the database after etcd has had it
	Took   time.Duration `json:"took"`           // from the restore to the answer
	Proven bool          `json:"proven"`         // the hash was compared
	Note   string        `json:"note,omitempty"` // why it was not
}

// Drill restores a snapshot into an etcd of its version that is thrown away,
// and compares what that serves. Nothing is left of it.
func Drill(ctx context.Context, o DrillOptions) (Drilled, error) {
	d, err := drill(ctx, o)
	if err != nil {
		return d, fmt.Errorf("drill with %s: %w", o.Snapshot, err)
	}
	return d, nil
}

func drill(ctx context.Context, o DrillOptions) (d Drilled, err error) {
	o.Site, err = filepath.Abs(o.Site)
	if err != nil {
		return Drilled{}, err
	}
	s, err := openSite(ctx, o.Site)
	if err != nil {
		return Drilled{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	began := time.Now()
	data := s.path("data")
	restored, err := restore(ctx, RestoreOptions{
		Snapshot: o.Snapshot, Verified: o.Verified, DataDir: data, Release: o.Release,
		Name: "throw-away", PeerURLs: []string{"http://127.0.0.1:1"}, Token: "throw-away",
	})
	if err != nil {
		return Drilled{}, err
	}
	tells, err := tellsHash(o.Release.Version)
	if err != nil {
		return Drilled{}, err
	}
	// The member was asked before its snapshot began, which may hold more: what it
	// told is compared where it was told. A compaction in between makes the two
	// incomparable, and then the snapshot's own contents decide.
	at := restored.Revision
	if o.Expect != nil {
		at = min(at, o.Expect.Revision)
	}
	told, whole, err := serve(ctx, o.Release, s, data, at, restored.Revision, tells)
	if err != nil {
		return Drilled{}, err
	}
	d.Hash = told
	if o.Expect != nil && tells && (told == Hash{} || told.CompactRevision != o.Expect.CompactRevision) {
		d.Hash, o.Expect = whole, nil
	}
	d.Took = time.Since(began)
	if d.Info, err = examine(ctx, filepath.Join(data, "member", "snap", "db")); err != nil {
		return Drilled{}, err
	}
	if !tells {
		d.Hash = d.Info.asHash()
	}
	return d, d.compare(ctx, o, tells)
}

// tellsHash says whether a release tells the hash of its contents to whoever
// asks as a peer. Releases before 3.5 have no such path, and tell it to root
// only; before 3.4.33 and 3.5.15 tombstones at the compacted revision count or
// not, depending on what the member went through. Of these, the database is
// read that etcd leaves. Source: etcd's changelogs of these releases.
func tellsHash(version string) (bool, error) {
	v, err := cluster.ParseVersion(version)
	return v.Compare(cluster.Version{Major: 3, Minor: 5, Patch: 15}) >= 0, err
}

func (i Info) asHash() Hash {
	return Hash{Revision: i.Revision, CompactRevision: i.CompactRevision, Hash: i.HashKV}
}

// serve runs an etcd until it has answered a read, and told the hash at two
// revisions if it tells it; the first is zero where it was compacted away.
func serve(ctx context.Context, r release.Release, s *site, data string, at, end int64, tells bool) (told, whole Hash, err error) {
	// One member that elects itself has nobody to wait for.
	progress.Begin(ctx, 0, "", "waiting for etcd %s to serve what was restored", r.Version)
	srv, err := startServer(r, s, data, "--heartbeat-interval=10", "--election-timeout=100")
	if err != nil {
		return Hash{}, Hash{}, err
	}
	defer srv.kill()
	within := ServesWithin(data)
	if err := srv.serves(ctx, within); err != nil {
		return Hash{}, Hash{}, err
	}
	progress.Begin(ctx, 0, "", "waiting for etcd %s to tell its hash", r.Version)
	if tells {
		if whole, err = srv.hashKV(ctx, end, within); err != nil {
			return Hash{}, Hash{}, err
		}
		if told = whole; at < end {
			if told, err = srv.hashKV(ctx, at, within); err != nil {
				told = Hash{}
			}
		}
	}
	return told, whole, srv.stop(ctx)
}

// compare holds the hash against what was expected. One that a member told
// whose releases may tell another one of the same contents proves only when it
// is the same; else the snapshot's own contents decide.
func (d *Drilled) compare(ctx context.Context, o DrillOptions, tells bool) error {
	want := o.Expect
	if want == nil || !tells && d.Hash != *want {
		info, err := examine(ctx, o.Snapshot)
		if err != nil {
			return err
		}
		if !info.HashKVTold || !tells && !d.Info.HashKVTold {
			d.Note = "too many keys to compute their hash without an etcd, and none was given to compare with"
			return nil
		}
		own := info.asHash()
		want = &own
		if info.Keys >= 0 && d.Info.Keys >= 0 && info.Keys != d.Info.Keys {
			return fmt.Errorf("%w: %d keys instead of %d", ErrDiffers, d.Info.Keys, info.Keys)
		}
	}
	if d.Hash != *want {
		return fmt.Errorf("%w: %+v instead of %+v", ErrDiffers, d.Hash, *want)
	}
	d.Proven = true
	return nil
}
