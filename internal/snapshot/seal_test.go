package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// A database whose newest records were compacted away goes on above the
// compaction, and so does what is restored of it.
func TestRestoreAboveACompaction(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// Where the tool cannot raise revisions we do, and etcd goes on from there: a watch
// from before is told to begin anew, writes go on above, and a restart, which comes
// after the compaction, changes nothing.
func TestRestoreRaisesWhereTheToolCannot(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V32, testetcd.V33, testetcd.V34} {
		t.Run(version, func(t *testing.T) {
			c := testetcd.Start(t, testetcd.Config{Version: version})
			client := c.Client(t)
			seen := put(t, client, "kept", "v")
			file := filepath.Join(t.TempDir(), "snapshot.db")
			save(t, client, file)
			must(t, c.Kill(within(t), 0, syscall.SIGKILL))
			m := c.Members[0]
			must(t, os.Rename(m.DataDir, m.DataDir+".before"))
			r, err := Restore(within(t), RestoreOptions{
				Snapshot: file, DataDir: m.DataDir, Release: theRelease(t, version), Name: m.Name,
				PeerURLs: []string{m.PeerURL}, Token: "new", Revision: 7_000, Above: 1_000_000,
			})
			must(t, err)
			want := seen + 1_000_000
			if r.Revision != want || r.RevisionsGoBack || r.From != seen {
				t.Errorf("%+v instead of %d", r, want)
			}
			must(t, c.Restart(within(t), 0))
			for range 2 {
				client = c.Client(t)
				got, err := client.Get(within(t), "kept")
				must(t, err)
				if len(got.Kvs) != 1 || got.Header.Revision != want {
					t.Fatalf("%v at %d instead of %d", got.Kvs, got.Header.Revision, want)
				}
				answer := <-client.Watch(within(t), "kept", clientv3.WithRev(seen+1))
				if !errors.Is(answer.Err(), rpctypes.ErrCompacted) {
					t.Errorf("a watch from before: %v", answer.Err())
				}
				want++
				if at := put(t, client, "new", "v"); at != want {
					t.Errorf("a write gave revision %d instead of %d", at, want)
				}
				must(t, c.Restart(within(t), 0))
			}
		})
	}
}
