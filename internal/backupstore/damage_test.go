package backupstore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// boundaries are the places of a stream where something can change its nature:
// the first bytes, sectors, pages, etcd's messages, buffers and blocks of ours,
// and the checksum.
func boundaries(size int) []int {
	var out []int
	for _, at := range []int{0, 512, 4096, 32 << 10, copyBuffer, gzipBlock, 2 * gzipBlock, 1 << 20, size - 32, size} {
		for _, d := range []int{-33, -32, -31, -1, 0, 1, 31, 32, 33} {
			if n := at + d; n >= 0 && n < size {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A stream that ends too early, anywhere, in an error or as if it were whole,
// becomes no backup; nor one with a changed bit, or with something after it.
func TestTornStreamIsNoBackup(t *testing.T) {
	whole := snapshotOf(1<<20+4096, 1)
	broken := errors.New("the member died")
	forEachEncoding(t, func(t *testing.T, req Request, _ Identities) {
		store := memory.New()
		c := New(store)
		refuse := func(what string, source io.Reader, want error) {
			t.Helper()
			if b, err := c.Write(t.Context(), req, source); !errors.Is(err, want) {
				t.Errorf("%s: %s, %v", what, b.Name, err)
			}
		}
		places := boundaries(len(whole))
		if req.Compression == backup.Zstd || len(req.Recipients.keys) > 0 {
			places = []int{0, 1, 4096, len(whole) / 2, len(whole) - 32, len(whole) - 1} // the rest is the same for all
		}
		for _, n := range places {
			refuse(fmt.Sprintf("the first %d bytes", n), bytes.NewReader(whole[:n]), ErrDamaged)
			refuse(fmt.Sprintf("an error after %d bytes", n), io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)), broken)
		}
		for _, n := range places {
			changed := slices.Clone(whole)
			changed[n] ^= 0x10
			refuse(fmt.Sprintf("byte %d changed", n), bytes.NewReader(changed), ErrDamaged)
		}
		for _, n := range []int{1, 31, 32, 33, 480, 512, 4096} {
			refuse(fmt.Sprintf("%d bytes more", n), bytes.NewReader(append(slices.Clone(whole), make([]byte, n)...)), ErrDamaged)
		}
		refuse("a checksum of nothing", bytes.NewReader(snapshotOf(0, 1)), ErrDamaged)
		refuse("an end wrapped in an error", io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(fmt.Errorf("%w", io.EOF))), io.EOF)
		if k := keys(t, store); len(k) != 0 {
			t.Errorf("left behind: %q", k)
		}
		// The same in small pieces, to see that it is the content that counts.
		if _, err := c.Write(t.Context(), req, iotest.OneByteReader(bytes.NewReader(snapshotOf(8192, 3)))); err != nil {
			t.Error(err)
		}
		if _, err := c.Write(t.Context(), req, iotest.DataErrReader(bytes.NewReader(whole))); err != nil {
			t.Error(err)
		}
	})
}

// The inspector judges the same however the stream is cut into pieces.
func TestInspectorInPieces(t *testing.T) {
	whole := snapshotOf(4096, 5)
	want := newInspector()
	want.Write(whole)
	content, err := want.finish()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 2, 7, 31, 32, 33, 63, 64, 65, 4095, 4096, 4127} {
		i := newInspector()
		for piece := range slices.Chunk(whole, size) {
			i.Write(piece)
			i.Write(nil)
		}
		if got, err := i.finish(); err != nil || got != content {
			t.Errorf("in pieces of %d: %+v, %v", size, got, err)
		}
	}
}

