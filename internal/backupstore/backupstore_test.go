package backupstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// snapshotOf gives a database of so many bytes as etcd would send it: half of it
// random, half of it repetitive.
func snapshotOf(size int, seed uint64) []byte {
	data := make([]byte, size, size+sha256.Size)
	chacha := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	chacha.Read(data[:size/2])
	for i := size / 2; i < size; i++ {
		data[i] = byte(i / 100)
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

var encodings = []backup.Encoding{
	{Compression: backup.Gzip}, {Compression: backup.Zstd}, {Compression: backup.None},
	{Compression: backup.Gzip, Encrypted: true}, {Compression: backup.Zstd, Encrypted: true}, {Compression: backup.None, Encrypted: true},
}

// forEachEncoding runs a test for each encoding. Identities are of the recipient.
func forEachEncoding(t *testing.T, f func(t *testing.T, req Request, ids Identities)) {
	for _, e := range encodings {
		t.Run(e.File(), func(t *testing.T) {
			req, ids := request(t, e)
			f(t, req, ids)
		})
	}
}

func request(t testing.TB, e backup.Encoding) (Request, Identities) {
	t.Helper()
	req := Request{
		Meta: backup.Meta{EtcdVersion: cluster.MustVersion("3.7.3"), MemberCount: 3, SpecVersion: cluster.MustVersion("3.7.3")},
		Manifest: backup.Manifest{
			Cluster: "etcd", ClusterID: 1, MemberID: 2, Host: "a", Reason: backup.ReasonRequested, Position: backup.Position{Revision: 7, Term: 2, Index: 9},
		},
		Compression: e.Compression,
	}
	if !e.Encrypted {
		return req, Identities{}
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if req.Recipients, err = ParseRecipients([]string{id.Recipient().String()}); err != nil {
		t.Fatal(err)
	}
	ids, err := ParseIdentities(strings.NewReader("# of a test\n" + id.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return req, ids
}

func fileStore(t testing.TB) *file.Store {
	t.Helper()
	return openFile(t, t.TempDir())
}

func write(t testing.TB, c *Catalogue, req Request, data []byte) Backup {
	t.Helper()
	b, err := c.Write(t.Context(), req, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func list(t testing.TB, c *Catalogue) []backup.Name {
	t.Helper()
	entries, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := []backup.Name{}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func keys(t testing.TB, s blob.Store) []string {
	t.Helper()
	infos, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, i := range infos {
		out = append(out, i.Key)
	}
	return out
}

func read(t testing.TB, c *Catalogue, name backup.Name, ids Identities) ([]byte, error) {
	t.Helper()
	s, err := c.Open(t.Context(), name, ids)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return io.ReadAll(s)
}

// What is written is listed, described and read back, from either store.
func TestWriteAndRead(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, req Request, ids Identities) {
		for _, store := range []blob.Store{memory.New(), fileStore(t)} {
			c := New(store)
			for i, size := range []int{512, 4096, 1 << 20, 5<<20 + 512} {
				data := snapshotOf(size, uint64(i))
				var seen int64
				req.Progress = func(n int64) { seen = n }
				began := time.Now()
				b := write(t, c, req, data)
				if seen != int64(len(data)) {
					t.Errorf("progress ended at %d of %d", seen, len(data))
				}
				if at := b.Name.Time(); at.Before(began.Truncate(time.Second)) || at.After(time.Now()) {
					t.Errorf("name %s", b.Name)
				}
				got, err := read(t, c, b.Name, ids)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("read %d bytes of %d: %v", len(got), len(data), err)
				}
				again, err := c.Get(t.Context(), b.Name)
				if err != nil {
					t.Fatal(err)
				}
				b.Modified = again.Modified
				if diff := cmp.Diff(b, again); diff != "" {
					t.Errorf("what was written and what is read differ: %s", diff)
				}
				checkFolder(t, store, b, data)
				v, err := c.Verify(t.Context(), b.Name, ids)
				if err != nil || !v.OK || v.Depth != backup.DepthContent {
					t.Errorf("verify: %+v, %v", v, err)
				}
			}
			if n := len(list(t, c)); n != 4 {
				t.Errorf("%d are listed", n)
			}
		}
	})
}

// checkFolder holds a folder against the format.
func checkFolder(t *testing.T, store blob.Store, b Backup, data []byte) {
	t.Helper()
	var files []string
	for _, k := range keys(t, store) {
		if f, ok := strings.CutPrefix(k, b.Name.String()+"/"); ok {
			files = append(files, f)
		}
	}
	want := []string{"_etcd_backup.meta", "_etcdadm_backup.json", b.Encoding.File()}
	if !slices.Equal(files, want) {
		t.Errorf("the folder holds %q, want %q", files, want)
	}
	m := b.Manifest
	sum := sha256.Sum256(data)
	if m.Snapshot != (backup.Content{Size: int64(len(data)), SHA256: fmt.Sprintf("%x", sum)}) {
		t.Errorf("the manifest says %+v of the snapshot", m.Snapshot)
	}
	stored, _, err := blob.ReadAll(t.Context(), store, key(b.Name, m.File), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	sum = sha256.Sum256(stored)
	if m.Stored != (backup.Content{Size: int64(len(stored)), SHA256: fmt.Sprintf("%x", sum)}) || b.Size != m.Stored.Size {
		t.Errorf("the manifest says %+v of the object", m.Stored)
	}
	if m.Host != "a" || m.Position.Revision != 7 || m.Started.IsZero() || m.EtcdVersion != b.Meta.EtcdVersion || (len(m.Recipients) == 1) != m.Encoding.Encrypted {
		t.Errorf("manifest: %+v", m)
	}
}

// 1,000 backups are listed by one call, and nothing is read.
func TestListingIsOneCall(t *testing.T) {
	store := memory.New()
	const n = 1000
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	meta := backup.Meta{EtcdVersion: cluster.MustVersion("3.7.3")}
	for i := range n {
		name, err := backup.NewName(at.Add(time.Duration(i)*time.Minute), i)
		if err != nil {
			t.Fatal(err)
		}
		for f, data := range map[string][]byte{"etcd.backup.gz": []byte("x"), backup.FileMeta: meta.Format(), backup.FileManifest: backup.Manifest{}.Encode()} {
			put(t, store, key(name, f), data)
		}
	}
	put(t, store, "control/etcd-cluster-created", []byte("x"))
	put(t, store, "hand-made/_etcd_backup.meta", meta.Format())
	put(t, store, "2026-11-20T23:08:18Z-000005/deeper/_etcd_backup.meta", meta.Format())
	put(t, store, "2026-12-20T23:08:18Z-000005/etcd.backup.gz", []byte("x"))
	calls := map[memory.Op]int{}
	var mu sync.Mutex // guards calls
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		calls[call.Op]++
		return memory.Fault{}
	})
	c := New(store)
	l, err := c.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Backups) != n || calls[memory.List] != 1 || len(calls) != 1 {
		t.Errorf("%d backups, %v", len(l.Backups), calls)
	}
	if !slices.IsSortedFunc(l.Backups, func(a, b Entry) int { return b.Name.Compare(a.Name) }) {
		t.Error("not newest first")
	}
	if len(l.Unfinished) != 1 || l.Unfinished[0].Name != "2026-12-20T23:08:18Z-000005" || !slices.Equal(l.Odd, []string{"hand-made"}) {
		t.Errorf("unfinished %v, odd %v", l.Unfinished, l.Odd)
	}
	all, err := c.Describe(t.Context(), l.Backups)
	if err != nil || len(all) != n {
		t.Fatalf("%d, %v", len(all), err)
	}
	for i, b := range all {
		if b.Name != l.Backups[i].Name || b.Err != nil || b.Manifest == nil {
			t.Fatalf("%d: %+v", i, b)
		}
	}
	if calls[memory.Get] != 2*n {
		t.Errorf("%v", calls)
	}
	// Several are read at a time, and not more.
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Second
		store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: wait} })
		began := time.Now()
		if _, err := c.Describe(t.Context(), l.Backups); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 2*n/together*wait {
			t.Errorf("took %v", took)
		}
	})
}

