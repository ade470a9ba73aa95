package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"etcdadm.io/cluster"
)

// etcd 3.5 (seen with 3.5.35) can write into its database that members were removed
// which are there. When it is the first 3.5 on the data of a 3.4 that nobody has
// written a key to since its members were added, it replays the whole log, and with
// the first member in it takes those that come later in the log for left over
// (CleanupZombieMembersIfNeeded in server/etcdserver/api/membership/cluster.go). The
// replay adds them again, but to members_removed they belong from then on. 3.5 goes by
// the store of version 2 of the API and does not mind. 3.6 goes by the database: it
// refuses the others for good, tells them that they were removed, and they end, so that
// the first member of 3.6 takes the quorum with it.
// Held by TestFalseRemovals and, with daemons, TestUpgradeOfNeverWrittenCluster.

// RemovalsMatter says whether a release goes by what the database says of removals.
func RemovalsMatter(v cluster.Version) bool { return v.AtLeast(3, 6) }

// RemovalsLast says whether what is mended before a release is started stays so. A
// leader of 3.5 sends its database to members of 3.6 that lag, as it is; 3.5 writes
// wrong removals only when entries are new to its database, which those of a log that it
// has replayed once are not.
func RemovalsLast(v cluster.Version) bool { return v.AtLeast(3, 5) }

// MendRemovals takes members out of the list of removed ones of a data directory that
// no process uses, and returns which; with an error, which it should have. It does so
// only where the same database has the member, and raft's configuration in it, too:
// etcd takes a member that was removed out of both, and never gives its ID again.
// Everything else is left as it is. Databases that another member sent, and that etcd
// may put in the place of the own one at its start, are mended alike. A directory
// without a database is no error; bbolt's lock keeps it from one that is in use.
func MendRemovals(dataDir string) (wrong []cluster.MemberID, err error) {
	snap := filepath.Join(dataDir, "member", "snap")
	paths, err := filepath.Glob(filepath.Join(snap, "*.snap.db"))
	if err != nil {
		return nil, err
	}
	if own := filepath.Join(snap, "db"); exists(own) {
		paths = append(paths, own)
	}
	ctx := context.Background() // what asks before a start has none; where nothing is wrong, little is read
	for _, path := range paths {
		of, e := falselyRemoved(ctx, path)
		if e == nil && len(of) > 0 {
			e = unremove(ctx, path, of)
		}
		for _, id := range of {
			if !slices.Contains(wrong, id) {
				wrong = append(wrong, id)
			}
		}
		err = errors.Join(err, e)
	}
	return wrong, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func unremove(ctx context.Context, path string, wrong []cluster.MemberID) error {
	change := bucketChange{bucket: bucketMembersRemoved}
	for _, id := range wrong {
		change.deletes = append(change.deletes, []byte(id.String()))
	}
	err := checkFile(ctx, path)
	if err != nil {
		return fmt.Errorf("take existing members out of the list of removed members: %w", err)
	}
	err = guarded(func() (err error) {
		// As etcd opens it, with the free pages looked for: this one is synced.
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: lockWait})
		if err != nil {
			return err
		}
		defer func() {
			if e := db.Close(); err == nil {
				err = e
			}
		}()
		return db.Update(change.apply)
	})
	if err != nil {
		return fmt.Errorf("take existing members out of the list of removed members: %w", err)
	}
	return nil
}

func falselyRemoved(ctx context.Context, path string) ([]cluster.MemberID, error) {
	db, err := openDatabase(ctx, path, only(bucketMeta, bucketMembers, bucketMembersRemoved))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var h header
	if err := guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error { return readMembers(tx, &h) })
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(h.removed, func(id cluster.MemberID) bool {
		has := slices.ContainsFunc(h.members, func(m cluster.Member) bool { return m.ID == id })
		return !has || !slices.Contains(h.voters, id) && !slices.Contains(h.learners, id)
	}), nil
}
