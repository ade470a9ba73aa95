package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// The revision that is found while a database passes is that of its last
// record, whatever has become of the file before, and however it is cut.
func TestNewestRevision(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name                string
		records, size, each int // size: up to so many bytes of value; each: records a transaction
		keep                int // the newest so many survive a compaction; 0: all
		pad                 int // buckets beside that of the keys, so large that their names fill several pages
		tombstone           bool
	}{
		{name: "none"},
		{name: "one", records: 1, size: 10, each: 1},
		{name: "within its parent", records: 5, size: 20, each: 1},
		{name: "one page", records: 30, size: 60, each: 7},
		{name: "many", records: 20000, size: 40, each: 900},
		{name: "over several pages each", records: 300, size: 30000, each: 1},
		{name: "over several pages, one transaction", records: 200, size: 9000, each: 200},
		{name: "compacted", records: 9000, size: 300, each: 100, keep: 3},
		{name: "compacted to large ones", records: 900, size: 9000, each: 10, keep: 20},
		{name: "a tombstone last", records: 3000, size: 30, each: 50, tombstone: true},
		{name: "many buckets", records: 4000, size: 50, each: 100, pad: 30},
	} {
		for _, pageSize := range []int{0, 1 << 14} {
			t.Run(fmt.Sprintf("%s/%d", c.name, pageSize), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "db")
				db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, PageSize: pageSize, NoFreelistSync: true})
				must(t, err)
				must(t, db.Update(func(tx *bbolt.Tx) error {
					for _, b := range []string{bucketKey, bucketMeta, bucketLease, bucketMembers} {
						if _, err := tx.CreateBucket([]byte(b)); err != nil {
							return err
						}
					}
					for i := range c.pad {
						b, err := tx.CreateBucket(fmt.Appendf(nil, "a%03d", i))
						if err != nil {
							return err
						}
						if err := b.Put([]byte("x"), make([]byte, 900)); err != nil {
							return err
						}
					}
					for i := range uint64(3000) { // keys of another shape, over many pages
						if err := tx.Bucket([]byte(bucketLease)).Put(binary.BigEndian.AppendUint64(nil, i), make([]byte, 30)); err != nil {
							return err
						}
					}
					return nil
				}))
				for from := 0; from < c.records; from += c.each {
					must(t, db.Update(func(tx *bbolt.Tx) error {
						for i := from; i < min(from+c.each, c.records); i++ {
							key := recordKey(int64(i) + 2)
							if c.tombstone && i == c.records-1 {
								key = append(key, 't')
							}
							value := make([]byte, 1+random.IntN(c.size))
							if err := tx.Bucket([]byte(bucketKey)).Put(key, value); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				for i := range c.records {
					if c.keep == 0 || i >= c.records-c.keep {
						break
					}
					to := min(i+500, c.records-c.keep)
					if i%500 != 0 {
						continue
					}
					must(t, db.Update(func(tx *bbolt.Tx) error {
						for j := i; j < to; j++ {
							if err := tx.Bucket([]byte(bucketKey)).Delete(recordKey(int64(j) + 2)); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				var out bytes.Buffer
				must(t, db.View(func(tx *bbolt.Tx) error {
					_, err := tx.WriteTo(&out)
					return err
				}))
				must(t, db.Close())
				whole := append(out.Bytes(), make([]byte, 32)...) // and the hash
				want := int64(c.records) + 1
				for _, piece := range []int{len(whole), 1 + random.IntN(5000), 16, 32 << 10} {
					var n Newest
					for rest := whole; len(rest) > 0; {
						k := min(piece, len(rest))
						_, _ = n.Write(rest[:k])
						rest = rest[k:]
					}
					if got, ok := n.Revision(); !ok || got != want {
						t.Errorf("in pieces of %d bytes: %d, %t, want %d", piece, got, ok, want)
					}
				}
			})
		}
	}
}

func recordKey(main int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(main))
	return binary.BigEndian.AppendUint64(append(b, '_'), 0)
}

// Of what is no database nothing is told, and nothing panics over one that was
// tampered with.
func TestNewestOfGarbage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte(bucketKey))
		for i := range int64(500) {
			if err == nil {
				err = b.Put(recordKey(i+2), make([]byte, 100))
			}
		}
		return err
	}))
	must(t, db.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	var empty, short Newest
	_, _ = short.Write(whole[:40])
	for _, n := range []*Newest{&empty, &short} {
		if _, ok := n.Revision(); ok {
			t.Error("something was found in nothing")
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		bad := bytes.Clone(whole)
		for range 1 + random.IntN(40) {
			page := random.IntN(len(bad)/4096) * 4096
			bad[page+random.IntN(64)] = byte(random.Uint32())
		}
		var n Newest
		_, _ = n.Write(bad)
		n.Revision()
	}
}
