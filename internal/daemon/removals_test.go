package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
	"go.etcd.io/bbolt"
)

// TestFalseRemovalsKeepFromStarting: a release that would send members away which are
// there is not started while that cannot be mended, and one that does not look at the
// list is. Both mend it where they can.
func TestFalseRemovalsKeepFromStarting(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"3.5.35", "3.6.16"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			mendedAtStart(t, version)
		})
	}
}

func mendedAtStart(t *testing.T, wantMended string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	open := func(o bbolt.Options) *bbolt.DB {
		t.Helper()
		o.Timeout = 10 * time.Second
		db, err := bbolt.Open(path, 0o600, &o)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(bbolt.Options{})
	err := db.Update(func(tx *bbolt.Tx) error {
		for bucket, pair := range map[string][2]string{
			"members": {"2", `{"id":2}`}, "members_removed": {"2", "removed"}, "meta": {"confState", `{"voters":[2]}`},
		} {
			b, err := tx.CreateBucket([]byte(bucket))
			if err != nil {
				return err
			}
			if err := b.Put([]byte(pair[0]), []byte(pair[1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	falsely := func() bool {
		t.Helper()
		db := open(bbolt.Options{ReadOnly: true})
		defer db.Close()
		var there bool
		_ = db.View(func(tx *bbolt.Tx) error {
			there = tx.Bucket([]byte("members_removed")).Get([]byte("2")) != nil
			return nil
		})
		return there
	}
	starts := func(version string) error {
		p := &Process{log: slog.New(slog.DiscardHandler), genuine: genuine, permit: func() error { return nil }}
		p.record.Launch = record.Launch{Version: cluster.MustVersion(version)}
		return p.permitted(runtime.Spec{DataDir: dir})
	}
	reader := open(bbolt.Options{ReadOnly: true}) // its lock keeps others from writing
	if err := starts("3.6.16"); err == nil {
		t.Error("etcd 3.6 was started with the list as it was")
	}
	if err := starts("3.5.35"); err != nil {
		t.Errorf("etcd 3.5 was not started: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := starts("3.4.25"); err != nil || !falsely() {
		t.Errorf("etcd 3.4 was not started with the list as it was: %v", err)
	}
	if err := starts(wantMended); err != nil || falsely() {
		t.Errorf("etcd %s was not started with the list mended: %v", wantMended, err)
	}
}
