package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"etcdadm.io/internal/progress"
)

// KeyValue is a key as it stood at the newest revision of a database. Key and
// Value are valid only while they are being visited.
type KeyValue struct {
	Key, Value     []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64 // how often it was written since it was created
	Lease          int64 // zero: none
}

// dumpTracked is how many keys one pass of a dump remembers, of about 100 bytes.
const dumpTracked = 1 << 19

// Dump visits every key of a snapshot, or of another database of etcd 3, that
// has a value at its newest revision: in the order in which they were written
// last, where not more than half a million keys were written since the last
// compaction, else in several such passes. Memory does not grow with the
// database. It changes nothing. It ends with the first error of visit.
func Dump(ctx context.Context, path string, visit func(KeyValue) error) error {
	if err := dump(ctx, path, dumpTracked, visit); err != nil {
		return fmt.Errorf("dump %s: %w", path, err)
	}
	return nil
}

func dump(ctx context.Context, path string, tracked int64, visit func(KeyValue) error) error {
	if err := packedFile(path); err != nil {
		return err
	}
	db, err := openDatabase(ctx, path, anyBucket)
	if err != nil {
		return err
	}
	defer db.Close()
	return guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			h, err := readHeader(tx)
			if err != nil {
				return err
			}
			if err := checkAll(ctx, tx); err != nil {
				return err
			}
			d := dumper{walker: walker{ctx: ctx, compacted: h.compactRevision()}, tx: tx, visit: visit}
			if h.scheduled <= h.finished { // else an older record may be there still
				d.from = h.compactRevision() + 1
			}
			return d.run(tracked)
		})
	})
}

// dumper visits keys, a part of them in each pass.
type dumper struct {
	walker
	tx     *bbolt.Tx
	from   int64 // up to the revision before it, there is one record of a key
	parts  uint64
	part   uint64
	newest map[[16]byte]revision // of the part's keys, written at from or later
	visit  func(KeyValue) error
	shown  *progress.Step
	err    error
}

func (d *dumper) run(tracked int64) error {
	path := d.tx.DB().Path()
	d.step = progress.Begin(d.ctx, 0, progress.Records, "looking through the records of %s", path)
	written := int64(0)
	if err := d.each(d.tx, d.from, func(revision, record, []byte, []byte) { written++ }); err != nil {
		return err
	}
	d.parts = uint64(written/tracked) + 1
	for d.part = range d.parts {
		d.newest = map[[16]byte]revision{}
		if err := d.each(d.tx, d.from, d.note); err != nil {
			return err
		}
		d.step = nil
		d.shown = progress.Begin(d.ctx, 0, progress.Keys, "reading the keys of %s, part %d of %d", path, d.part+1, d.parts)
		if err := d.each(d.tx, 0, d.show); err != nil {
			return err
		}
		if d.err != nil {
			return d.err
		}
	}
	return nil
}

// sum is a key's hash. No two keys of one database may have the same, so it is
// one that nobody can choose keys for.
func (d *dumper) sum(key []byte) (sum [16]byte, mine bool) {
	whole := sha256.Sum256(key)
	return [16]byte(whole[:16]), binary.BigEndian.Uint64(whole[16:])%d.parts == d.part
}

func (d *dumper) note(rev revision, rec record, _, _ []byte) {
	if sum, mine := d.sum(rec.key); mine {
		d.newest[sum] = rev
	}
}

func (d *dumper) show(rev revision, rec record, _, v []byte) {
	if d.err != nil || rev.tombstone || len(rec.key) == 0 {
		return
	}
	sum, mine := d.sum(rec.key)
	if !mine {
		return
	}
	if newest, known := d.newest[sum]; known && newest != rev {
		return
	}
	kv, err := parseKeyValue(v)
	if err != nil {
		d.err = fmt.Errorf("%w: read the record at revision %d: %w", ErrDamaged, rev.main, err)
		return
	}
	d.err = d.visit(kv)
	d.shown.Add(1)
}

// parseKeyValue reads a mvccpb.KeyValue.
func parseKeyValue(b []byte) (kv KeyValue, err error) {
	numbers := map[protowire.Number]*int64{2: &kv.CreateRevision, 3: &kv.ModRevision, 4: &kv.Version, 6: &kv.Lease}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return kv, protowire.ParseError(n)
		}
		b = b[n:]
		switch to := numbers[num]; {
		case num == 1 && typ == protowire.BytesType:
			kv.Key, n = protowire.ConsumeBytes(b)
		case num == 5 && typ == protowire.BytesType:
			kv.Value, n = protowire.ConsumeBytes(b)
		case to != nil && typ == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			*to = int64(v)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return kv, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return kv, nil
}
