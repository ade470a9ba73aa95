package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"go.etcd.io/bbolt"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
)

// AuthOff turns authentication off in the database of a data directory that
// nobody runs on and that will be thrown away, so that its keys can be read
// without anybody's password. Users and roles stay.
func AuthOff(ctx context.Context, dataDir string) error {
	return changeDatabase(ctx, databaseOf(dataDir), func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(bucketAuth)); b != nil {
			return b.Put([]byte(authEnabledKey), []byte{0})
		}
		return nil
	})
}

// Seal makes a snapshot of what a throw-away etcd of version 3 has left, with a
// revision of at least the given one, below which all counts as compacted: so a
// tool that cannot raise revisions restores one that clients never see go back.
// The data directory is used up. It has to be on the disk of the file, where
// nothing may be.
//
// The revision is raised by a tombstone of no key at it, and by a compaction up to
// it that is scheduled, as etcdutl does it with an empty record: the tombstone
// counts for the revision and is then compacted away, and the compaction keeps the
// revision. Source: mvcc's restore of 3.2.24 and 3.7.3 (a tombstone of a key
// that is not there is passed over, and the revision is never below the
// compacted one).
//
// keys is how many there have to be.
func Seal(ctx context.Context, dataDir, file string, revision, keys int64) (Info, error) {
	db := databaseOf(dataDir)
	if err := raise(ctx, db, revision); err != nil {
		return Info{}, err
	}
	if err := appendHash(ctx, db); err != nil {
		return Info{}, err
	}
	info, err := Verify(ctx, db)
	if err == nil && info.Keys >= 0 && info.Keys != keys {
		err = fmt.Errorf("%w: %d keys instead of %d", ErrDiffers, info.Keys, keys)
	}
	if err != nil {
		return Info{}, err
	}
	return info, publish(durable.OS(), db, file)
}

func databaseOf(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }

func raise(ctx context.Context, path string, revision int64) error {
	h, err := peek(ctx, path)
	if err != nil || h.revision >= revision {
		return err
	}
	at := make([]byte, 17, 18) // main revision, "_", sub revision
	binary.BigEndian.PutUint64(at, uint64(revision))
	at[8] = '_'
	return changeDatabase(ctx, path, func(tx *bbolt.Tx) error {
		// Etcd reads what is there as a record of a key, which may be empty.
		return errors.Join(
			tx.Bucket([]byte(bucketMeta)).Put([]byte(metaScheduledCompact), at),
			tx.Bucket([]byte(bucketKey)).Put(append(at[:17:17], 't'), nil),
		)
	})
}

// changeDatabase changes a database that will be read by any release of etcd 3: so
// its list of free pages is written, which old ones need.
func changeDatabase(ctx context.Context, path string, change func(*bbolt.Tx) error) error {
	if err := checkFile(ctx, path); err != nil {
		return err
	}
	return guarded(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, OpenFile: regular.OpenFile})
		if err != nil {
			return err
		}
		return errors.Join(db.Update(change), db.Close())
	})
}
