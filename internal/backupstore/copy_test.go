package backupstore

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob/memory"
)

// A copy is a backup of its own: whole, listed under the same name, and only if
// the original is good.
func TestCopy(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, req Request, ids Identities) {
		store := fileStore(t)
		c := New(store)
		data := snapshotOf(1<<20, 1)
		b := write(t, c, req, data)
		if err := errors.Join(c.Record(t.Context(), b.Name, backup.Verification{OK: true}), c.Pin(t.Context(), b.Name, "audit")); err != nil {
			t.Fatal(err)
		}
		for _, with := range []Identities{ids, {}} {
			to := New(memory.New())
			got, err := c.Copy(t.Context(), b.Name, to, with, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Manifest.Stored != b.Manifest.Stored || got.Manifest.Snapshot != b.Manifest.Snapshot || got.Manifest.Host != "a" || got.Manifest.Proven() || got.Manifest.Pinned != "" {
				t.Errorf("%+v", got.Manifest)
			}
			if read, err := read(t, to, b.Name, ids); err != nil || !bytes.Equal(read, data) {
				t.Errorf("read the copy: %d bytes, %v", len(read), err)
			}
			until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
			for _, at := range []time.Time{until, until.Add(-time.Minute)} {
				if again, err := c.Copy(t.Context(), b.Name, to, with, at); err != nil || again.Manifest.Stored != b.Manifest.Stored || !again.Manifest.KeepUntil.Equal(until) {
					t.Errorf("again: %+v, %v", again.Manifest, err)
				}
			}
			if later, err := c.Copy(t.Context(), b.Name, New(memory.New()), with, until); err != nil || !later.Manifest.KeepUntil.Equal(until) {
				t.Errorf("kept for longer: %+v, %v", later.Manifest, err)
			}
			other := memory.New()
			if _, err := New(other).take(t.Context(), b.Name, b.File); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Copy(t.Context(), b.Name, New(other), with, time.Time{}); !errors.Is(err, ErrExists) || !errors.As(err, new(*IncompleteError)) {
				t.Errorf("beside an unfinished one: %v", err)
			}
		}
		for _, cut := range []bool{false, true} {
			change(t, store, b, func(data []byte) []byte {
				if cut {
					return data[:len(data)/2]
				}
				data[len(data)/2] ^= 1
				return data
			})
			to := memory.New()
			for _, with := range []Identities{ids, {}} {
				if _, err := c.Copy(t.Context(), b.Name, New(to), with, time.Time{}); !errors.Is(err, ErrDamaged) {
					t.Errorf("of a damaged one: %v", err)
				}
			}
			if k := keys(t, to); len(k) != 0 {
				t.Errorf("left behind: %q", k)
			}
		}
		if _, err := c.Copy(t.Context(), "2026-01-01T00:00:00Z-000009", New(memory.New()), ids, time.Time{}); !errors.Is(err, ErrNoBackup) {
			t.Errorf("of none: %v", err)
		}
		// Without a manifest it is its own checksum that counts.
		if err := store.Delete(t.Context(), key(b.Name, backup.FileManifest)); err != nil {
			t.Fatal(err)
		}
		to := memory.New()
		if got, err := c.Copy(t.Context(), b.Name, New(to), ids, time.Time{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("of a damaged one without a manifest: %+v, %v", got, err)
		}
		if _, err := c.Copy(t.Context(), b.Name, New(to), Identities{}, time.Time{}); b.Encoding.Encrypted && !errors.Is(err, ErrEncrypted) {
			t.Errorf("of an encrypted one without anything to judge it by: %v", err)
		}
	})
}

// A store that goes away while it is copied to, at any call, lists nothing.
func TestEveryFaultOfCopying(t *testing.T) {
	from := New(memory.New())
	req, ids := request(t, encodings[0])
	b := write(t, from, req, snapshotOf(300<<10, 1))
	gone := errors.New("connection reset")
	for n := range 20 {
		store := memory.New()
		calls := faulty(store, n, memory.Fault{Err: gone})
		_, err := from.Copy(t.Context(), b.Name, New(store), ids, time.Time{})
		if calls.Load() <= int64(n) {
			if n < 5 || err != nil {
				t.Fatalf("only %d calls, %v", calls.Load(), err)
			}
			return
		}
		store.Inject(nil)
		names := list(t, New(store))
		for _, name := range names {
			if v, err := New(store).Verify(t.Context(), name, ids); err != nil || !v.OK {
				t.Errorf("call %d: listed, and %+v, %v", n, v, err)
			}
		}
	}
	t.Error("there is no end of calls")
}
