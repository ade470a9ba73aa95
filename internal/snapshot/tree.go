package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"etcdadm.io/internal/progress"
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

// treeStep is the number of pages after which a look at them looks at its context.
const treeStep = 1 << 10

// pageTree reads one tree of pages after the other.
type pageTree struct {
	ctx      context.Context
	file     io.ReaderAt
	pageSize int64
	pages    uint64 // that there are said to be
	seen     []byte // a bit for each page; each belongs to one place
	looked   int    // at so many pages
	step     *progress.Step
}

func newPageTree(ctx context.Context, file io.ReaderAt, pageSize int64, pages uint64) *pageTree {
	return &pageTree{ctx: ctx, file: file, pageSize: pageSize, pages: pages, seen: make([]byte, pages/8+1)}
}

// extent is how much of a database is held against each other. What is not read
// need not be whole: a bucket says what it has also beside others that are damaged.
type extent struct {
	reads func(bucket string) bool
	keys  bool // all of them; else what leads to the last one
	free  bool // the list of free pages, too
}

// only are the buckets of these names.
func only(names ...string) func(bucket string) bool {
	return func(bucket string) bool { return slices.Contains(names, bucket) }
}

func anyBucket(string) bool { return true }

// checkAll holds all pages against each other that lead to something, which reads all
// of the database.
func checkAll(ctx context.Context, tx *bbolt.Tx) error {
	return checkPages(ctx, tx, extent{reads: anyBucket, keys: true})
}

// checkFile does so before a database is opened for writing, and holds the list of its
// free pages against them.
func checkFile(ctx context.Context, path string) error {
	db, err := openDatabase(ctx, path, only())
	if err != nil {
		return err
	}
	defer db.Close()
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			return checkPages(ctx, tx, extent{reads: anyBucket, keys: true, free: true})
		})
	})
}

func checkPages(ctx context.Context, tx *bbolt.Tx, e extent) error {
	f, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	pageSize := int64(tx.DB().Info().PageSize)
	pages := uint64(info.Size() / pageSize) //nolint:gosec // a size is not negative
	// bbolt remembers each page that nothing leads to, up to as many as there are said
	// to be, and writes over those beyond.
	_, meta, err := newestMeta(f, pageSize)
	if err != nil {
		return err
	}
	if meta != nil {
		pages = binary.NativeEndian.Uint64(meta[metaNextAt:])
	}
	t := newPageTree(ctx, f, pageSize, pages)
	if e.keys {
		t.step = progress.Begin(ctx, int64(pages), progress.Pages, "looking at the pages of %s", tx.DB().Path()) //nolint:gosec // within the file
	}
	if err := t.each(uint64(tx.Cursor().Bucket().Root()), 0, false, nil, nil, func(name, value []byte, flags uint32) error {
		return t.bucket(e, name, value, flags)
	}); err != nil || !e.free || meta == nil {
		return err
	}
	return t.freeList(binary.NativeEndian.Uint64(meta[metaListAt:]))
}

