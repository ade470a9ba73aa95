package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// What lies where a restore goes is its result only if every word of the order is the
// same, and it went as far as is asked for now.
func TestRestoreOfAnotherOrder(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V36), t.TempDir()
	order := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V36))
	order.Revision, order.Above = 5_000, 4_000
	first, err := Restore(within(t), order)
	must(t, err)
	for what, change := range map[string]func(*RestoreOptions){
		"token":    func(o *RestoreOptions) { o.Token, o.Cluster, o.Member = "another", 0, 0 },
		"name":     func(o *RestoreOptions) { o.Name, o.Cluster, o.Member = "another", 0, 0 },
		"address":  func(o *RestoreOptions) { o.PeerURLs, o.Cluster, o.Member = []string{"http://127.0.0.1:2"}, 0, 0 },
		"target":   func(o *RestoreOptions) { o.Revision++ },
		"distance": func(o *RestoreOptions) { o.Above = first.Revision },
		"snapshot": func(o *RestoreOptions) { o.Snapshot = snapshotOf(t, testetcd.V36) },
	} {
		o := order
		if change(&o); !errors.Is(tell(Restore(within(t), o)), ErrExists) {
			t.Errorf("another %s: the directory was taken for its result", what)
		}
	}
	for what, change := range map[string]func(*RestoreOptions){
		"member":  func(o *RestoreOptions) { o.Member++ },
		"cluster": func(o *RestoreOptions) { o.Cluster++ },
	} {
		o := order
		if change(&o); !errors.Is(tell(Restore(within(t), o)), ErrIdentity) {
			t.Errorf("another %s was expected, and this one is as good", what)
		}
	}
	if again, err := Restore(within(t), order); err != nil || !again.Again {
		t.Errorf("the same order: %+v, %v", again, err)
	}
}

func tell(_ Restored, err error) error { return err }

// A tool that leaves the revision where it was, or raises it by something else, makes
// nothing that is put in place: clients would see revisions twice.
func TestToolThatRaisesAnotherWay(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V36), t.TempDir()
	for what, sed := range map[string]string{"not at all": "s/--bump-revision=[0-9]*//; s/--mark-compacted//", "by less": "s/--bump-revision=[0-9]*/--bump-revision=7/"} {
		o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V36))
		o.Release, o.Revision = rewrites(t, o.Release, sed), 1_000_000
		if _, err := Restore(within(t), o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "was asked for") || exists(o.DataDir) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A tool that leaves no log, from which the member is known, makes nothing that is put in
// place, also where no member is expected.
func TestToolThatLeavesNoLog(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V36), t.TempDir()
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V36))
	script := filepath.Join(t.TempDir(), "etcdutl")
	text := fmt.Sprintf("#!/bin/sh\n%s \"$@\" || exit\nfor a; do case $a in --data-dir=*) rm -r \"${a#*=}/member/wal\";; esac; done\n", o.Release.Etcdutl)
	must(t, os.WriteFile(script, []byte(text), 0o700))
	o.Release.Etcdutl, o.Member, o.Cluster = script, 0, 0
	if r, err := Restore(within(t), o); err == nil || exists(o.DataDir) {
		t.Errorf("%+v, %v", r, err)
	}
}

// rewrites is a release whose etcdutl gets other arguments.
func rewrites(t *testing.T, r release.Release, sed string) release.Release {
	t.Helper()
	script := filepath.Join(t.TempDir(), "etcdutl")
	text := fmt.Sprintf("#!/bin/sh\nexec %s $(echo \"$@\" | sed '%s')\n", r.Etcdutl, sed)
	must(t, os.WriteFile(script, []byte(text), 0o700))
	r.Etcdutl = script
	return r
}

// remainsAt stops the member and keeps what its data directory holds then.
func remainsAt(t *testing.T, c *testetcd.Cluster) string {
	t.Helper()
	must(t, c.Kill(within(t), 0, syscall.SIGKILL))
	dir := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(dir, os.DirFS(c.Members[0].DataDir)))
	return dir
}