// What is changed in the store afterwards is found, with and without a manifest,
// and no reader is told that all is well.
func TestDamageInStoreIsFound(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, req Request, ids Identities) {
		for _, manifest := range []bool{true, false} {
			store := memory.New()
			c := New(store)
			b := write(t, c, req, snapshotOf(1<<20, 1))
			original, _, err := blob.ReadAll(t.Context(), store, key(b.Name, b.File), 64<<20)
			if err != nil {
				t.Fatal(err)
			}
			if !manifest {
				if err := store.Delete(t.Context(), key(b.Name, backup.FileManifest)); err != nil {
					t.Fatal(err)
				}
			}
			check := func(what string, data []byte) {
				t.Helper()
				put(t, store, key(b.Name, b.File), data)
				v, err := c.Verify(t.Context(), b.Name, ids)
				if _, reading := read(t, c, b.Name, ids); errors.Is(reading, ErrEncrypted) && b.Encoding.Encrypted {
					// Damage in age's header looks as if it were for other keys; only
					// a manifest tells.
					if manifest != errors.Is(err, ErrDamaged) || v.OK {
						t.Errorf("manifest %v, %s: %+v, %v", manifest, what, v, err)
					}
					return
				}
				if !errors.Is(err, ErrDamaged) || v.OK || v.Problem == "" || v.At.IsZero() {
					t.Errorf("manifest %v, %s: %+v, %v", manifest, what, v, err)
				}
				if _, err := read(t, c, b.Name, ids); !errors.Is(err, ErrDamaged) {
					t.Errorf("manifest %v, %s, read: %v", manifest, what, err)
				}
				out := filepath.Join(t.TempDir(), "x")
				if _, err := c.Download(t.Context(), b.Name, out, ids, nil); !errors.Is(err, ErrDamaged) {
					t.Errorf("manifest %v, %s, download: %v", manifest, what, err)
				}
				if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 0 {
					t.Errorf("the download left %v, %v", entries, err)
				}
			}
			n := len(original)
			for _, at := range []int{0, 1, 2, 9, 100, n / 3, n / 2, n - 40, n - 9, n - 5, n - 1} {
				// Of gzip, bytes 4 to 9 are a time and an operating system, which
				// nothing depends on without a manifest.
				if !manifest && at == 9 && b.Encoding == encodings[0] {
					continue
				}
				data := slices.Clone(original)
				data[at] ^= 1
				check(fmt.Sprintf("bit of byte %d of %d", at, n), data)
			}
			for _, size := range []int{0, 1, 20, n / 2, n - 33, n - 32, n - 8, n - 1} {
				check(fmt.Sprintf("cut to %d of %d", size, n), original[:size])
			}
			check("something after it", append(slices.Clone(original), "more"...))
			other := write(t, c, req, snapshotOf(1<<20, 2))
			if manifest {
				swapped, _, err := blob.ReadAll(t.Context(), store, key(other.Name, other.File), 64<<20)
				if err != nil {
					t.Fatal(err)
				}
				check("another backup's snapshot", swapped)
			}
			if err := store.Delete(t.Context(), key(b.Name, b.File)); err != nil {
				t.Fatal(err)
			}
			if v, err := c.Verify(t.Context(), b.Name, ids); !errors.Is(err, ErrDamaged) || v.OK {
				t.Errorf("without its snapshot: %+v, %v", v, err)
			}
			if v, err := c.Verify(t.Context(), other.Name, ids); err != nil || !v.OK {
				t.Errorf("the other one: %+v, %v", v, err)
			}
		}
	})
}

// A transfer that breaks says nothing about the backup.
func TestBrokenTransferIsNoDamage(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, req Request, ids Identities) {
		store := memory.New()
		b := write(t, New(store), req, snapshotOf(1<<20, 1))
		broken := errors.New("connection reset")
		for _, n := range []int64{0, 1, 1000, 200_000} {
			for _, err := range []error{broken, io.ErrUnexpectedEOF, io.EOF} {
				c := New(&breaking{Store: store, after: n, err: err})
				v, got := c.Verify(t.Context(), b.Name, ids)
				if errors.Is(got, ErrDamaged) || got == nil || v != (backup.Verification{}) {
					t.Errorf("%v after %d bytes: %+v, %v", err, n, v, got)
				}
				if _, got := c.Copy(t.Context(), b.Name, New(memory.New()), ids, time.Time{}); errors.Is(got, ErrDamaged) || got == nil {
					t.Errorf("copy, %v after %d bytes: %v", err, n, got)
				}
			}
		}
	})
}

// breaking cuts the reading of snapshots.
type breaking struct {
	blob.Store
	after int64
	err   error
}

func (b *breaking) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	object, err := b.Store.Get(ctx, key, o)
	if err == nil && strings.Contains(key, "/etcd.backup") {
		object.Body = io.NopCloser(io.MultiReader(io.LimitReader(object.Body, b.after), iotest.ErrReader(b.err)))
	}
	return object, err
}

