package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/maphash"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"etcdadm.io/internal/progress"
)

// maxTracked bounds the memory that one look at a database takes: about 40
// bytes for each key that is remembered.
const maxTracked = 2_000_000

// walkStep is the number of records after which a walk looks at its context.
const walkStep = 1 << 14

// revision is the key of a record in the bucket of keys: eight bytes, '_', eight
// bytes, and a 't' when the record is a tombstone. Source: mvcc.BytesToBucketKey.
type revision struct {
	main, sub int64
	tombstone bool
}

func parseRevision(b []byte) (revision, error) {
	tombstone := len(b) == 18 && b[17] == 't'
	if (len(b) != 17 && !tombstone) || b[8] != '_' {
		return revision{}, fmt.Errorf("%w: %x is no revision", ErrDamaged, b)
	}
	r := revision{
		main: int64(binary.BigEndian.Uint64(b)), sub: int64(binary.BigEndian.Uint64(b[9:])), tombstone: tombstone,
	}
	if r.main < 1 || r.sub < 0 {
		return revision{}, fmt.Errorf("%w: %x is no revision", ErrDamaged, b)
	}
	return r, nil
}

// record is what the walk needs of a mvccpb.KeyValue.
type record struct {
	key     []byte
	mod     int64
	version int64
}

func parseRecord(b []byte) (r record, err error) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r, protowire.ParseError(n)
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.BytesType:
			r.key, n = protowire.ConsumeBytes(b)
		case (num == 3 || num == 4) && typ == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); num == 3 {
				r.mod = int64(v)
			} else {
				r.version = int64(v)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return r, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return r, nil
}

// contents is what a walk over all records finds.
type contents struct {
	records int64
	keys    int64  // that have a value at the newest revision; -1: could not be told
	hash    uint32 // what etcd answers to HashKV at the newest revision
	hashed  bool   // whether hash could be told
}

// walk reads every record.
//
// HashKV leaves out what a compaction up to c leaves out: the records up to c that
// a newer one supersedes. After a finished compaction those up to c are one for
// each key, so only the keys written after c have to be remembered; while one is
// under way, all. Beyond [maxTracked] of them no hash is told. Where the
// compaction is finished keys are counted without memory: one for each record
// up to c, after it one more for each first version and one less for each tombstone.
func walk(ctx context.Context, tx *bbolt.Tx, h *header) (contents, error) {
	w := &walker{
		ctx: ctx, compacted: h.compactRevision(), seed: maphash.MakeSeed(), newest: map[uint64]revision{},
		step: progress.Begin(ctx, 0, progress.Records, "reading the records of %s", tx.DB().Path()),
	}
	settled := h.scheduled <= h.finished
	from := int64(0)
	if settled {
		from = w.compacted + 1
	}
	if w.compacted >= 0 { // else HashKV leaves nothing out
		if err := w.each(tx, from, w.remember); err != nil {
			return contents{}, err
		}
	}
	found, kept, err := w.sum(tx, true)
	if err == nil && !kept {
		// Without a live key etcd has nothing to compare with, and skips nothing.
		// Source: kvHasher.WriteKeyValue.
		found, _, err = w.sum(tx, false)
	}
	if err != nil {
		return contents{}, err
	}
	found.hashed = !w.full
	if !settled {
		found.keys = w.live()
	}
	return found, nil
}

// walker carries what one look at the records remembers.
type walker struct {
	ctx       context.Context
	compacted int64
	seed      maphash.Seed
	newest    map[uint64]revision // by hash of the key
	full      bool
	nameless  bool // there is a record without a key: a raised revision
	step      *progress.Step
}

// each calls visit for the records from a revision on, in order.
func (w *walker) each(tx *bbolt.Tx, from int64, visit func(rev revision, rec record, k, v []byte)) error {
	first := binary.BigEndian.AppendUint64(nil, uint64(max(from, 0)))
	cursor := tx.Bucket([]byte(bucketKey)).Cursor()
	n := 0
	for k, v := cursor.Seek(first); k != nil; k, v = cursor.Next() {
		if n++; n%walkStep == 0 {
			if w.ctx.Err() != nil {
				return w.ctx.Err()
			}
			w.step.Add(walkStep)
		}
		rev, err := parseRevision(k)
		if err != nil {
			return err
		}
		rec, err := parseRecord(v)
		if err != nil {
			return fmt.Errorf("%w: read the record at revision %d: %w", ErrDamaged, rev.main, err)
		}
		if !rev.tombstone && len(rec.key) > 0 && rec.mod != rev.main {
			return fmt.Errorf("%w: the record at revision %d says that it is of revision %d", ErrDamaged, rev.main, rec.mod)
		}
		visit(rev, rec, k, v)
	}
	w.step.Add(int64(n % walkStep))
	return nil
}

func (w *walker) remember(rev revision, rec record, _, _ []byte) {
	w.nameless = w.nameless || len(rec.key) == 0 && !rev.tombstone // see raise
	hash := maphash.Bytes(w.seed, rec.key)
	if _, known := w.newest[hash]; !known && len(w.newest) >= maxTracked {
		w.full = true
		return
	}
	w.newest[hash] = rev
}

// live counts the remembered keys that have a value; -1 when not all were.
func (w *walker) live() (n int64) {
	if w.full {
		return -1
	}
	for _, r := range w.newest { // any order: a sum
		if !r.tombstone {
			n++
		}
	}
	if w.nameless {
		n--
	}
	return n
}

// sum hashes and counts; kept says whether any key has a value.
func (w *walker) sum(tx *bbolt.Tx, skipping bool) (found contents, kept bool, err error) {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	sum.Write([]byte(bucketKey))
	nameless := false
	err = w.each(tx, 0, func(rev revision, rec record, k, v []byte) {
		found.records++
		switch named := len(rec.key) > 0; {
		case !named:
			nameless = nameless || !rev.tombstone
		case rev.main <= w.compacted && !rev.tombstone, rev.main > w.compacted && rec.version == 1:
			found.keys++
		case rev.main > w.compacted && rev.tombstone:
			found.keys--
		}
		if skipping && w.superseded(rev, rec) || rev.tombstone && rev.main == w.compacted {
			return
		}
		sum.Write(k)
		sum.Write(v)
	})
	found.hash = sum.Sum32()
	return found, found.keys > 0 || nameless, err
}

// superseded says whether a compaction at the newest revision would drop the
// record, of those up to the last compaction.
func (w *walker) superseded(rev revision, rec record) bool {
	if rev.main > w.compacted {
		return false
	}
	newest, known := w.newest[maphash.Bytes(w.seed, rec.key)]
	return rev.tombstone || known && newest != rev
}