// What lies where a snapshot is to be extracted to is its result only if it has just
// what this member has: no entry less, and none more.
func TestExtractOverAnotherMoment(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	for i := range 5 {
		put(t, c.Client(t), fmt.Sprint("early", i), "v")
	}
	early := remainsAt(t, c)
	must(t, c.Restart(within(t), 0))
	for i := range 10 {
		put(t, c.Client(t), fmt.Sprint("late", i), "v")
	}
	late := remainsAt(t, c)
	files := map[string]string{}
	extract := func(from, to string) (Extracted, error) {
		return Extract(within(t), ExtractOptions{DataDir: from, File: to, Release: theRelease(t, testetcd.V36)})
	}
	for _, dir := range []string{early, late} {
		files[dir] = filepath.Join(t.TempDir(), "snapshot")
		_, err := extract(dir, files[dir])
		must(t, err)
		if again, err := extract(dir, files[dir]); err != nil || !again.Again {
			t.Errorf("the same once more: %+v, %v", again, err)
		}
	}
	if _, err := extract(late, files[early]); !errors.Is(err, ErrExists) {
		t.Errorf("what lacks the last writes was taken for all of them: %v", err)
	}
	if _, err := extract(early, files[late]); !errors.Is(err, ErrExists) {
		t.Errorf("what has more than the member was taken for its own: %v", err)
	}
	must(t, os.Truncate(files[late], size(t, files[late])-1))
	if _, err := extract(late, files[late]); !errors.Is(err, ErrExists) {
		t.Errorf("what was cut off was taken for the whole: %v", err)
	}
}

// What lies there is no result either where it ends at the very entry of the member and
// is another one's, or has fewer revisions: an ID of a member comes again where a cluster
// is founded again at the same addresses. Of a member that was removed its own database
// names it no more.
func TestExtractOverAnotherOfThatIndex(t *testing.T) {
	t.Parallel()
	file := snapshotOf(t, testetcd.V36)
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	for i := range 5 {
		put(t, c.Client(t), fmt.Sprint("key", i), "v")
	}
	dir, dirs := remainsAt(t, c), t.TempDir()
	extract := func(to string) error {
		_, err := Extract(within(t), ExtractOptions{DataDir: dir, File: to, Release: theRelease(t, testetcd.V36)})
		return err
	}
	own := filepath.Join(dirs, "own")
	must(t, extract(own))
	must(t, extract(own))
	s, err := inspect(within(t), dir)
	must(t, err)
	// change is a snapshot with another database in it.
	change := func(of, name string, revision int64, to func(tx *bbolt.Tx) error) string {
		path := filepath.Join(dirs, name)
		must(t, copyFile(within(t), of, path))
		must(t, os.Truncate(path, size(t, path)-sha256.Size))
		must(t, raise(within(t), path, revision))
		must(t, changeDatabase(within(t), path, to))
		must(t, appendHash(within(t), path))
		return path
	}
	index := func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(metaConsistentIndex), binary.BigEndian.AppendUint64(nil, s.Last.Index))
	}
	must(t, extract(change(own, "same", s.Revision, index)))
	if err := extract(change(file, "other", 1_000, index)); !errors.Is(err, ErrExists) {
		t.Errorf("the snapshot of another member was taken for its own: %v", err)
	}
	must(t, raise(within(t), dbOf(dir), 1_000))
	if err := extract(own); !errors.Is(err, ErrExists) {
		t.Errorf("what has fewer revisions was taken for its own: %v", err)
	}

	removed := func(tx *bbolt.Tx) error {
		id := []byte(s.Member.String())
		gone, err := tx.CreateBucketIfNotExists([]byte(bucketMembersRemoved))
		return errors.Join(err, gone.Put(id, []byte("removed")), tx.Bucket([]byte(bucketMembers)).Delete(id))
	}
	must(t, changeDatabase(within(t), dbOf(dir), removed))
	own = filepath.Join(dirs, "removed")
	must(t, extract(own))
	must(t, extract(own))
}