// A hung store is given up, and so is one that never answers;
// nothing keeps running.
func TestStalledTransfersEnd(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.File(), func(t *testing.T) {
			req, ids := request(t, e)
			synctest.Test(t, func(t *testing.T) {
				inner := memory.New()
				began := time.Now()
				_, err := New(&stalling{Store: inner, put: true}).Write(t.Context(), req, bytes.NewReader(snapshotOf(1<<20, 1)))
				if !errors.Is(err, ErrStalled) || time.Since(began) != StallAfter {
					t.Errorf("write: %v after %v", err, time.Since(began))
				}
				if k := keys(t, inner); len(k) != 0 {
					t.Errorf("left behind: %q", k)
				}
				b := write(t, New(inner), req, snapshotOf(1<<20, 1))
				began = time.Now()
				v, err := New(&stalling{Store: inner, get: true}).Verify(t.Context(), b.Name, ids)
				if !errors.Is(err, ErrStalled) || time.Since(began) != StallAfter || v.Depth != "" {
					t.Errorf("verify: %v after %v", err, time.Since(began))
				}
				// Slow is not still: a byte now and then is enough.
				slow := &slowly{r: bytes.NewReader(snapshotOf(4096, 1)), pause: StallAfter - time.Second}
				if _, err := New(inner).Write(t.Context(), req, slow); err != nil {
					t.Errorf("slow source: %v", err)
				}
			})
		})
	}
}

// stalling takes or gives a little of a snapshot and then waits for its context.
type stalling struct {
	blob.Store
	put, get bool
}

func (s *stalling) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	if !s.put || !strings.Contains(key, "/etcd.backup") {
		return s.Store.Put(ctx, key, r, cond)
	}
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "", ctx.Err()
}

func (s *stalling) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	object, err := s.Store.Get(ctx, key, o)
	if err == nil && s.get && strings.Contains(key, "/etcd.backup") {
		object.Body = io.NopCloser(io.MultiReader(io.LimitReader(object.Body, 100), waiting{ctx}))
	}
	return object, err
}

type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

type slowly struct {
	r     io.Reader
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	time.Sleep(s.pause) // in virtual time
	return s.r.Read(p[:min(len(p), 1000)])
}

// A backup of etcd 2, which is a tar of its directory, is listed and marked as
// such, and checked as far as it can be.
func TestV2(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for i := range 3 {
		data := bytes.Repeat([]byte{byte(i)}, 5000)
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("member/wal/%d.wal", i), Mode: 0o600, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		w.Write(data)
	}
	w.Close()
	z.Close()
	store := memory.New()
	c := New(store)
	const name backup.Name = "2018-01-01T00:00:00Z-000001"
	put(t, store, key(name, backup.FileMeta), []byte(`{"etcdVersion":"2.2.1","timestamp":"1514764800"}`))
	put(t, store, key(name, "etcd.backup.gz"), packed.Bytes())
	b, err := c.Get(t.Context(), name)
	if err != nil || !b.Meta.V2() {
		t.Fatalf("%+v, %v", b, err)
	}
	if v, err := c.Verify(t.Context(), name, Identities{}); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	to := New(memory.New())
	if got, err := c.Copy(t.Context(), name, to, Identities{}, time.Time{}); err != nil || !got.Meta.V2() {
		t.Errorf("copy: %+v, %v", got, err)
	}
	if v, err := to.Verify(t.Context(), name, Identities{}); err != nil || !v.OK {
		t.Errorf("verify the copy: %+v, %v", v, err)
	}
	for _, at := range []int{50, packed.Len() - 6} {
		data := slices.Clone(packed.Bytes())
		data[at] ^= 1
		put(t, store, key(name, "etcd.backup.gz"), data)
		if _, err := c.Verify(t.Context(), name, Identities{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("changed at %d: %v", at, err)
		}
	}
	var empty bytes.Buffer
	z = gzip.NewWriter(&empty)
	z.Close()
	put(t, store, key(name, "etcd.backup.gz"), empty.Bytes())
	if _, err := c.Verify(t.Context(), name, Identities{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty: %v", err)
	}
}

// A tar that is whole in its gzip, with no manifest beside it, and cut within a file or
// with a file that comes twice, is damaged: nobody tries it again elsewhere.
func TestV2Tar(t *testing.T) {
	tarOf := func(names ...string) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, name := range names {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 5000}); err != nil {
				t.Fatal(err)
			}
			w.Write(make([]byte, 5000))
		}
		w.Close()
		return out.Bytes()
	}
	const name backup.Name = "2018-01-01T00:00:00Z-000001"
	for what, data := range map[string][]byte{
		"cut within a file":   tarOf("member/wal/0.wal")[:3000],
		"cut within a header": tarOf("member/wal/0.wal", "member/wal/1.wal")[:512+5120+100],
		"twice":               tarOf("member/wal/0.wal", "member/wal/1.wal", "member/wal/0.wal"),
	} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(data)
		z.Close()
		store := memory.New()
		put(t, store, key(name, backup.FileMeta), []byte(`{"etcdVersion":"2.2.1","timestamp":"1514764800"}`))
		put(t, store, key(name, "etcd.backup.gz"), packed.Bytes())
		dir := filepath.Join(t.TempDir(), "data")
		if _, err := New(store).FetchDirectory(t.Context(), name, dir, Identities{}, 1, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is left: %v", what, err)
		}
	}
}

