package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// bbolt follows the pages of a database without looking where they lead: one whose
// pages lead back to each other has it call itself until the process is ended for
// its stack, or remember pages until it is ended for its memory, and neither is a
// panic that [guarded] could catch. What it reads of a database that it opens for
// writing it reads on a goroutine of its own, where none can be caught at all. A
// single bit that fell over is enough for that. So the pages are held against each
// other before bbolt is let loose on them.

// bucketHead is where the only page of a small bucket begins, in bytes of the value
// that the bucket is: behind the root and the sequence.
const bucketHead = 16

// pageTree reads one tree of pages after the other.
type pageTree struct {
	file     io.ReaderAt
	pageSize int64
	pages    uint64
	seen     []byte // a bit for each page; each belongs to one place
}

func newPageTree(file io.ReaderAt, pageSize, size int64) *pageTree {
	pages := size / pageSize
	return &pageTree{file: file, pageSize: pageSize, pages: uint64(pages), seen: make([]byte, pages/8+1)} //nolint:gosec // a size is not negative
}

// checkHeader holds against each other the pages that [readHeader] goes through: all
// but most of the keys.
func checkHeader(tx *bbolt.Tx) error { return checkPages(tx, false) }

// checkAll holds all pages against each other, which reads all of the database.
func checkAll(tx *bbolt.Tx) error { return checkPages(tx, true) }

// checkFile does so before a database is opened for writing.
func checkFile(path string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	return guarded(func() error { return db.View(checkAll) })
}

func checkPages(tx *bbolt.Tx, keys bool) error {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	pageSize, size := int64(tx.DB().Info().PageSize), info.Size()
	// bbolt remembers each page that nothing leads to, up to as many as there are said to be.
	if _, _, err := newestMeta(f, pageSize); err != nil {
		return err
	}
	t := newPageTree(f, pageSize, size)
	return t.each(uint64(tx.Cursor().Bucket().Root()), 0, false, nil, nil, func(name, value []byte, flags uint32) error {
		if flags&holdBucket == 0 {
			return nil
		}
		if len(value) < bucketHead {
			return fmt.Errorf("%w: bucket %q has no root", ErrDamaged, name)
		}
		switch root := binary.NativeEndian.Uint64(value); {
		case root != 0 && !keys && string(name) == bucketKey:
			found := false
			err := newPageTree(f, pageSize, size).each(root, 0, true, nil, nil, func([]byte, []byte, uint32) error { found = true; return nil })
			if err != nil || found {
				return err
			}
			return t.each(root, 0, false, nil, nil, noBucket) // bbolt looks for the last key in the pages before
		case root != 0:
			return t.each(root, 0, false, nil, nil, noBucket)
		}
		// The bucket's only page lies in the value.
		page := value[bucketHead:]
		if len(page) < pageHead || binary.NativeEndian.Uint16(page[pageFlagsAt:]) != pageLeaf {
			return fmt.Errorf("%w: bucket %q begins with no page", ErrDamaged, name)
		}
		return eachHeld(page, noBucket)
	})
}

// noBucket: etcd has none within another.
func noBucket(name, _ []byte, flags uint32) error {
	if flags&holdBucket != 0 {
		return fmt.Errorf("%w: %x is a bucket within another", ErrDamaged, name)
	}
	return nil
}

