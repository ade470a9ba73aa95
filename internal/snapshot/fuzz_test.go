package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// FuzzRecords: what lies in a database is read, or refused.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x01_\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x0a\x03key\x10\x02\x18\x03\x20\x01\x2a\x05value\x30\x07"))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRevision(data); err == nil && (r.main < 1 || r.sub < 0) {
			t.Fatalf("%x is revision %+v", data, r)
		}
		r, err := parseRecord(data)
		kv, kvErr := parseKeyValue(data)
		if (err == nil) != (kvErr == nil) {
			t.Fatalf("%x: one reads it, the other does not: %v, %v", data, err, kvErr)
		}
		if err == nil && (string(r.key) != string(kv.Key) || r.mod != kv.ModRevision || r.version != kv.Version) {
			t.Fatalf("%x is %+v to one, and %+v to the other", data, r, kv)
		}
	})
}

// FuzzLog: a log of any bytes is read, or refused, and the end that was
// remembered is the end that is read anew.
func FuzzLog(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "wal")
	w, err := wal.Create(nil, dir, []byte("\x08\x01\x10\x02"))
	if err != nil {
		f.Fatal(err)
	}
	saveLog(f, w, 2, Position{1, 1}, Position{1, 2})
	saveSnap(f, w, Position{1, 2})
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	names, _, err := logFiles(dir)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, names[0]))
	if err != nil {
		f.Fatal(err)
	}
	whole = whole[:512]
	f.Add(whole)
	f.Add(whole[:len(whole)/4])
	f.Add([]byte{})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\x7f\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		member := t.TempDir()
		dir := filepath.Join(member, "member", "wal")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0000000000000000-0000000000000000.wal"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		var ends LogEnds
		one, err := ends.Of(t.Context(), member, nil)
		other, otherErr := ends.Of(t.Context(), member, nil)
		if one != other || (err == nil) != (otherErr == nil) {
			t.Fatalf("it ends at %v, %v, and then at %v, %v", one, err, other, otherErr)
		}
		l, readErr := readLog(dir, 0)
		if err == nil && readErr == nil && l.last != one {
			t.Fatalf("it ends at %v for one, and at %v for the other", one, l.last)
		}
		if readErr != nil && errors.Is(readErr, os.ErrNotExist) {
			t.Fatal(readErr)
		}
	})
}