// etcd may have applied what others committed before its own log is on its disk: then
// the database is where the member ends, and nothing is lost of it. Its term is there
// from 3.5 on.
func TestDatabaseAheadOfTheLog(t *testing.T) {
	t.Parallel()
	for version, term := range map[string]bool{testetcd.V34: false, testetcd.V36: true} {
		t.Run(version, func(t *testing.T) { databaseAhead(t, version, term) })
	}
}

func databaseAhead(t *testing.T, version string, term bool) {
	c := testetcd.Start(t, testetcd.Config{Version: version})
	put(t, c.Client(t), "early", "v")
	early := remainsAt(t, c)
	must(t, c.Restart(within(t), 0))
	for range padding + 1 { // more than a snapshot may be ahead
		put(t, c.Client(t), "late", "v")
	}
	// A stop, unlike a crash, leaves the database with all that was applied.
	must(t, c.Kill(within(t), 0, syscall.SIGTERM))
	full, err := inspect(within(t), c.Members[0].DataDir)
	must(t, err)
	must(t, os.Remove(dbOf(early)))
	must(t, copyFile(within(t), dbOf(c.Members[0].DataDir), dbOf(early)))
	s, err := inspect(within(t), early)
	must(t, err)
	if s.Last.Index != full.ConsistentIndex || term && s.Last.Term < full.Last.Term || s.Revision != full.Revision {
		t.Errorf("the member ends at %v and revision %d, and its database at %d and revision %d", s.Last, s.Revision, full.ConsistentIndex, full.Revision)
	}
	if e, keys := extracted(t, early, version); keys["late"] == "" || e.Applied != 0 {
		t.Errorf("extracted %+v with %d keys", e, len(keys))
	}
	// Nothing was added to it, and it is its own result all the same.
	o := ExtractOptions{DataDir: early, File: filepath.Join(t.TempDir(), "snapshot"), Release: theRelease(t, version)}
	_, err = Extract(within(t), o)
	must(t, err)
	if again, err := Extract(within(t), o); err != nil || !again.Again || again.Info.Revision != s.Revision {
		t.Errorf("the same once more: %+v, %v", again, err)
	}
}

// A log that begins behind the database is whole only with the database that the
// leader sent, which has to reach that far.
func TestDatabaseThatWasSent(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Args: []string{"--snapshot-count=10", "--experimental-snapshot-catchup-entries=1"}})
	put(t, c.Client(t), "early", "v")
	must(t, c.Kill(within(t), 0, syscall.SIGTERM))
	m := c.Members[0]
	old := filepath.Join(t.TempDir(), "old")
	must(t, copyFile(within(t), dbOf(m.DataDir), old))
	must(t, c.Restart(within(t), 0))
	for i := range 40 {
		put(t, c.Client(t), fmt.Sprint("late", i), "v")
	}
	must(t, c.Kill(within(t), 0, syscall.SIGTERM))
	full, err := inspect(within(t), m.DataDir)
	must(t, err)
	log, err := readLog(filepath.Join(m.DataDir, "member", "wal"), 0)
	must(t, err)
	if h, err := peek(within(t), old); err != nil || h.consistentIndex >= log.start.Index {
		t.Fatalf("the old database ends at %+v, and the log begins at %d: %v", h, log.start.Index, err)
	}
	now := filepath.Join(t.TempDir(), "now")
	must(t, os.Rename(dbOf(m.DataDir), now))
	must(t, copyFile(within(t), old, dbOf(m.DataDir)))
	if s, err := inspect(within(t), m.DataDir); !errors.Is(err, ErrDamaged) {
		t.Errorf("what is between the database and the log is lost, and the member is %+v, %v", s, err)
	}
	sent := filepath.Join(filepath.Dir(dbOf(m.DataDir)), fmt.Sprintf("%016x.snap.db", log.start.Index))
	must(t, copyFile(within(t), old, sent))
	if s, err := inspect(within(t), m.DataDir); !errors.Is(err, ErrDamaged) {
		t.Errorf("the database that was sent does not reach the log, and the member is %+v, %v", s, err)
	}
	must(t, os.Remove(sent))
	must(t, copyFile(within(t), now, sent))
	s, err := inspect(within(t), m.DataDir)
	if err != nil || s.ConsistentIndex != full.ConsistentIndex || s.Revision != full.Revision || s.Last != full.Last {
		t.Errorf("with what was sent: %+v, %v, want %+v", s, err, full)
	}
	if _, keys := extracted(t, m.DataDir, testetcd.V36); keys["late39"] == "" {
		t.Errorf("extracted %d keys, and not the last", len(keys))
	}
}

