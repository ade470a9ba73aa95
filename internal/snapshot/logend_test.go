package snapshot

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// The end that is told from memory is the one that a reading of all files tells,
// whatever was written meanwhile: entries, entries that replace others, snapshots
// that a member made or was sent, new files, and files that etcd has removed.
func TestLogEndsAgreesWithTheWholeLog(t *testing.T) { // alone: it changes what the whole package writes by
	defer func(was int64) { wal.SegmentSizeBytes = was }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 8 << 10
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		data := t.TempDir()
		dir := filepath.Join(data, "member", "wal")
		must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
		owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
		must(t, err)
		w, err := wal.Create(nil, dir, owner)
		must(t, err)
		var ends LogEnds
		at, most := Position{Term: 1}, 0
		terms := map[uint64]uint64{}
		for step := range 400 {
			switch random.IntN(12) {
			case 0: // a new leader replaces some
				at.Term++
				at.Index = max(at.Index, 6) - random.Uint64N(5)
				if terms[at.Index-1] == 0 {
					at.Index = slices.Max(append(slices.Collect(maps.Keys(terms)), 0)) + 1
				}
				saveLog(t, w, at.Index-1, at)
			case 1:
				if term := terms[at.Index-1]; term > 0 {
					saveSnap(t, w, Position{term, at.Index - 1})
				}
			case 2: // it is sent one
				at = Position{at.Term + 1, at.Index + 10}
				clear(terms)
				terms[at.Index] = at.Term
				saveSnap(t, w, at)
				if random.IntN(2) == 0 {
					saveLog(t, w, at.Index)
				}
				at.Index++
				saveLog(t, w, at.Index, at)
			default:
				at.Index++
				saveLog(t, w, at.Index-1, at)
			}
			maps.DeleteFunc(terms, func(i, _ uint64) bool { return i > at.Index })
			terms[at.Index] = at.Term
			names, _, err := logFiles(dir)
			must(t, err)
			if len(names) > 6 && random.IntN(10) == 0 {
				must(t, os.Remove(filepath.Join(dir, names[0])))
			}
			want, err := readLog(dir, 0)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			before := ends.visited
			got, err := ends.Of(within(t), data, nil)
			if err != nil || got != want.last {
				t.Fatalf("seed %d, step %d: %v %v, want %v", seed, step, got, err, want.last)
			}
			most = max(most, ends.visited-before)
		}
		must(t, w.Close())
		if _, err := ends.Of(within(t), filepath.Dir(data), nil); err == nil {
			t.Error("there is an end of no log")
		}
		t.Logf("seed %d: at most %d records at once, %d in all", seed, most, ends.visited)
	}
}

