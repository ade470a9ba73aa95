package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/release"
)

// Work that takes long is told of, less and less often, with what is done and how much
// of it; work that does not is not.
func TestLongWorkIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		ctx, end := working(t.Context(), &said, "etcdadm backup verify")
		time.Sleep(6 * time.Second)
		s := progress.Begin(ctx, 40<<20, progress.Bytes, "reading it")
		s.Add(12 << 20)
		time.Sleep(5 * time.Second)
		progress.Begin(ctx, 0, progress.Keys, "writing it").Add(3)
		time.Sleep(10 * time.Second)
		progress.Begin(ctx, 7, progress.Pages, "looking at it").Add(1)
		progress.Waits(ctx, "process 1 builds; this waits 10m0s at most")
		time.Sleep(time.Minute)
		progress.Begin(ctx, 0, "", "waiting for the disk")
		time.Sleep(2 * time.Minute)
		end()
		want := []string{
			"still at it after 5s: etcdadm backup verify",
			"still at it after 10s: reading it, 12 MiB of 40 MiB",
			"still at it after 20s: writing it, 3 keys so far",
			"waiting: process 1 builds; this waits 10m0s at most",
			"still at it after 40s: looking at it, 1 of 7 pages",
			"still at it after 1m20s: looking at it, 1 of 7 pages",
			"still at it after 2m20s: waiting for the disk",
			"still at it after 3m20s: waiting for the disk",
		}
		if got := strings.Split(strings.TrimSpace(said.String()), "\n"); !slices.Equal(got, want) {
			t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		said.Reset()
		_, end = working(t.Context(), &said, "etcdadm snapshot status")
		time.Sleep(workSays - 1)
		end()
		time.Sleep(time.Hour)
		if said.Len() > 0 {
			t.Errorf("short work says %q", said.String())
		}
	})
}

// slow is a store whose large objects come in slowly.
type slow struct {
	*memory.Store
	pause time.Duration // before each 16 KiB
}

func (s slow) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	object, err := s.Store.Get(ctx, key, o)
	if err == nil && strings.Contains(key, "/etcd.backup") {
		object.Body = slowBody{object.Body, s.pause}
	}
	return object, err
}

type slowBody struct {
	io.ReadCloser
	pause time.Duration
}

func (s slowBody) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.ReadCloser.Read(p[:min(len(p), 16<<10)])
}

// The commands on a backup say how much of it was read, whatever they do with it.
func TestCommandsOnABackupSayHowFarTheyAre(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, c *backupstore.Catalogue, b backup.Name, dir string) error{
		"verify": func(ctx context.Context, c *backupstore.Catalogue, b backup.Name, _ string) error {
			return new(backups).verify(ctx, c, b, nil, io.Discard)
		},
		"download": func(ctx context.Context, c *backupstore.Catalogue, b backup.Name, dir string) error {
			return new(backups).download(ctx, c, b, []string{filepath.Join(dir, "snapshot.db")}, io.Discard)
		},
		"copy": func(ctx context.Context, c *backupstore.Catalogue, b backup.Name, dir string) error {
			return (&backups{begins: true}).copy(ctx, c, b, []string{"file://" + filepath.Join(dir, "other")}, io.Discard)
		},
		"drill": func(ctx context.Context, c *backupstore.Catalogue, b backup.Name, dir string) error {
			none := &release.Finder{Dirs: []string{dir}, Caches: []string{}, Roots: []string{dir}}
			var notFound *release.NotFoundError
			if err := new(backups).runDrill(ctx, c, b, none, io.Discard); !errors.As(err, &notFound) { // it was read by then
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data := make([]byte, 256<<10)
			rand.NewChaCha8([32]byte{}).Read(data)
			sum := sha256.Sum256(data)
			whole := append(data, sum[:]...)
			synctest.Test(t, func(t *testing.T) {
				c := backupstore.New(slow{memory.New(), 2 * time.Second})
				b, err := c.Write(t.Context(), backupstore.Request{
					Meta:     backup.Meta{EtcdVersion: cluster.MustVersion("3.6.16")},
					Manifest: backup.Manifest{Cluster: "c", Reason: backup.ReasonPeriodic},
				}, bytes.NewReader(whole))
				if err != nil {
					t.Fatal(err)
				}
				var said bytes.Buffer
				ctx, end := working(t.Context(), &said, name)
				err = do(ctx, c, b.Name, dir)
				end()
				if err != nil {
					t.Error(err)
				}
				if lines := said.String(); !strings.Contains(lines, "reading "+string(b.Name)) || !strings.Contains(lines, " from the store, ") {
					t.Errorf("said %q", lines)
				}
			})
		})
	}
}

// What bounds a drill bounds etcd's own programs: a backup that comes in slowly, and
// comes on, has the time that it takes.
func TestADrillsTimeIsNotTheDownloads(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	sum := sha256.Sum256(data)
	synctest.Test(t, func(t *testing.T) {
		const pause = 4 * time.Minute // a store may take five for a byte
		c := backupstore.New(slow{memory.New(), pause})
		b, err := c.Write(t.Context(), backupstore.Request{
			Meta:     backup.Meta{EtcdVersion: cluster.MustVersion("3.6.16")},
			Manifest: backup.Manifest{Cluster: "c", Reason: backup.ReasonPeriodic},
		}, bytes.NewReader(append(data, sum[:]...)))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		none := &release.Finder{Dirs: []string{dir}, Caches: []string{}, Roots: []string{dir}}
		var notFound *release.NotFoundError
		err = new(backups).runDrill(t.Context(), c, b.Name, none, io.Discard)
		if took := time.Since(began); took <= workTimeout || !errors.As(err, &notFound) {
			t.Errorf("after %s: %v, want one that has been read", took, err)
		}
	})
}