// A record that says that it is of another revision, or stands under no revision, is
// damage that no checksum of the file tells.
func TestVerifyOfMisplacedRecords(t *testing.T) {
	t.Parallel()
	file := snapshotOf(t, testetcd.V36)
	for what, change := range map[string]func(b *bbolt.Bucket) error{
		"another's content": func(b *bbolt.Bucket) error {
			last, _ := b.Cursor().Last()
			_, v := b.Cursor().First()
			return b.Put(last, v)
		},
		"no record":   func(b *bbolt.Bucket) error { last, _ := b.Cursor().Last(); return b.Put(last, []byte{0xff}) },
		"no revision": func(b *bbolt.Bucket) error { return b.Put([]byte("0123456789abcdefg"), nil) },
		"revision 0": func(b *bbolt.Bucket) error {
			return b.Put(append(make([]byte, 8), "_\x00\x00\x00\x00\x00\x00\x00\x00"...), nil)
		},
		"a negative one": func(b *bbolt.Bucket) error {
			return b.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x01_\xff\x00\x00\x00\x00\x00\x00\x00"), nil)
		},
		"another tombstone": func(b *bbolt.Bucket) error {
			return b.Put([]byte("\x00\x00\x00\x00\x00\x00\x00\x01_\x00\x00\x00\x00\x00\x00\x00\x00x"), nil)
		},
		"compacted to where": func(b *bbolt.Bucket) error {
			return b.Tx().Bucket([]byte(bucketMeta)).Put([]byte(metaFinishedCompact), []byte("x"))
		},
		"no meta": func(b *bbolt.Bucket) error { return b.Tx().DeleteBucket([]byte(bucketMeta)) },
		"no member's ID": func(b *bbolt.Bucket) error {
			return b.Tx().Bucket([]byte(bucketMembers)).Put([]byte("x"), []byte("{}"))
		},
		"no member": func(b *bbolt.Bucket) error { return b.Tx().Bucket([]byte(bucketMembers)).Put([]byte("1"), []byte("{")) },
	} {
		path := filepath.Join(t.TempDir(), "snapshot")
		must(t, copyFile(within(t), file, path))
		must(t, os.Truncate(path, size(t, path)-32))
		must(t, changeDatabase(within(t), path, func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(bucketKey))) }))
		must(t, appendHash(within(t), path))
		if info, err := Verify(within(t), path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
	}
}

// databaseIn is the database of a snapshot in a file of its own, changed, and with its
// hash behind it again.
func databaseIn(t *testing.T, file string, change func(path string)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot")
	must(t, copyFile(within(t), file, path))
	must(t, os.Truncate(path, size(t, path)-32))
	change(path)
	must(t, appendHash(within(t), path))
	return path
}

