package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// contentsOf is all that is in a database: one line a record.
func contentsOf(t testing.TB, path string) (lines []string) {
	t.Helper()
	db, err := openDatabase(within(t), path, anyBucket)
	must(t, err)
	defer db.Close()
	must(t, db.View(func(tx *bbolt.Tx) error {
		for e := range tx.Check() {
			t.Errorf("%s: %v", path, e)
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			lines = append(lines, string(name))
			return b.ForEach(func(k, v []byte) error {
				if len(v) > 200 {
					v = fmt.Appendf(nil, "%x", sha256.Sum256(v))
				}
				lines = append(lines, fmt.Sprintf("%s %q = %q", name, k, v))
				return nil
			})
		})
	}))
	return lines
}

// What is made on an excerpt is what the tool makes of the whole, record by
// record, with each release's tool; and whether the file is used up or not.
func TestExcerptEqualsTheWhole(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		empty := testetcd.Start(t, testetcd.Config{Version: version})
		none := filepath.Join(t.TempDir(), "snapshot")
		save(t, empty.Client(t), none)
		files := map[string]string{
			"empty":  none,
			"filled": snapshotOf(t, version),
			"auth, large values and freed pages": snapshotOf(t, version, func(c *testetcd.Cluster, client *clientv3.Client) *clientv3.Client {
				for i := range 300 {
					put(t, client, fmt.Sprintf("many/%d", i), strings.Repeat("y", 3000))
				}
				_, err := client.Delete(within(t), "many/", clientv3.WithPrefix())
				must(t, err)
				last := put(t, client, "large", strings.Repeat("x", 1<<20))
				_, err = client.Compact(within(t), last, clientv3.WithCompactPhysical())
				must(t, err)
				enableAuth(t, client)
				return asRoot(t, c)
			}),
		}
		for name, file := range files {
			for _, target := range []int64{0, 3_000_000_000} {
				t.Run(fmt.Sprintf("%s to %d", name, target), func(t *testing.T) {
					compareWays(t, file, version, target)
				})
			}
		}
	})
}

func compareWays(t *testing.T, file, version string, target int64) {
	dir, ctx := t.TempDir(), within(t)
	before, err := os.ReadFile(file)
	must(t, err)
	taken := filepath.Join(dir, "taken")
	must(t, os.WriteFile(taken, before, 0o644)) // as a download may have been written
	results := map[string]Restored{}
	for _, way := range []string{"whole", "excerpt", "used up"} {
		o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, way), theRelease(t, version))
		o.Revision, o.whole = target, way == "whole"
		if way == "used up" {
			o.Snapshot, o.UseUp = taken, true
		}
		r, err := Restore(ctx, o)
		must(t, err)
		results[way] = r
	}
	whole := contentsOf(t, dbOf(filepath.Join(dir, "whole")))
	for _, way := range []string{"excerpt", "used up"} {
		if diff := cmp.Diff(whole, contentsOf(t, dbOf(filepath.Join(dir, way)))); diff != "" {
			t.Errorf("%s differs from what the tool makes:\n%s", way, diff)
		}
		if results[way] != results["whole"] {
			t.Errorf("%s: %+v, and the tool %+v", way, results[way], results["whole"])
		}
		if n := size(t, dbOf(filepath.Join(dir, way))); n%int64(os.Getpagesize()) != 0 {
			t.Errorf("%s: the database has %d bytes: the hash is behind it still", way, n)
		}
		if a, b := tree(t, filepath.Join(dir, "whole")), tree(t, filepath.Join(dir, way)); a != b {
			t.Errorf("%s has the files %s, and the tool makes %s", way, b, a)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the snapshot was changed (%v)", err)
	}
	if _, err := os.Stat(taken); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the snapshot that was to be used up: %v", err)
	}
}

// tree names the files below a data directory, with their modes.
func tree(t *testing.T, dir string) (files string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		rel, _ := filepath.Rel(dir, path)
		files += fmt.Sprintf("%s %s\n", rel, info.Mode())
		return err
	}))
	return files
}

// A tool that would touch what an excerpt does not have is refused.
func TestToolThatChangesTooMuch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := func(name string, fill func(*bbolt.Tx) error) string {
		path := filepath.Join(dir, name)
		db, err := bbolt.Open(path, 0o600, nil)
		must(t, err)
		defer db.Close()
		must(t, db.Update(func(tx *bbolt.Tx) error {
			for _, b := range []string{bucketKey, bucketMeta, bucketLease} {
				if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
					return err
				}
			}
			must(t, tx.Bucket([]byte(bucketKey)).Put([]byte("1"), nil))
			return fill(tx)
		}))
		return path
	}
	before := made("before", func(*bbolt.Tx) error { return nil })
	for name, c := range map[string]struct {
		change func(*bbolt.Tx) error
		fine   bool
	}{
		"revision":  {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketKey)).Put([]byte("2"), nil) }, true},
		"meta":      {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketMeta)).Put([]byte("x"), []byte("y")) }, true},
		"gone":      {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketMeta)) }, true},
		"last key":  {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketKey)).Delete([]byte("1")) }, false},
		"lease":     {func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketLease)).Put([]byte("x"), []byte("y")) }, false},
		"no keys":   {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketKey)) }, false},
		"no leases": {func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketLease)) }, false},
		"two revisions": {func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucketKey))
			return errors.Join(b.Put([]byte("2"), nil), b.Put([]byte("3"), nil))
		}, false},
	} {
		if changes, err := compareExcerpts(within(t), before, made(name, c.change)); (err == nil) != c.fine || c.fine && len(changes) != 1 {
			t.Errorf("%s: %+v, %v", name, changes, err)
		}
	}
}

func TestOnExcerpt(t *testing.T) {
	for version, want := range map[string]bool{"3.4.30": false, "3.5.9": true, "3.5.35": true, "3.6.0": true, "3.7.3": true, "3.8.0": false, "4.5.0": false} {
		v := cluster.MustVersion(version)
		name := "etcdutl"
		if v.Minor == 4 {
			name = "etcdctl"
		}
		if got := (Tool{Name: name, Version: v}).OnExcerpt(); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

// What changes a database takes no memory for its size.
func TestChangesTakeLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true})
	must(t, err)
	value := make([]byte, 8<<10)
	for range 20 {
		must(t, db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucketKey))
			must(t, err)
			for range 500 {
				n := rand.Uint64()
				must(t, b.Put(fmt.Appendf(nil, "%016x", n), value))
			}
			return nil
		}))
	}
	must(t, db.Close())
	was := size(t, path)
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	must(t, applyChanges(within(t), path, []bucketChange{{bucket: bucketKey, puts: []pair{{[]byte("z"), []byte("new")}}}}))
	runtime.ReadMemStats(&m1)
	if took := m1.TotalAlloc - m0.TotalAlloc; took > 512<<10 {
		t.Errorf("it took %d KiB of memory for a database of %d MiB", took>>10, was>>20)
	}
	if grown := size(t, path) - was; grown > 1<<20 {
		t.Errorf("it has grown by %d KiB", grown>>10)
	}
	lines := contentsOf(t, path)
	if n := len(lines); n != 10_002 || lines[n-1] != `key "z" = "new"` {
		t.Errorf("%d records, the last is %s", n, lines[n-1])
	}
	again, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true}) // as etcd does
	must(t, err)
	defer again.Close()
	if again.Stats().FreePageN == 0 {
		t.Error("the pages that were replaced are not found to be free")
	}
}
