package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
)

// A bbolt file begins with two pages that hold the same facts, in the byte order
// of the machine; the newer of them counts. Source: bbolt's internal/common,
// page.go and meta.go, format version 2.
const (
	boltMagic  = 0xED0CDAED
	boltFormat = 2

	pageHead     = 16 // bytes: number 8, flags 2, count 2, overflow 4
	pageFlagsAt  = 8
	pageCountAt  = 10
	pageOverAt   = 12
	pageFreeList = 0x10 // the flag of a page that lists free ones
	listedSize   = 8    // bytes of each in it

	metaSize   = 64 // bytes: magic 4, format 4, page size 4, flags 4, root 16, and
	metaRootAt = 16 // where the tree of buckets begins
	metaListAt = 32 // which page lists the free ones
	metaNextAt = 40 // how many pages there are
	metaTxAt   = 48 // the transaction that wrote it
	metaSumAt  = 56 // FNV-1a of all before

	// metaNoList is how etcd has it: the free pages are looked for at each start.
	metaNoList = ^uint64(0)
)

// skipFreePages lets bbolt open a database for writing without looking for its
// free pages, which takes memory for each page that there is. It adds a list
// that names none, so that what is written next is appended; etcd finds the free
// ones at its start, as ever. A list that is there, as old releases leave one, is
// what is written by, and so it is held against the pages first.
func skipFreePages(ctx context.Context, path string) error {
	pageSize, err := pageSizeOf(ctx, path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	at, meta, err := newestMeta(f, pageSize)
	switch {
	case err != nil || meta == nil:
		return err
	case listsFreePages(meta):
		return checkFile(ctx, path)
	}
	list := binary.NativeEndian.Uint64(meta[metaNextAt:])
	page := make([]byte, pageSize)
	binary.NativeEndian.PutUint64(page, list)
	binary.NativeEndian.PutUint16(page[pageFlagsAt:], pageFreeList)
	if _, err := f.WriteAt(page, int64(list)*pageSize); err != nil { //nolint:gosec // newestMeta has held it against the size
		return err
	}
	binary.NativeEndian.PutUint64(meta[metaListAt:], list)
	binary.NativeEndian.PutUint64(meta[metaNextAt:], list+1)
	binary.NativeEndian.PutUint64(meta[metaSumAt:], metaSum(meta))
	_, err = f.WriteAt(meta, at)
	return err
}

func listsFreePages(meta []byte) bool {
	return binary.NativeEndian.Uint64(meta[metaListAt:]) != metaNoList
}

// checkListed holds a database against its list of free pages, if it has one, before
// somebody else writes by that. It reads all of such a database, and nothing of
// another.
func checkListed(ctx context.Context, path string) error {
	pageSize, err := pageSizeOf(ctx, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, meta, err := newestMeta(f, pageSize); err != nil || meta == nil || !listsFreePages(meta) {
		return err
	}
	return checkFile(ctx, path)
}

func pageSizeOf(ctx context.Context, path string) (int64, error) {
	db, err := openDatabase(ctx, path, anyBucket)
	if err != nil {
		return 0, err
	}
	return int64(db.Info().PageSize), db.Close()
}

// newestMeta reads the facts that count, and tells where they are. Nil: they are
// in a form that is not known here.
func newestMeta(f *os.File, pageSize int64) (at int64, newest []byte, err error) {
	for _, place := range []int64{pageHead, pageSize + pageHead} {
		meta := make([]byte, metaSize)
		if _, err := f.ReadAt(meta, place); err != nil {
			return 0, nil, err
		}
		if binary.NativeEndian.Uint32(meta) != boltMagic || binary.NativeEndian.Uint32(meta[4:]) != boltFormat ||
			binary.NativeEndian.Uint64(meta[metaSumAt:]) != metaSum(meta) {
			continue
		}
		if newest == nil || binary.NativeEndian.Uint64(meta[metaTxAt:]) > binary.NativeEndian.Uint64(newest[metaTxAt:]) {
			at, newest = place, meta
		}
	}
	if newest == nil {
		return 0, nil, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	if pages := binary.NativeEndian.Uint64(newest[metaNextAt:]); pages > uint64(info.Size()/pageSize) { //nolint:gosec // a size is not negative
		return 0, nil, fmt.Errorf("%w: it has %d bytes of its %d pages", ErrDamaged, info.Size(), pages)
	}
	return at, newest, nil
}

func metaSum(meta []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(meta[:metaSumAt]) // never fails
	return h.Sum64()
}