// A download makes a new file for its owner, and never touches one that is there.
func TestDownload(t *testing.T) {
	c := New(memory.New())
	req, ids := request(t, encodings[0])
	data := snapshotOf(1<<20, 1)
	b := write(t, c, req, data)
	out := filepath.Join(t.TempDir(), "snapshot.db")
	var seen int64
	if _, err := c.Download(t.Context(), b.Name, out, ids, func(n int64) { seen = n }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil || !bytes.Equal(got, data) || seen != int64(len(data)) {
		t.Errorf("%d bytes, progress to %d, %v", len(got), seen, err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := c.Download(t.Context(), b.Name, out, ids, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	large := snapshotOf(35<<20, 2) // the disk begins before its end
	b2 := write(t, c, req, large)
	for _, keep := range []Keeping{Durable, SyncedLater, ThrownAway} {
		file := filepath.Join(t.TempDir(), "kept")
		_, err := c.Fetch(t.Context(), b2.Name, file, ids, keep, nil)
		if got, _ := os.ReadFile(file); err != nil || !bytes.Equal(got, large) {
			t.Errorf("kept in way %d: %d bytes of %d, %v", keep, len(got), len(large), err)
		}
	}
	meanwhile := out + "-meanwhile"
	_, err = c.Download(t.Context(), b.Name, meanwhile, ids, func(int64) { os.WriteFile(meanwhile, []byte("another's"), 0o600) })
	if got, _ := os.ReadFile(meanwhile); !errors.Is(err, fs.ErrExist) || string(got) != "another's" {
		t.Errorf("a file that turns up meanwhile: %.20q, %v", got, err)
	}
	os.Remove(meanwhile)
	if _, err := c.Download(t.Context(), b.Name, filepath.Join(out, "x"), ids, nil); err == nil {
		t.Error("below a file")
	}
	if _, err := c.Download(t.Context(), "2026-01-01T00:00:00Z-000009", out+"2", ids, nil); !errors.Is(err, ErrNoBackup) {
		t.Errorf("of none: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// A proof is of what the store had then: of a snapshot that is shorter by now, or
// gone, the list says so before anybody reads it, and it keeps no other backup from
// being the newest that is proven.
func TestProofOfWhatIsGone(t *testing.T) {
	for what, change := range map[string]func(*memory.Store, string) error{
		"cut": func(s *memory.Store, key string) error {
			put(t, s, key, []byte("cut"))
			return nil
		},
		"removed": func(s *memory.Store, key string) error { return s.Delete(t.Context(), key) },
	} {
		t.Run(what, func(t *testing.T) {
			store := memory.New()
			c := New(store)
			req, _ := request(t, encodings[0])
			b := write(t, c, req, snapshotOf(1<<10, 1))
			if err := c.Record(t.Context(), b.Name, backup.Verification{OK: true}); err != nil {
				t.Fatal(err)
			}
			if b, err := c.Get(t.Context(), b.Name); err != nil || b.Err != nil || !b.Proven() || b.Doubt() != "" {
				t.Fatalf("whole: %+v, %v", b, err)
			}
			if err := change(store, key(b.Name, b.File)); err != nil {
				t.Fatal(err)
			}
			got, err := c.Get(t.Context(), b.Name)
			if err != nil || !errors.Is(got.Err, ErrDamaged) || got.Proven() || got.Doubt() == "" || (got.File == "") != (what == "removed") {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := c.Open(t.Context(), b.Name, Identities{}); what == "removed" && !errors.Is(err, ErrDamaged) {
				t.Errorf("open: %v", err)
			}
			if err := c.look(t.Context(), []Entry{got.Entry}, func(b Backup, _ string) {
				if b.Proven() {
					t.Error("it is proven when backups are pruned")
				}
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
