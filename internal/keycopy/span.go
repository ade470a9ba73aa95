package keycopy

import (
	"bytes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// span is the part of the keys that a page is asked of.
//
// etcd counts all keys of a span for each page of it, so pages of everything take
// a time that grows with the square of their number. Spans are kept at a few
// pages: one that turns out to hold many more is cut where the keys that begin
// like the last one end, and after it comes one of all that begin with one byte
// less. Source: mvcc's treeIndex.Revisions, from 3.0 to 3.7.
type span struct {
	from, end []byte // end is exclusive; {0}: no end
}

// manyPages is how many pages a span may have before it is cut.
const manyPages = 6

func everything() span { return span{from: []byte{0}, end: []byte{0}} }

func (s span) endless() bool { return bytes.Equal(s.end, []byte{0}) }

// after is the span of the page after one; more is false after the last.
func (s span) after(page *pb.RangeResponse) (next span, more bool) {
	n := len(page.Kvs)
	if n == 0 || !page.More {
		if s.endless() {
			return span{}, false
		}
		// end is the prefix of this span, one up in its last byte.
		return span{from: s.end, end: prefixEnd(s.end[:len(s.end)-1])}, true
	}
	first, last := page.Kvs[0].Key, page.Kvs[n-1].Key
	next = span{from: append(bytes.Clone(last), 0), end: s.end}
	if page.Count <= int64(n)*manyPages {
		return next, true
	}
	same := 0
	for same < min(len(first), len(last)) && first[same] == last[same] {
		same++
	}
	// A span that ends with the last key's own prefix; it is a part of this one,
	// since this one goes on after the last key.
	if end := prefixEnd(last[:min(same+1, len(last))]); s.endless() || bytes.Compare(end, s.end) < 0 {
		if !bytes.Equal(end, []byte{0}) {
			next.end = end
		}
	}
	return next, true
}

// prefixEnd is the first key after all that begin with a prefix; {0}: there is none.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return []byte{0}
}