func put(t testing.TB, s blob.Store, key string, data []byte) {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), s, key, data, blob.Any); err != nil {
		t.Fatal(err)
	}
}

// What is wrong with one backup's files shows at that one, and hides nothing.
func TestBrokenFilesShow(t *testing.T) {
	store := memory.New()
	c := New(store)
	req, _ := request(t, encodings[0])
	good := write(t, c, req, snapshotOf(4096, 1))
	meta := []byte(`{"etcdVersion":"3.7.3"}`)
	put(t, store, "2026-01-01T00:00:00Z-000001/_etcd_backup.meta", []byte("{"))
	put(t, store, "2026-01-01T00:00:00Z-000001/etcd.backup.gz", []byte("x"))
	put(t, store, "2026-01-01T00:00:00Z-000002/_etcd_backup.meta", meta)
	put(t, store, "2026-01-01T00:00:00Z-000003/_etcd_backup.meta", bytes.Repeat([]byte(" "), maxFile+1))
	put(t, store, "2026-01-01T00:00:00Z-000003/etcd.backup.gz", []byte("x"))
	put(t, store, "2026-01-01T00:00:00Z-000004/_etcd_backup.meta", meta)
	put(t, store, "2026-01-01T00:00:00Z-000004/_etcdadm_backup.json", []byte(`{"format":9}`))
	put(t, store, "2026-01-01T00:00:00Z-000004/etcd.backup.gz", []byte("x"))
	entries, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Describe(t.Context(), entries)
	if err != nil || len(all) != 5 {
		t.Fatalf("%d, %v", len(all), err)
	}
	for i, want := range []error{nil, backup.ErrNewer, blob.ErrTooLarge, ErrDamaged, backup.ErrMalformed} {
		if got := all[i].Err; !errors.Is(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", all[i].Name, got, want)
		}
	}
	if all[0].Name != good.Name {
		t.Errorf("the first is %s", all[0].Name)
	}
	for _, name := range []backup.Name{"2026-01-01T00:00:00Z-000009", "../etc", ""} {
		_, err := c.Get(t.Context(), name)
		if !errors.Is(err, ErrNoBackup) && !errors.Is(err, backup.ErrName) {
			t.Errorf("get %q: %v", name, err)
		}
	}
}

