package snapshot

import (
	"container/heap"
	"encoding/binary"
)

// Bounds of what a look at a passing snapshot remembers: a megabyte or so in
// all, whatever the size of the database. What does not fit is not found out.
const (
	mostLeaves   = 1 << 15 // those with the highest revisions
	mostBranches = 1 << 18 // enough for a database of 64 GiB
	mostChildren = 1 << 16 // of branches that do not lead to keys
	mostAwaited  = 256

	leastPage, mostPage = 1 << 10, 1 << 16 // bytes
)

// Flags of bbolt's pages and elements, and the sizes of their heads. Source:
// bbolt's internal/common, page.go and inode.go, format version 2.
const (
	pageBranch = 0x01
	pageLeaf   = 0x02
	holdBucket = 0x01 // of an element in a leaf
	elementAt  = 16   // bytes: where the elements of a page begin, and how long each is
)

// Newest finds the highest revision of a database while it passes, without
// keeping it: what it tells is what the very bytes say that passed. A snapshot
// has pages that are in use and others that are free, in any order, so it notes
// of each what leads to the last record of the keys, and goes that way once all
// have passed. What it notes of a free page, nothing leads to.
//
// The zero value is ready. It never fails: of what is no database of etcd 3, or
// not of this machine's byte order, it tells nothing.
type Newest struct {
	buf    []byte // the page that is being gathered
	number uint64 // of that page
	size   int    // of a page; 0: not known yet
	lost   bool   // it is nothing that is known here

	tx, root uint64              // of the newest of the two metas
	roots    map[uint64]place    // by the page that names the bucket of keys
	branches map[uint64]uint64   // the last child, of branches that lead to keys
	others   map[uint64][]uint64 // all children, of the other ones
	children int                 // in others
	leaves   leaves
	awaited  []awaited
}

// place is where the bucket of keys begins: at a page, or where it is small in
// the page that names it, and then revision is its last.
type place struct {
	page     uint64
	revision int64
}

// leaf is a page whose last record is of a revision.
type leaf struct {
	revision int64
	page     uint64
}

// leaves is a heap, the lowest first.
type leaves []leaf

func (l leaves) Len() int           { return len(l) }
func (l leaves) Less(i, j int) bool { return l[i].revision < l[j].revision }
func (l leaves) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *leaves) Push(x any)        { *l = append(*l, x.(leaf)) } //nolint:forcetypeassert // heap gives back what it was given
func (l *leaves) Pop() any {
	old := *l
	x := old[len(old)-1]
	*l = old[:len(old)-1]
	return x
}

// awaited is the key of a leaf's last record that lies behind its first page.
type awaited struct {
	page uint64
	at   int64 // in the stream
	key  []byte
	have int
}

// Write takes the next bytes. It never fails.
func (n *Newest) Write(p []byte) (int, error) {
	whole := len(p)
	if n.size == 0 && !n.lost {
		p = n.begin(p)
	}
	for len(p) > 0 && !n.lost && n.size > 0 {
		if len(n.buf) == 0 && len(p) >= n.size {
			n.page(p[:n.size])
			p = p[n.size:]
			continue
		}
		k := min(n.size-len(n.buf), len(p))
		if n.buf, p = append(n.buf, p[:k]...), p[k:]; len(n.buf) == n.size {
			n.page(n.buf)
			n.buf = n.buf[:0]
		}
	}
	return whole, nil
}

// begin reads from the first bytes how long pages are, and gives what is left.
func (n *Newest) begin(p []byte) []byte {
	k := min(pageHead+metaSize-len(n.buf), len(p))
	n.buf, p = append(n.buf, p[:k]...), p[k:]
	if len(n.buf) < pageHead+metaSize {
		return nil
	}
	meta := n.buf[pageHead:]
	size := binary.NativeEndian.Uint32(meta[8:])
	if binary.NativeEndian.Uint32(meta) != boltMagic || binary.NativeEndian.Uint32(meta[4:]) != boltFormat ||
		size < leastPage || size > mostPage || size&(size-1) != 0 {
		n.lost, n.buf = true, nil
		return nil
	}
	n.size = int(size)
	n.roots, n.branches, n.others = map[uint64]place{}, map[uint64]uint64{}, map[uint64][]uint64{}
	return p
}

// page notes what leads to the keys.
func (n *Newest) page(b []byte) {
	number := n.number
	n.number++
	n.await(int64(number)*int64(n.size), b) //nolint:gosec // a stream is shorter than that
	if number < 2 {
		n.meta(b[pageHead:])
		return
	}
	if binary.NativeEndian.Uint64(b) != number {
		return // within what lies over several pages, or never used
	}
	switch binary.NativeEndian.Uint16(b[pageFlagsAt:]) {
	case pageBranch:
		n.branch(number, b)
	case pageLeaf:
		n.leaf(number, b)
	}
}

func (n *Newest) meta(b []byte) {
	if binary.NativeEndian.Uint32(b) != boltMagic || binary.NativeEndian.Uint64(b[metaSumAt:]) != metaSum(b[:metaSize]) {
		return
	}
	if tx := binary.NativeEndian.Uint64(b[metaTxAt:]); n.root == 0 || tx > n.tx {
		n.tx, n.root = tx, binary.NativeEndian.Uint64(b[metaRootAt:])
	}
}

// elements is how many a page has; the place of the last one's head is in it.
func elements(b []byte) (count int, ok bool) {
	count = int(binary.NativeEndian.Uint16(b[pageCountAt:]))
	return count, elementAt*(count+1) <= len(b)
}

