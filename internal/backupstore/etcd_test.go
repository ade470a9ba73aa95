package backupstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// status is what etcdutl says of a snapshot.
type status struct {
	Hash      uint32 `json:"hash"`
	Revision  int64  `json:"revision"`
	TotalKey  int    `json:"totalKey"`
	TotalSize int64  `json:"totalSize"`
}

// snapshotStatus asks etcdutl, which checks the SHA-256 at the end of the file.
func snapshotStatus(t testing.TB, r testetcd.Release, file string) status {
	t.Helper()
	var out status
	if err := json.Unmarshal(run(t, r.Etcdutl, "snapshot", "status", file, "-w", "json"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func run(t testing.TB, program string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, stderr.Bytes())
	}
	return out
}

func drive(t testing.TB, c *testetcd.Cluster) *etcd.Client {
	t.Helper()
	d, err := etcd.New(etcd.Config{Endpoints: []string{c.Members[0].ClientURL}, TLS: c.ClientTLS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A backup of a real member, from each release and in each encoding, is what
// that release's own tool takes for a snapshot; gunzip alone is enough for the
// common form, and what its tool restores holds every key.
func TestRealSnapshots(t *testing.T) {
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			c := testetcd.Start(t, testetcd.Config{Version: version})
			ctx := t.Context()
			client := c.Client(t)
			for i := range 200 {
				if _, err := client.Put(ctx, fmt.Sprintf("/key/%03d", i), fmt.Sprint("value ", i)); err != nil {
					t.Fatal(err)
				}
			}
			d := drive(t, c)
			s, err := d.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			store := fileStore(t)
			catalogue := New(store)
			release := testetcd.Binary(t, version)
			for _, e := range encodings {
				req, ids := request(t, e)
				req.Meta.EtcdVersion = s.Version
				req.Manifest.Position = backup.Position{Revision: s.Revision, Term: s.Term, Index: s.Applied}
				source, err := d.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				req.Count = func(ctx context.Context, revision int64) *int64 {
					n, err := d.CountKeys(ctx, revision)
					if err != nil {
						t.Error(err)
					}
					return &n
				}
				b, err := catalogue.Write(ctx, req, source)
				source.Close()
				if err != nil {
					t.Fatal(err)
				}
				out := filepath.Join(t.TempDir(), "snapshot.db")
				if _, err := catalogue.Download(ctx, b.Name, out, ids, nil); err != nil {
					t.Fatal(err)
				}
				got := snapshotStatus(t, release, out)
				if got.Revision != s.Revision || got.Revision != 201 || got.TotalKey < 200 {
					t.Errorf("%s: etcdutl says %+v, the member was at %d", e.File(), got, s.Revision)
				}
				if c := b.Manifest.Contents; c.Revision != got.Revision || c.Keys == nil || *c.Keys != 200 {
					t.Errorf("%s: while it was written it was at %d, with %v keys; etcdutl says %+v", e.File(), c.Revision, c.Keys, got)
				}
				if v, err := catalogue.Verify(ctx, b.Name, ids); err != nil || v.Revision != got.Revision {
					t.Errorf("%s: verified at %d, %v, want %d", e.File(), v.Revision, err, got.Revision)
				}
				if e == encodings[0] {
					gunzipIsEnough(t, store, b, out)
					run(t, release.Etcdutl, "snapshot", "restore", out, "--data-dir", filepath.Join(t.TempDir(), "restored"))
				}
			}
		})
	}
}

// gunzipIsEnough reads a backup as the predecessor does.
func gunzipIsEnough(t *testing.T, store blob.Store, b Backup, want string) {
	t.Helper()
	data, _, err := blob.ReadAll(t.Context(), store, b.Name.String()+"/etcd.backup.gz", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, expected) {
		t.Errorf("gunzip gives %d bytes, the download has %d", len(got), len(expected))
	}
}

// The store that the predecessor wrote is read whole, and its backups are
// verified by their own checksums and by etcd's tool.
func TestPredecessorsStore(t *testing.T) {
	dir := t.TempDir()
	run(t, "tar", "-xzf", "testdata/etcd-manager-store-3.5.35.tar.gz", "-C", dir)
	c := New(openFile(t, filepath.Join(dir, "etcd-manager-store")))
	l, err := c.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Backups) != 5 || len(l.Unfinished) != 0 || len(l.Odd) != 0 {
		t.Fatalf("listed %+v", l)
	}
	all, err := c.Describe(t.Context(), l.Backups)
	if err != nil {
		t.Fatal(err)
	}
	release := testetcd.Binary(t, testetcd.V35)
	for _, b := range all {
		if b.Err != nil || b.Manifest != nil || b.File != "etcd.backup.gz" || b.Meta.EtcdVersion != cluster.MustVersion("3.5.35") || b.Meta.MemberCount != 3 || b.Size == 0 {
			t.Errorf("%+v", b)
		}
		if at := b.Name.Time(); at.Sub(b.Meta.Timestamp).Abs() > time.Minute {
			t.Errorf("%s has timestamp %v", b.Name, b.Meta.Timestamp)
		}
		v, err := c.Verify(t.Context(), b.Name, Identities{})
		if err != nil || !v.OK || v.Depth != backup.DepthContent {
			t.Errorf("%s: %+v, %v", b.Name, v, err)
		}
		out := filepath.Join(dir, b.Name.String()+".db")
		if _, err := c.Download(t.Context(), b.Name, out, Identities{}, nil); err != nil {
			t.Fatal(err)
		}
		got := snapshotStatus(t, release, out)
		if want, ok := map[backup.Name]int64{"2026-11-20T23:14:17Z-000001": 72, "2026-11-20T23:16:18Z-000003": 72}[b.Name]; ok && got.Revision != want {
			t.Errorf("%s is at revision %d, want %d", b.Name, got.Revision, want)
		}
		// What is found out of it is kept beside it, where its writer does not look.
		if err := c.Record(t.Context(), b.Name, v); err != nil {
			t.Error(err)
		}
		if again, err := c.Get(t.Context(), b.Name); err != nil || !again.Manifest.Proven() {
			t.Errorf("%s: %+v, %v", b.Name, again, err)
		}
		if v, err := c.Verify(t.Context(), b.Name, Identities{}); err != nil || !v.OK {
			t.Errorf("%s, again: %+v, %v", b.Name, v, err)
		}
	}
}