// Where a compaction took the newest record, its revision is the one that etcd goes on
// from, and what a restore is to exceed. Tools count from the record that is left.
func TestRestoreWithoutTheNewestRecord(t *testing.T) {
	t.Parallel()
	const compacted = 5_000_000
	file := databaseIn(t, snapshotOf(t, testetcd.V36), func(path string) {
		must(t, raise(within(t), path, compacted))
		must(t, changeDatabase(within(t), path, func(tx *bbolt.Tx) error { // as etcd does when it has compacted
			b, meta := tx.Bucket([]byte(bucketKey)), tx.Bucket([]byte(bucketMeta))
			last, _ := b.Cursor().Last()
			return errors.Join(b.Delete(last), meta.Put([]byte(metaFinishedCompact), meta.Get([]byte(metaScheduledCompact))))
		}))
	})
	for target, want := range map[[2]int64]int64{{0, 0}: compacted, {0, 1000}: compacted + 1000, {compacted + 7, 0}: compacted + 7, {7, 0}: compacted} {
		o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(t.TempDir(), "data"), theRelease(t, testetcd.V36))
		o.Revision, o.Above = target[0], target[1]
		if r, err := Restore(within(t), o); err != nil || r.From != compacted || r.Revision != want || r.RevisionsGoBack {
			t.Errorf("to %d and %d above: %+v, %v, want %d", o.Revision, o.Above, r, err, want)
		}
	}
}

// A file that lacks pages is damaged also where only free ones are gone: it is not what
// was written.
func TestVerifyWithoutItsEnd(t *testing.T) {
	t.Parallel()
	whole := databaseIn(t, snapshotOf(t, testetcd.V36), func(path string) {
		name := []byte("scratch")
		must(t, changeDatabase(within(t), path, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(name)
			return errors.Join(err, b.Put(name, make([]byte, 1<<20)))
		}))
		must(t, changeDatabase(within(t), path, func(tx *bbolt.Tx) error { return tx.DeleteBucket(name) }))
	})
	if _, err := Verify(within(t), whole); err != nil {
		t.Fatal(err)
	}
	cut := databaseIn(t, whole, func(path string) {
		db, err := openDatabase(within(t), path, anyBucket)
		must(t, err)
		defer db.Close()
		must(t, db.View(func(tx *bbolt.Tx) error { return os.Truncate(path, tx.Size()-int64(db.Info().PageSize)) }))
	})
	if info, err := Verify(within(t), cut); !errors.Is(err, ErrDamaged) {
		t.Errorf("%+v, %v", info, err)
	}
}

// In the log that is written anew for a copy, the survivor is not removed, however late
// etcd would stop over it: everything else is there, entry for entry, and committed.
func TestRewrittenLog(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	put(t, c.Client(t), "k", "v")
	must(t, c.Kill(within(t), 0, syscall.SIGKILL))
	dir := c.Members[0].DataDir
	before, err := inspect(within(t), dir)
	must(t, err)
	const stranger = 0x5eed
	appendToLog(t, dir, func(p Position) []*raftpb.Entry {
		return []*raftpb.Entry{
			putEntry(t, next(&p), "gone"), // these two are replaced by what follows
			putEntry(t, next(&p), "gone"),
		}
	})
	appendToLog(t, dir, func(Position) []*raftpb.Entry {
		p := before.Last
		return []*raftpb.Entry{
			confEntry(t, next(&p), raftpb.ConfChangeAddNode, stranger, &storedMember{PeerURLs: []string{"http://127.0.0.1:9"}}),
			confEntry(t, next(&p), raftpb.ConfChangeRemoveNode, before.Member, nil),
			putEntry(t, next(&p), "after"),
		}
	})
	r, err := openRemains(within(t), dir)
	must(t, err)
	defer r.close()
	made := filepath.Join(t.TempDir(), "wal")
	must(t, rewriteLog(within(t), r, made))
	log, err := readLog(made, 0)
	must(t, err)
	if log.member != r.Member || log.cluster == r.Cluster || log.last.Index != r.Last.Index+padding || log.state.GetCommit() != log.last.Index || log.state.GetTerm() < r.Last.Term {
		t.Errorf("the log is of member %s of %s, to %v, with %v; it was of %s, to %v", log.member, log.cluster, log.last, log.state, r.Cluster, r.Last)
	}
	strangers := 0
	for _, change := range log.changes {
		if r.leaves(change.conf) {
			t.Errorf("entry %d removes the survivor", change.index)
		}
		if change.conf.GetNodeId() == stranger {
			strangers++
		}
	}
	if strangers != 1 {
		t.Errorf("the other change is there %d times", strangers)
	}
}
