package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"etcdadm.io/internal/regular"
)

// A restore changes little of a database: who the members are, up to which
// entry of raft's log it goes, the newest revision, and up to which one it is
// compacted. So the tool of the release works on an excerpt that has all of that
// and none of the keys, and what it has made of the excerpt is made of the
// database. That is then written once and read never, where the tool reads all of it
// and writes a second one (docs/adr/013-large-restores.md).

// OnExcerpt says whether the tool's work on an excerpt is all of its work.
// Source: etcdutl/snapshot of 3.5, 3.6 and 3.7. etcdctl before 3.5 opens the
// database as a server does; of later releases nothing is known.
func (t Tool) OnExcerpt() bool {
	return t.Name == "etcdutl" && t.Version.Major == 3 && t.Version.Minor >= 5 && t.Version.Minor <= 7
}

// restoreOnExcerpt makes the data directory without the tool ever seeing the
// whole database.
func restoreOnExcerpt(ctx context.Context, o RestoreOptions, s *site, tool Tool, data string, bump, size int64) error {
	before, after := s.path("excerpt"), s.path("excerpt.restored")
	if err := makeExcerpt(ctx, o.Snapshot, before); err != nil {
		return err
	}
	args := o
	args.Snapshot = before
	if h, err := peek(ctx, before); err != nil {
		return err
	} else if tool.below(h) {
		args.Snapshot = s.path("excerpt.unmarked")
		if err := copyFile(ctx, before, args.Snapshot); err != nil {
			return err
		}
		if err := unmark(ctx, args.Snapshot); err != nil {
			return err
		}
	}
	if err := tool.run(ctx, s, restoreArgs(args, data, bump)...); err != nil {
		return err
	}
	db := filepath.Join(data, "member", "snap", "db")
	if err := os.Rename(db, after); err != nil {
		return err
	}
	changes, err := compareExcerpts(ctx, before, after)
	if err != nil {
		return err
	}
	if err := moveDatabase(ctx, o, db, size); err != nil {
		return err
	}
	return applyChanges(ctx, db, changes)
}

// moveDatabase brings the snapshot's database to its place, without the hash
// behind it. It is not durable there yet.
func moveDatabase(ctx context.Context, o RestoreOptions, db string, size int64) error {
	if o.UseUp {
		if err := os.Rename(o.Snapshot, db); err != nil {
			return err
		}
		if err := os.Chmod(db, 0o600); err != nil {
			return err
		}
		return os.Truncate(db, size)
	}
	src, err := regular.Open(o.Snapshot)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(db, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	var so int64
	err = copyAll(ctx, dst, src, func(n int64) {
		if so += n; o.Progress != nil {
			o.Progress(min(so, size), size)
		}
	})
	if err != nil {
		return err
	}
	return dst.Truncate(size)
}

// makeExcerpt writes a database with everything of a snapshot's but the leases
// and the keys. The newest revision's record stays, without its content.
func makeExcerpt(ctx context.Context, from, to string) error {
	db, err := openDatabase(ctx, from, func(bucket string) bool { return bucket != bucketLease })
	if err != nil {
		return err
	}
	defer db.Close()
	out, err := bbolt.Open(to, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, Timeout: lockWait})
	if err != nil {
		return err
	}
	defer out.Close()
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			return out.Update(func(w *bbolt.Tx) error { return copyExcerpt(tx, w) })
		})
	})
}

func copyExcerpt(from, to *bbolt.Tx) error {
	return from.ForEach(func(name []byte, b *bbolt.Bucket) error {
		out, err := to.CreateBucket(name)
		if err != nil {
			return err
		}
		switch string(name) {
		case bucketLease:
			return nil
		case bucketKey:
			last, _ := b.Cursor().Last()
			if last == nil {
				return nil
			}
			return out.Put(last, nil)
		}
		return b.ForEach(out.Put)
	})
}

// bucketChange is what the tool has done to a bucket.
type bucketChange struct {
	bucket  string
	removed bool
	puts    []pair
	deletes [][]byte
}

type pair struct{ key, value []byte }

// compareExcerpts finds out what the tool has changed. It is refused when that
// is more than an excerpt can show.
func compareExcerpts(ctx context.Context, before, after string) (changes []bucketChange, err error) {
	was, err := openDatabase(ctx, before, anyBucket)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	is, err := openDatabase(ctx, after, anyBucket)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	err = guarded(func() error {
		return was.View(func(old *bbolt.Tx) error {
			return is.View(func(now *bbolt.Tx) error {
				changes = differences(old, now)
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if tooMuch := c.removed || len(c.deletes) > 0 || len(c.puts) > 1; c.bucket == bucketLease || c.bucket == bucketKey && tooMuch {
			return nil, fmt.Errorf("the tool has changed more of bucket %q than an excerpt has", c.bucket)
		}
	}
	return changes, nil
}

func differences(old, now *bbolt.Tx) (changes []bucketChange) {
	_ = old.ForEach(func(name []byte, _ *bbolt.Bucket) error { // the function fails never
		if now.Bucket(name) == nil {
			changes = append(changes, bucketChange{bucket: string(name), removed: true})
		}
		return nil
	})
	_ = now.ForEach(func(name []byte, b *bbolt.Bucket) error { // see above
		c := bucketChange{bucket: string(name)}
		was := old.Bucket(name)
		_ = b.ForEach(func(k, v []byte) error { // see above
			if was == nil || was.Get(k) == nil || !bytes.Equal(was.Get(k), v) {
				c.puts = append(c.puts, pair{bytes.Clone(k), bytes.Clone(v)})
			}
			return nil
		})
		if was != nil {
			_ = was.ForEach(func(k, _ []byte) error { // see above
				if b.Get(k) == nil {
					c.deletes = append(c.deletes, bytes.Clone(k))
				}
				return nil
			})
		}
		if was == nil || len(c.puts) > 0 || len(c.deletes) > 0 {
			changes = append(changes, c)
		}
		return nil
	})
	return changes
}

// applyChanges does to the database what the tool has done to the excerpt. It
// syncs nothing: what is built is synced as a whole before it gets its name.
func applyChanges(ctx context.Context, path string, changes []bucketChange) error {
	if err := skipFreePages(ctx, path); err != nil {
		return err
	}
	return guarded(func() (err error) {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, Timeout: lockWait})
		if err != nil {
			return err
		}
		defer func() {
			if e := db.Close(); err == nil {
				err = e
			}
		}()
		return db.Update(func(tx *bbolt.Tx) error {
			for _, c := range changes {
				if err := c.apply(tx); err != nil {
					return fmt.Errorf("change bucket %q: %w", c.bucket, err)
				}
			}
			return nil
		})
	})
}

func (c bucketChange) apply(tx *bbolt.Tx) error {
	if c.removed {
		return tx.DeleteBucket([]byte(c.bucket))
	}
	b, err := tx.CreateBucketIfNotExists([]byte(c.bucket))
	if err != nil {
		return err
	}
	for _, key := range c.deletes {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	for _, p := range c.puts {
		if err := b.Put(p.key, p.value); err != nil {
			return err
		}
	}
	return nil
}