func (n *Newest) branch(number uint64, b []byte) {
	count, ok := elements(b)
	if !ok || count == 0 {
		return
	}
	child := func(i int) uint64 { return binary.NativeEndian.Uint64(b[elementAt*(i+1)+8:]) }
	at := elementAt * count
	key, _ := cut(b, at+int(binary.NativeEndian.Uint32(b[at:])), int(binary.NativeEndian.Uint32(b[at+4:])))
	if _, err := parseRevision(key); err == nil {
		if len(n.branches) < mostBranches {
			n.branches[number] = child(count - 1)
		}
		return
	}
	if n.children += count; n.children > mostChildren {
		return
	}
	for i := range count {
		n.others[number] = append(n.others[number], child(i))
	}
}

func (n *Newest) leaf(number uint64, b []byte) {
	count, ok := elements(b)
	if !ok {
		return
	}
	if count == 0 {
		n.note(number, 1) // etcd counts a database without keys as revision 1
		return
	}
	if binary.NativeEndian.Uint32(b[elementAt:])&holdBucket != 0 {
		n.buckets(number, count, b)
		return
	}
	at, size := lastKey(b, count)
	if size != 17 && size != 18 { // a revision, and that of a tombstone
		return
	}
	if key, ok := cut(b, at, size); ok {
		if rev, err := parseRevision(key); err == nil {
			n.note(number, rev.main)
		}
		return
	}
	if over := int(binary.NativeEndian.Uint32(b[pageOverAt:])); at+size <= (over+1)*n.size && len(n.awaited) < mostAwaited {
		start := int64(number) * int64(n.size) //nolint:gosec // a stream is shorter than that
		a := awaited{page: number, at: start + int64(at), key: make([]byte, size)}
		a.have = copy(a.key, b[min(at, len(b)):])
		n.awaited = append(n.awaited, a)
	}
}

// lastKey is where the key of a leaf's last element is, from the page's begin.
func lastKey(b []byte, count int) (at, size int) {
	head := elementAt * count
	return head + int(binary.NativeEndian.Uint32(b[head+4:])), int(binary.NativeEndian.Uint32(b[head+8:]))
}

func cut(b []byte, at, size int) ([]byte, bool) {
	if at < 0 || size < 0 || at+size > len(b) {
		return nil, false
	}
	return b[at : at+size], true
}

// await completes the keys that lie behind the first page of their leaves.
func (n *Newest) await(start int64, b []byte) {
	rest := n.awaited[:0]
	for _, a := range n.awaited {
		if from := a.at + int64(a.have) - start; from >= 0 && from < int64(len(b)) {
			a.have += copy(a.key[a.have:], b[from:])
		}
		if a.have < len(a.key) {
			rest = append(rest, a)
		} else if rev, err := parseRevision(a.key); err == nil {
			n.note(a.page, rev.main)
		}
	}
	n.awaited = rest
}

// buckets looks for the bucket of keys in a page that names buckets.
func (n *Newest) buckets(number uint64, count int, b []byte) {
	for i := range count {
		head := elementAt * (i + 1)
		at, size := head+int(binary.NativeEndian.Uint32(b[head+4:])), int(binary.NativeEndian.Uint32(b[head+8:]))
		name, ok := cut(b, at, size)
		if !ok || string(name) != bucketKey {
			continue
		}
		value, ok := cut(b, at+size, int(binary.NativeEndian.Uint32(b[head+12:])))
		if !ok || len(value) < 16 {
			return
		}
		p := place{page: binary.NativeEndian.Uint64(value)}
		if p.page == 0 {
			p.revision = inlineLast(value[16:])
		}
		n.roots[number] = p
		return
	}
}

// inlineLast is the last revision of a bucket that lies in its parent's page; 0:
// it cannot be told.
func inlineLast(b []byte) int64 {
	if len(b) < pageHead {
		return 0
	}
	count, ok := elements(b)
	switch {
	case !ok:
		return 0
	case count == 0:
		return 1
	}
	at, size := lastKey(b, count)
	key, _ := cut(b, at, size)
	rev, err := parseRevision(key)
	if err != nil {
		return 0
	}
	return rev.main
}

func (n *Newest) note(page uint64, revision int64) {
	if len(n.leaves) == mostLeaves {
		if n.leaves[0].revision >= revision {
			return
		}
		heap.Pop(&n.leaves)
	}
	heap.Push(&n.leaves, leaf{revision, page})
}

// Revision is the highest revision of a record in the snapshot that has passed;
// false: it could not be found. It says nothing about whether the snapshot was
// whole.
func (n *Newest) Revision() (int64, bool) {
	if n.lost || n.root == 0 {
		return 0, false
	}
	p, ok := n.keys(n.root, 0)
	if !ok {
		return 0, false
	}
	if p.page == 0 {
		return p.revision, p.revision > 0
	}
	last := make(map[uint64]int64, len(n.leaves))
	for _, l := range n.leaves {
		last[l.page] = l.revision
	}
	page := p.page
	for range mostDepth {
		if revision, ok := last[page]; ok {
			return revision, true
		}
		if page, ok = n.branches[page]; !ok {
			return 0, false
		}
	}
	return 0, false
}

// mostDepth ends the way through a tree that has no end.
const mostDepth = 32

// keys finds the bucket of keys at or below a page.
func (n *Newest) keys(page uint64, depth int) (place, bool) {
	if p, ok := n.roots[page]; ok || depth == mostDepth {
		return p, ok
	}
	for _, child := range n.others[page] {
		if p, ok := n.keys(child, depth+1); ok {
			return p, true
		}
	}
	return place{}, false
}