// each visits what the leaves of a tree hold; last: only the last one's.
func (t *pageTree) each(id uint64, level int, last bool, low, high []byte, visit func(key, value []byte, flags uint32) error) error {
	page, err := t.read(id)
	switch {
	case err != nil:
		return err
	case level >= mostDepth:
		return fmt.Errorf("%w: page %d is %d levels down", ErrDamaged, id, level)
	}
	if binary.NativeEndian.Uint16(page[pageFlagsAt:]) == pageLeaf {
		err := eachHeld(page, func(key, value []byte, flags uint32) error {
			if !between(key, low, high) {
				return fmt.Errorf("%w: a key is out of order", ErrDamaged)
			}
			low = append(key[:len(key):len(key)], 0) // the least key above
			return visit(key, value, flags)
		})
		if err != nil {
			return fmt.Errorf("%w (page %d)", err, id)
		}
		return nil
	}
	count, ok := elements(page)
	if !ok || count == 0 {
		return fmt.Errorf("%w: page %d leads to %d others", ErrDamaged, id, count)
	}
	first := 0
	if last {
		first = count - 1
	}
	for i := first; i < count; i++ {
		at := elementAt * (i + 1)
		e := page[at : at+elementAt]
		key, ok := branchKey(page, i)
		above := high
		if i+1 < count {
			above, _ = branchKey(page, i+1)
		}
		if !ok || !between(key, low, high) || above != nil && bytes.Compare(key, above) >= 0 {
			return fmt.Errorf("%w: a key of page %d lies outside of it, or is out of order", ErrDamaged, id)
		}
		low = key
		if err := t.each(binary.NativeEndian.Uint64(e[8:]), level+1, last, key, above, visit); err != nil {
			return err
		}
	}
	return nil
}

// between: what bbolt finds out of order while it opens a database for writing ends
// the process, since what looks and what is told of it go on side by side.
func between(key, low, high []byte) bool {
	return (low == nil || bytes.Compare(key, low) >= 0) && (high == nil || bytes.Compare(key, high) < 0)
}

func branchKey(page []byte, i int) ([]byte, bool) {
	at := elementAt * (i + 1)
	return cut(page, at+int(binary.NativeEndian.Uint32(page[at:])), int(binary.NativeEndian.Uint32(page[at+4:])))
}

// read reads a page that no other place has led to, with what overflows from it.
func (t *pageTree) read(id uint64) ([]byte, error) {
	if id < 2 || id >= t.pages { // the first two are the facts about the database
		return nil, fmt.Errorf("%w: there is no page %d among its %d", ErrDamaged, id, t.pages)
	}
	head := make([]byte, pageHead)
	if _, err := t.file.ReadAt(head, int64(id)*t.pageSize); err != nil {
		return nil, err
	}
	flags, more := binary.NativeEndian.Uint16(head[pageFlagsAt:]), uint64(binary.NativeEndian.Uint32(head[pageOverAt:]))
	if binary.NativeEndian.Uint64(head) != id || flags != pageBranch && flags != pageLeaf || more >= t.pages-id {
		return nil, fmt.Errorf("%w: page %d is none that can be read", ErrDamaged, id)
	}
	for i := id; i <= id+more; i++ {
		if bit := byte(1) << (i % 8); t.seen[i/8]&bit == 0 {
			t.seen[i/8] |= bit
			continue
		}
		return nil, fmt.Errorf("%w: two places lead to page %d", ErrDamaged, i)
	}
	page := make([]byte, (1+int64(more))*t.pageSize)
	_, err := t.file.ReadAt(page, int64(id)*t.pageSize)
	return page, err
}

// eachHeld visits what a leaf holds.
func eachHeld(page []byte, visit func(key, value []byte, flags uint32) error) error {
	count, ok := elements(page)
	if !ok {
		return fmt.Errorf("%w: a page is too short for its %d elements", ErrDamaged, count)
	}
	for i := range count {
		head := elementAt * (i + 1)
		e := page[head : head+elementAt]
		at, size := head+int(binary.NativeEndian.Uint32(e[4:])), int(binary.NativeEndian.Uint32(e[8:]))
		k, ok := cut(page, at, size)
		v, okay := cut(page, at+size, int(binary.NativeEndian.Uint32(e[12:])))
		if !ok || !okay {
			return fmt.Errorf("%w: what a page says that it holds lies outside of it", ErrDamaged)
		}
		if err := visit(k, v, binary.NativeEndian.Uint32(e)); err != nil {
			return err
		}
	}
	return nil
}
