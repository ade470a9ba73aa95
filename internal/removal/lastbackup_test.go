package removal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/kept"
)

// lastBackup is a backup in the store that the other hosts are.
func lastBackup(t *testing.T, w *world) string {
	t.Helper()
	database := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	sum := sha256.Sum256(database)
	b, err := backupstore.New(w.store).Write(t.Context(), backupstore.Request{
		Meta: backup.Meta{EtcdVersion: cluster.MustVersion("3.7.3")}, Compression: backup.None,
	}, bytes.NewReader(append(database, sum[:]...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b.Name)
}

// hasBackup tells whether a host's disk has a whole backup, by its own files.
func hasBackup(t *testing.T, own blob.Store, name string) (listed, good bool) {
	t.Helper()
	entries, err := backupstore.New(own).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = backupstore.New(own).Verify(t.Context(), backup.Name(name), backupstore.Identities{})
	return len(entries) > 0, err == nil
}

// breaks is a store whose reads fail after so many bytes of the files that are written.
type breaks struct {
	blob.Store
	left *int64
}

func (b breaks) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	object, err := b.Store.Get(ctx, key, o)
	if err == nil {
		object.Body = io.NopCloser(cutOff{object.Body, b.left})
	}
	return object, err
}

type cutOff struct {
	io.Reader
	left *int64
}

func (c cutOff) Read(p []byte) (int, error) {
	if *c.left <= 0 {
		return 0, errors.New("connection reset")
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), *c.left)])
	*c.left -= int64(n)
	return n, err
}

// through is the world, whose kept files are read through another store.
type through struct {
	*world
	kept blob.Store
}

func (c through) Kept() blob.Store { return c.kept }

// The last backup of a cluster without a store may lie on other hosts only: this one has a good copy before they go, or
// says that it has none. A copy that was interrupted is no backup, and the next run makes it whole.
func TestLastBackupIsCopiedHere(t *testing.T) {
	for after := int64(0); ; after += 500 {
		w := newWorld(t)
		h, _ := installed(t, w)
		j := &job{Backup: lastBackup(t, w), DataDir: h.Paths.Data(), Store: kept.URL(h.Paths.Data())}
		own, err := kept.Own(t.Context(), j.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		left := after
		here, err := h.copyHere(t.Context(), j, through{w, breaks{w.store, &left}}, time.Second)
		if here && err == nil {
			if after < 17000 {
				t.Fatalf("it was whole after %d bytes", after)
			}
			return
		}
		if listed, _ := hasBackup(t, own, j.Backup); here || listed {
			t.Errorf("interrupted after %d bytes: here %v, listed %v, %v", after, here, listed, err)
		}
		for range 2 {
			if here, err := h.copyHere(t.Context(), j, w, time.Second); !here || err != nil {
				t.Fatalf("run again: here %v, %v", here, err)
			}
			if _, good := hasBackup(t, own, j.Backup); !good {
				t.Fatal("run again, the copy is not good")
			}
			w.store = breaks{w.store, new(int64)} // nothing is read again
		}
	}
}

// What is there already is verified: a copy without its data, or with other data, is made anew.
func TestCopyOfLastBackupIsVerified(t *testing.T) {
	for _, lacks := range []bool{true, false} {
		w := newWorld(t)
		h, _ := installed(t, w)
		j := &job{Backup: lastBackup(t, w), DataDir: h.Paths.Data(), Store: kept.URL(h.Paths.Data())}
		own, err := kept.Own(t.Context(), j.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		list, err := w.store.List(t.Context(), j.Backup+"/")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			data, _, err := blob.ReadAll(t.Context(), w.store, o.Key, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if isData := strings.HasSuffix(o.Key, "/"+backup.Encoding{Compression: backup.None}.File()); isData && lacks {
				continue
			} else if isData {
				data[100] ^= 1
			}
			if _, err := blob.PutBytes(t.Context(), own, o.Key, data, blob.Any); err != nil {
				t.Fatal(err)
			}
		}
		if here, err := h.copyHere(t.Context(), j, w, time.Second); !here || err != nil {
			t.Errorf("here %v, %v", here, err)
		}
		if _, good := hasBackup(t, own, j.Backup); !good {
			t.Error("the copy is not good")
		}
	}
}

// With a shared store nothing is copied.
func TestLastBackupInAStore(t *testing.T) {
	h, _ := installed(t, newWorld(t))
	if here, err := h.copyHere(t.Context(), &job{Backup: "x", DataDir: h.Paths.Data(), Store: "s3://b/f"}, nil, time.Second); here || err != nil {
		t.Errorf("here %v, %v", here, err)
	}
}

// A run after an interruption copies the backup that the first one took, and says where it lies; without a good copy it
// does not name this host.
func TestDestroyGoesOnWithItsBackup(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := newWorld(t)
		h, _ := installed(t, w)
		d, err := h.LookToDestroy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		j := d.Last.job
		j.Backup, j.Store, j.Destroys = lastBackup(t, w), kept.URL(h.Paths.Data()), true
		if err := h.saveJob(j); err != nil {
			t.Fatal(err)
		}
		own, err := kept.Own(t.Context(), j.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blob.PutBytes(t.Context(), own, j.Backup+"/"+backup.FileManifest, []byte("{}"), blob.Any); err != nil {
			t.Fatal(err)
		}
		if d, err = h.LookToDestroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if silent {
			w.store = breaks{w.store, new(int64)}
		}
		done, err := h.Destroy(t.Context(), d, Options{})
		if err != nil || done.Backup != j.Backup {
			t.Fatalf("%+v, %v", done, err)
		}
		elsewhere := strings.HasSuffix(done.At, " on other hosts")
		if elsewhere != silent || !silent && !there(filepath.Join(done.At, backup.FileMeta)) {
			t.Errorf("the other hosts are silent: %v; it lies at %s", silent, done.At)
		}
	}
}
