package backupstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/testetcd"
)

// memoryAbove is the most that the pipeline may take, whatever the size.
const memoryAbove = 64 << 20

// synthetic streams a snapshot of a size that is never held.
type synthetic struct {
	left   int64
	chacha *mathrand.ChaCha8
	sum    hash.Hash
	tail   []byte
}

func newSynthetic(size int64) *synthetic {
	return &synthetic{left: size, chacha: mathrand.NewChaCha8([32]byte{1}), sum: sha256.New()}
}

func (s *synthetic) Read(p []byte) (int, error) {
	if s.left > 0 {
		p = p[:min(int64(len(p)), s.left)]
		s.chacha.Read(p)
		for i := range p {
			p[i] &= 0x3f // six bits a byte, as base64 has
		}
		s.sum.Write(p)
		if s.left -= int64(len(p)); s.left == 0 {
			s.tail = s.sum.Sum(nil)
		}
		return len(p), nil
	}
	if len(s.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.tail)
	s.tail = s.tail[n:]
	return n, nil
}

// sink is a store that forgets large objects, and gives back what it is told.
type sink struct {
	*memory.Store
	size int64
}

func (s *sink) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	if !strings.Contains(key, "/etcd.backup") {
		return s.Store.Put(ctx, key, r, cond)
	}
	n, err := io.Copy(io.Discard, r)
	s.size = n
	return "x", err
}

// Memory does not depend on the size of the database: two gigabytes pass within
// the bound.
func TestMemoryIsConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("streams gigabytes")
	}
	for _, e := range encodings {
		size := int64(256 << 20)
		if e == encodings[0] {
			size = 2 << 30
		}
		t.Run(fmt.Sprintf("%s of %d MiB", e.File(), size>>20), func(t *testing.T) {
			req, _ := request(t, e)
			store := &sink{Store: memory.New()}
			var b Backup
			most := heapAbove(func() {
				var err error
				if b, err = New(store).Write(t.Context(), req, newSynthetic(size)); err != nil {
					t.Error(err)
				}
			})
			t.Logf("%d MiB above idle; stored %.3f of it", most>>20, float64(store.size)/float64(size))
			if most > memoryAbove {
				t.Errorf("took %d MiB above idle", most>>20)
			}
			if b.Manifest == nil || b.Manifest.Stored.Size != store.size || b.Manifest.Snapshot.Size != size+sha256.Size {
				t.Errorf("%+v", b.Manifest)
			}
		})
	}
}

// heapAbove tells how much the heap grew at most while a function ran, with
// what was garbage at each moment.
func heapAbove(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	heap := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64() + sample[1].Value.Uint64()
	}
	runtime.GC()
	before, most := heap(), uint64(0)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, heap())
			}
		}
	})
	f()
	close(stop)
	all.Wait()
	return most - min(most, before)
}

// TestSpeed compares a backup of a real member with etcdctl's own snapshot. It
// takes a minute and two idle processors, so it runs only when it is asked for:
// ETCDADM_TEST_BACKUP_MIB is the size of the database.
func TestSpeed(t *testing.T) {
	var mib int
	if _, err := fmt.Sscan(os.Getenv("ETCDADM_TEST_BACKUP_MIB"), &mib); err != nil {
		t.Skip("ETCDADM_TEST_BACKUP_MIB is not set")
	}
	c := testetcd.Start(t, testetcd.Config{Args: []string{"--quota-backend-bytes=8589934592"}})
	fillDatabase(t, c.Client(t), mib<<20)
	release := testetcd.Binary(t, testetcd.V37)
	dir := t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := drive(t, c)
	out := filepath.Join(dir, "etcdctl.db")
	best := map[string]time.Duration{}
	ratio := map[string]float64{}
	most := map[string]uint64{}
	note := func(what string, began time.Time) {
		if took := time.Since(began); best[what] == 0 || took < best[what] {
			best[what] = took
		}
	}
	// In turns, so that what else the machine does falls on all of them.
	measured := []backup.Encoding{encodings[2], encodings[0], encodings[1], encodings[3]}
	for range 4 {
		began := time.Now()
		run(t, release.Etcdctl, "--endpoints", c.Members[0].ClientURL, "snapshot", "save", out)
		note("etcdctl", began)
		os.Remove(out)
		for _, e := range measured {
			req, _ := request(t, e)
			most[e.File()] = max(most[e.File()], heapAbove(func() {
				began := time.Now()
				source, err := d.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer source.Close()
				b, err := New(store).Write(t.Context(), req, source)
				if err != nil {
					t.Fatal(err)
				}
				note(e.File(), began)
				ratio[e.File()] = float64(b.Size) / float64(b.Manifest.Snapshot.Size)
				if err := New(store).Remove(t.Context(), b.Name); err != nil {
					t.Error(err)
				}
			}))
		}
	}
	t.Logf("etcdctl snapshot save: %v", best["etcdctl"])
	for _, e := range measured {
		t.Logf("%-20s %v, %.2f of etcdctl's time, stored %.3f, %d MiB above idle", e.File(), best[e.File()],
			best[e.File()].Seconds()/best["etcdctl"].Seconds(), ratio[e.File()], most[e.File()]>>20)
	}
}

// fillDatabase writes values of 1.2 MB that hardly compress.
func fillDatabase(t *testing.T, client *clientv3.Client, size int) {
	t.Helper()
	raw := make([]byte, 900_000)
	for i := 0; i*1_200_000 < size; i++ {
		rand.Read(raw)
		if _, err := client.Put(t.Context(), fmt.Sprintf("/key/%06d", i), base64.StdEncoding.EncodeToString(raw)); err != nil {
			t.Fatal(err)
		}
	}
}
