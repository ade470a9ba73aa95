package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// smallDatabase is one as etcd writes it, with a few levels of pages, whose values
// have one length but for a long one, which overflows.
func smallDatabase(t testing.TB, records int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, PageSize: 1024, NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		var err error
		put := func(bucket string, k, v []byte) {
			b, e := tx.CreateBucketIfNotExists([]byte(bucket))
			if e == nil {
				e = b.Put(k, v)
			}
			err = errors.Join(err, e)
		}
		for i := range records {
			key := binary.BigEndian.AppendUint64(nil, uint64(i+2))
			key = append(append(key, '_'), make([]byte, 8)...)
			v := protowire.AppendTag(nil, 1, protowire.BytesType)
			v = protowire.AppendBytes(v, fmt.Appendf(nil, "key-%04d", i))
			v = protowire.AppendTag(v, 3, protowire.VarintType)
			v = protowire.AppendVarint(v, uint64(i+2))
			v = protowire.AppendTag(v, 5, protowire.BytesType)
			n := 40
			if i == records/2 {
				n = 3000
			}
			put(bucketKey, key, protowire.AppendBytes(v, make([]byte, n)))
			put(bucketLease, key[:8], []byte("a lease, and as long as one is in these days of ours"))
		}
		put(bucketMeta, []byte(metaConsistentIndex), make([]byte, 8))
		put(bucketMeta, []byte(metaStorageVersion), []byte("3.6.0"))
		put(bucketMembers, []byte("8e9e05c52164694d"), []byte(`{"id":10276657743932975437,"name":"a"}`))
		return err
	}))
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// sealedFile is a file with a hash that fits, whatever the database is.
func sealedFile(t testing.TB, database []byte) string {
	t.Helper()
	sum := sha256.Sum256(database)
	path := filepath.Join(t.TempDir(), "snapshot")
	must(t, os.WriteFile(path, append(database[:len(database):len(database)], sum[:]...), 0o600))
	return path
}

// readEverything is each way in which a database is read here, and each way in which
// one is opened for writing.
func readEverything(t testing.TB, database []byte) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path := sealedFile(t, database)
	out := map[string]error{}
	_, out["verify"] = Verify(ctx, path)
	out["dump"] = Dump(ctx, path, func(KeyValue) error { return nil })
	_, out["header"] = peek(path)
	Wrote(path)
	_, out["removals"] = falselyRemoved(path)
	out["excerpt"] = makeExcerpt(path, path+".excerpt")
	for name, change := range map[string]func(string) error{
		"change": func(p string) error { return changeDatabase(p, func(*bbolt.Tx) error { return nil }) },
		"mend":   func(p string) error { return unremove(p, ids(1)) },
		"unmark": unmark,
		"raise":  func(p string) error { return raise(p, 1<<40) },
	} {
		written := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(written, database, 0o600))
		out[name] = change(written)
	}
	return out
}

// pagesOf are the pages of a kind, by number.
func pagesOf(database []byte, kind uint16) (found []uint64) {
	for at := 2 * 1024; at < len(database); at += 1024 {
		page := database[at:]
		number := binary.NativeEndian.Uint64(page)
		if number == uint64(at/1024) && binary.NativeEndian.Uint16(page[pageFlagsAt:]) == kind && binary.NativeEndian.Uint16(page[pageCountAt:]) > 0 {
			found = append(found, number)
		}
	}
	return found
}

// TestPagesThatLeadBack: where pages lead to themselves, to one above or twice to the
// same, the way ends with an error, and not the process.
func TestPagesThatLeadBack(t *testing.T) {
	whole := smallDatabase(t, 400)
	for name, err := range readEverything(t, whole) {
		if err != nil {
			t.Fatalf("a database that is whole: %s: %v", name, err)
		}
	}
	branches := pagesOf(whole, pageBranch)
	if len(branches) < 4 {
		t.Fatalf("only %d pages lead to others", len(branches))
	}
	for _, page := range append(branches[:2:2], branches[len(branches)-1]) {
		count := int(binary.NativeEndian.Uint16(whole[page*1024+pageCountAt:]))
		for _, at := range []int{0, count - 1} {
			for _, to := range []uint64{page, branches[0], branches[len(branches)-1], 0, ^uint64(0)} {
				data := append([]byte(nil), whole...)
				child := data[int(page)*1024+pageHead+at*elementAt+8:]
				if binary.NativeEndian.Uint64(child) == to {
					continue
				}
				binary.NativeEndian.PutUint64(child, to)
				found := readEverything(t, data)
				for _, name := range []string{"verify", "dump", "change", "mend"} {
					if err := found[name]; !errors.Is(err, ErrDamaged) {
						t.Fatalf("page %d leads to %d: %s: %v", page, to, name, err)
					}
				}
			}
		}
	}
}

// FuzzDatabase: of a database with a few bytes changed, and a hash that fits again,
// everything is read, or refused as damaged.
func FuzzDatabase(f *testing.F) {
	whole := smallDatabase(f, 60)
	branches, leaves := pagesOf(whole, pageBranch), pagesOf(whole, pageLeaf)
	for _, p := range []uint64{branches[0], branches[len(branches)-1], leaves[0], leaves[len(leaves)-1]} {
		f.Add(uint32(p*1024+pageHead+8), uint64(p), uint32(p*1024+pageCountAt), uint64(0xffff))
		f.Add(uint32(p*1024+pageFlagsAt), uint64(1), uint32(p*1024+pageOverAt), uint64(1))
	}
	f.Add(uint32(pageHead+metaRootAt), uint64(3), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, at uint32, what uint64, at2 uint32, what2 uint64) {
		data := append([]byte(nil), whole...)
		for _, c := range []struct {
			at   uint32
			what uint64
		}{{at, what}, {at2, what2}} {
			binary.NativeEndian.PutUint64(data[int(c.at)%(len(data)-8):], c.what)
		}
		for _, meta := range [][]byte{data[pageHead:], data[1024+pageHead:]} { // what they say counts, whatever it is
			binary.NativeEndian.PutUint64(meta[metaSumAt:], metaSum(meta[:metaSize]))
		}
		for name, err := range readEverything(t, data) {
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Logf("%s: %v", name, err)
			}
		}
	})
}
