package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// A database whose newest records were compacted away goes on above the
// compaction, and so does what is restored of it.
func TestRestoreAboveACompaction(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	client := c.Client(t)
	put(t, client, "kept", "v")
	var at int64
	for range 10 {
		put(t, client, "gone", "v")
		r, err := client.Delete(within(t), "gone")
		must(t, err)
		at = r.Header.Revision
	}
	_, err := client.Compact(within(t), at, clientv3.WithCompactPhysical())
	must(t, err)
	must(t, c.Restart(within(t), 0))
	client = c.Client(t)
	file := filepath.Join(t.TempDir(), "snapshot.db")
	save(t, client, file)
	info, err := Verify(within(t), file)
	must(t, err)
	if info.Revision != at || info.Keys != 1 {
		t.Fatalf("%+v instead of revision %d", info, at)
	}
	for _, above := range []int64{0, 1000} {
		f := newFounder("http://127.0.0.1:1")
		o := f.options(file, filepath.Join(t.TempDir(), "data"), theRelease(t, testetcd.V36))
		o.Above = above
		r, err := Restore(within(t), o)
		must(t, err)
		if r.From != at || r.Revision != at+above {
			t.Errorf("%+v instead of %d above %d", r, above, at)
		}
	}
}

// A running member of etcd 2 is left alone, and nothing is made of nothing.
func TestReviveRefusals(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V23})
	dir := t.TempDir()
	if _, err := ReviveV2(within(t), c.Members[0].DataDir, filepath.Join(dir, "a")); err == nil {
		t.Error("a running member was revived")
	}
	if _, err := ReviveV2(within(t), dir, filepath.Join(dir, "b")); err == nil {
		t.Error("nothing was revived")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("something is left: %v, %v", entries, err)
	}
}