func TestKeysAreChecked(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{
		{""}, {"age1"}, {id.String()}, {id.Recipient().String() + "\n" + id.Recipient().String()},
		{id.Recipient().String(), hybrid.Recipient().String()}, {"ssh-ed25519 AAAA"},
	} {
		if _, err := ParseRecipients(keys); err == nil {
			t.Errorf("%.30q is accepted", keys)
		} else if strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("the error repeats a secret")
		}
	}
	if r, err := ParseRecipients(nil); err != nil || len(r.keys) != 0 {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := ParseRecipients([]string{hybrid.Recipient().String()}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "nonsense", id.Recipient().String(), id.String()[:40]} {
		if _, err := ParseIdentities(strings.NewReader(text)); err == nil {
			t.Errorf("%.30q is accepted", text)
		} else if strings.Contains(err.Error(), id.String()[:20]) {
			t.Error("the error repeats a secret")
		}
	}
}

// Without the identity, an encrypted backup is refused in words; what lies in
// the store is verified all the same.
func TestEncryptedWithoutIdentity(t *testing.T) {
	store := memory.New()
	c := New(store)
	req, _ := request(t, encodings[3])
	_, others := request(t, encodings[3])
	b := write(t, c, req, snapshotOf(1<<20, 1))
	for _, ids := range []Identities{{}, others} {
		if _, err := read(t, c, b.Name, ids); !errors.Is(err, ErrEncrypted) || errors.Is(err, ErrDamaged) {
			t.Errorf("open: %v", err)
		}
	}
	v, err := c.Verify(t.Context(), b.Name, Identities{})
	if err != nil || v.Depth != backup.DepthStored || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	if _, err := c.Verify(t.Context(), b.Name, others); !errors.Is(err, ErrEncrypted) {
		t.Errorf("verify with another's identity: %v", err)
	}
	flip(t, store, b, 100_000)
	if v, err := c.Verify(t.Context(), b.Name, Identities{}); !errors.Is(err, ErrDamaged) || v.OK || v.Problem == "" {
		t.Errorf("verify what was changed: %+v, %v", v, err)
	}
}

// flip changes one bit of a backup's object.
func flip(t testing.TB, s blob.Store, b Backup, at int) {
	t.Helper()
	change(t, s, b, func(data []byte) []byte { data[at] ^= 1; return data })
}

func change(t testing.TB, s blob.Store, b Backup, how func([]byte) []byte) {
	t.Helper()
	k := key(b.Name, b.File)
	data, _, err := blob.ReadAll(t.Context(), s, k, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, k, how(slices.Clone(data)))
}

func openFile(t testing.TB, dir string) *file.Store {
	t.Helper()
	s, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