// bucket reads the tree of a bucket.
func (t *pageTree) bucket(e extent, name, value []byte, flags uint32) error {
	if flags&holdBucket == 0 || len(value) < bucketHead {
		return fmt.Errorf("%w: %q is no bucket", ErrDamaged, name)
	}
	if !e.reads(string(name)) {
		return nil
	}
	switch root := binary.NativeEndian.Uint64(value); {
	case root != 0 && !e.keys && string(name) == bucketKey:
		found := false
		last := newPageTree(t.ctx, t.file, t.pageSize, t.pages)
		err := last.each(root, 0, true, nil, nil, func([]byte, []byte, uint32) error { found = true; return nil })
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
	return eachHeld(page, nil, nil, noBucket)
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
		if err := eachHeld(page, low, high, visit); err != nil {
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
	if t.looked%treeStep == 0 && t.ctx.Err() != nil {
		return nil, t.ctx.Err()
	}
	t.looked++
	if id < 2 || id >= t.pages { // the first two are the facts about the database
		return nil, fmt.Errorf("%w: there is no page %d among its %d", ErrDamaged, id, t.pages)
	}
	at := int64(id) * t.pageSize //nolint:gosec // within the file
	page := make([]byte, t.pageSize)
	if _, err := t.file.ReadAt(page, at); err != nil {
		return nil, err
	}
	flags, more := binary.NativeEndian.Uint16(page[pageFlagsAt:]), uint64(binary.NativeEndian.Uint32(page[pageOverAt:]))
	if binary.NativeEndian.Uint64(page) != id || flags != pageBranch && flags != pageLeaf || more >= t.pages-id {
		return nil, fmt.Errorf("%w: page %d is none that can be read", ErrDamaged, id)
	}
	// The heads of the elements, which may themselves take more than a page, say how
	// much overflows, too: no memory is made for what the page alone says.
	size := int64(more+1) * t.pageSize //nolint:gosec // within the file
	count, ok := elements(page)
	if heads := elementAt * int64(count+1); !ok && heads <= size {
		page = make([]byte, heads)
		if _, err := t.file.ReadAt(page, at); err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, fmt.Errorf("%w: page %d is too short for its %d elements", ErrDamaged, id, count)
	}
	if !overflows(uint64(contentEnd(page)), uint64(t.pageSize), more) { //nolint:gosec // lengths
		return nil, fmt.Errorf("%w: %d pages overflow from page %d, and that is not what it holds", ErrDamaged, more, id)
	}
	if i, ok := t.take(id, more); !ok {
		return nil, fmt.Errorf("%w: two places lead to page %d", ErrDamaged, i)
	}
	t.step.Add(int64(more) + 1) //nolint:gosec // within the file
	if more == 0 {
		return page, nil
	}
	page = make([]byte, size)
	_, err := t.file.ReadAt(page, at)
	return page, err
}

// take has pages belong to one place; false: this one did already.
func (t *pageTree) take(id, more uint64) (uint64, bool) {
	for i := id; i <= id+more; i++ {
		bit := byte(1) << (i % 8)
		if t.seen[i/8]&bit != 0 {
			return i, false
		}
		t.seen[i/8] |= bit
	}
	return 0, true
}

// contentEnd is where what a page holds ends, by the heads of its elements.
func contentEnd(page []byte) int64 {
	count, _ := elements(page)
	end := int64(elementAt) * int64(count+1)
	leaf := binary.NativeEndian.Uint16(page[pageFlagsAt:]) == pageLeaf
	for i := range count {
		head := elementAt * (i + 1)
		number := func(at int) int64 { return int64(binary.NativeEndian.Uint32(page[head+at:])) }
		if leaf {
			end = max(end, int64(head)+number(4)+number(8)+number(12))
		} else {
			end = max(end, int64(head)+number(0)+number(4))
		}
	}
	return end
}

// overflows says whether bbolt lets so many pages overflow from one whose content ends
// there. Up to bbolt 1.3.0, and in bolt before, one more is taken where it ends with a
// page. Source: spill in node.go of bbolt 1.3.0 to 1.5.0.
func overflows(end, pageSize, more uint64) bool {
	return more == (end-1)/pageSize || more == end/pageSize
}

// freeList holds the list of free pages against those that lead to something: what is
// written goes over them. A list may have more pages than it needs.
func (t *pageTree) freeList(id uint64) error {
	if id == metaNoList {
		return nil
	}
	if id < 2 || id >= t.pages {
		return fmt.Errorf("%w: the list of free pages is said to be page %d of %d", ErrDamaged, id, t.pages)
	}
	at := int64(id) * t.pageSize //nolint:gosec // within the file
	head := make([]byte, pageHead+listedSize)
	if _, err := t.file.ReadAt(head, at); err != nil {
		return err
	}
	more := uint64(binary.NativeEndian.Uint32(head[pageOverAt:]))
	if binary.NativeEndian.Uint64(head) != id || binary.NativeEndian.Uint16(head[pageFlagsAt:]) != pageFreeList || more >= t.pages-id {
		return fmt.Errorf("%w: page %d is no list of free pages", ErrDamaged, id)
	}
	end := at + int64(more+1)*t.pageSize //nolint:gosec // within the file
	at += pageHead
	count := uint64(binary.NativeEndian.Uint16(head[pageCountAt:]))
	if count == math.MaxUint16 { // more are counted by the first one
		count = binary.NativeEndian.Uint64(head[pageHead:])
		at += listedSize
	}
	if count > t.pages || at+int64(count)*listedSize > end { //nolint:gosec // no more than there are pages
		return fmt.Errorf("%w: page %d lists %d free ones", ErrDamaged, id, count)
	}
	if i, ok := t.take(id, more); !ok {
		return fmt.Errorf("%w: page %d is in use, and has the list of free ones", ErrDamaged, i)
	}
	list := bufio.NewReader(io.NewSectionReader(t.file, at, int64(count)*listedSize)) //nolint:gosec // see above
	listed := head[:listedSize]
	for range count {
		if _, err := io.ReadFull(list, listed); err != nil {
			return err
		}
		free := binary.NativeEndian.Uint64(listed)
		if free < 2 || free >= t.pages {
			return fmt.Errorf("%w: page %d is said to be free, of %d", ErrDamaged, free, t.pages)
		}
		if _, ok := t.take(free, 0); !ok {
			return fmt.Errorf("%w: page %d is said to be free, and is in use, or is said twice", ErrDamaged, free)
		}
	}
	return nil
}

// eachHeld visits what a leaf holds, from low on and below high.
func eachHeld(page, low, high []byte, visit func(key, value []byte, flags uint32) error) error {
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
		if size == 0 || size > bbolt.MaxKeySize || !between(k, low, high) {
			return fmt.Errorf("%w: a key is none, or out of order", ErrDamaged)
		}
		low = append(k[:size:size], 0) // the least key above
		if err := visit(k, v, binary.NativeEndian.Uint32(e)); err != nil {
			return err
		}
	}
	return nil
}