// What stays as it is is not read again; what cannot be trusted is not kept.
func TestLogEndsReadsOnlyWhatChanged(t *testing.T) {
	defer func(was int64) { wal.SegmentSizeBytes = was }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 8 << 10
	data := t.TempDir()
	dir := filepath.Join(data, "member", "wal")
	must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
	must(t, err)
	w, err := wal.Create(nil, dir, owner)
	must(t, err)
	for i := range uint64(3000) {
		saveLog(t, w, i, Position{1, i + 1})
	}
	var ends LogEnds
	read := func(want uint64) int {
		t.Helper()
		before := ends.visited
		if p, err := ends.Of(within(t), data, nil); err != nil || p.Index != want {
			t.Fatalf("the end is %v, %v; want %d", p, err, want)
		}
		return ends.visited - before
	}
	whole := read(3000)
	if n := read(3000); n == 0 || n > whole/10 {
		t.Errorf("of a log that was just written to, %d of %d records are read again", n, whole)
	}
	settle := func() {
		names, _, err := logFiles(dir)
		must(t, err)
		old := time.Now().Add(-time.Minute).Round(0)
		must(t, os.Chtimes(filepath.Join(dir, names[len(names)-1]), old, old))
	}
	settle()
	read(3000)
	if n := read(3000); n != 0 {
		t.Errorf("of a log that nobody writes to, %d records are read again", n)
	}
	saveLog(t, w, 3000, Position{1, 3001})
	if n := read(3001); n == 0 || n > whole/10 {
		t.Errorf("after one more entry %d of %d records are read", n, whole)
	}
	must(t, w.Close())

	names, _, err := logFiles(dir)
	must(t, err)
	settle()
	read(3001)
	for _, name := range []string{names[0], names[len(names)-2]} {
		file := filepath.Join(dir, name)
		good, err := os.ReadFile(file)
		must(t, err)
		bad := append([]byte(nil), good...)
		bad[len(bad)/2] ^= 1
		for what, content := range map[string][]byte{"damaged": bad, "cut": good[:len(good)-3]} {
			must(t, os.WriteFile(file, content, 0o600))
			if p, err := ends.Of(within(t), data, nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("with %s %s: %v %v", name, what, p, err)
			}
		}
		must(t, os.WriteFile(file, good, 0o600))
		read(3001)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(LogEnds).Of(over, data, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with no time left: %v", err)
	}
}

// A reading that runs out of time again and again comes to its end all the same, a
// file at a time, and tells how far it is.
func TestLogEndsGoesOnWhereItStopped(t *testing.T) { // alone: it changes what the whole package writes by
	defer func(was int64) { wal.SegmentSizeBytes = was }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 128 << 10
	data := t.TempDir()
	dir := filepath.Join(data, "member", "wal")
	must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
	must(t, err)
	w, err := wal.Create(nil, dir, owner)
	must(t, err)
	const entries = 60_000
	for i := uint64(0); i < entries; {
		var some []*raftpb.Entry
		for range 500 {
			i++
			some = append(some, &raftpb.Entry{Term: new(uint64(1)), Index: new(i), Data: make([]byte, 24)})
		}
		must(t, w.Save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(i)}, some))
	}
	must(t, w.Close())
	names, _, err := logFiles(dir)
	must(t, err)
	want, err := readLog(dir, 0)
	must(t, err)
	if len(names) < 5 || want.last.Index != entries {
		t.Fatalf("%d files up to %v", len(names), want.last)
	}

	var ends LogEnds
	var far cluster.LogReading
	cuts := 0
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		got, err := ends.Of(ctx, data, func(now cluster.LogReading) {
			far = now
			if told++; told == 8 { // some 8,000 records: more than a file has
				cancel()
			}
		})
		cancel()
		if err == nil {
			if got != want.last {
				t.Errorf("the end is %v, want %v", got, want.last)
			}
			break
		}
		if cuts++; !errors.Is(err, context.Canceled) || tries > 4*len(names) {
			t.Fatalf("after %d tries: %v", tries, err)
		}
	}
	t.Logf("%d files, %d cuts, %d records visited of %d, the last progress %d of %d", len(names), cuts, ends.visited, entries, far.Bytes, far.Of)
	if cuts < 2 || ends.visited > 4*entries || far.Bytes <= 0 || far.Bytes > far.Of {
		t.Errorf("cut %d times, %d records visited, progress %+v", cuts, ends.visited, far)
	}
}

// Few records may be many bytes: a reading of them tells how far it is, and ends
// with its context, all the same.
func TestLogEndsLooksUpFromLargeRecords(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dir := filepath.Join(data, "member", "wal")
	must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
	must(t, err)
	w, err := wal.Create(nil, dir, owner)
	must(t, err)
	const entries = 40
	var all []*raftpb.Entry
	for i := range uint64(entries) {
		all = append(all, &raftpb.Entry{Term: new(uint64(1)), Index: new(i + 1), Data: make([]byte, 1<<20)})
	}
	must(t, w.Save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(entries))}, all))
	must(t, w.Close())

	var ends LogEnds
	var told []int64
	tell := func(now cluster.LogReading) { told = append(told, now.Bytes) }
	if p, err := ends.Of(within(t), data, tell); err != nil || p.Index != entries {
		t.Fatalf("the end is %v, %v", p, err)
	}
	if len(told) < 8 || !slices.IsSorted(told) || told[0] > 8<<20 {
		t.Errorf("progress over %d MiB: %d", entries, told)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	far := int64(0)
	_, err = new(LogEnds).Of(ctx, data, func(now cluster.LogReading) {
		far = now.Bytes
		cancel()
	})
	if !errors.Is(err, context.Canceled) || far > 8<<20 {
		t.Errorf("called off after %d bytes: %v", far, err)
	}
}
