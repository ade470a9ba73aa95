package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/internal/testetcd"
)

// A last record that was being written is the end of the log; damage anywhere
// else is told.
func TestTornAndDamagedLog(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		client := c.Client(t)
		fill(t, client)
		put(t, client, "whole", "v")
		must(t, c.Kill(within(t), 0, syscall.SIGKILL))
		dir := c.Members[0].DataDir
		whole, err := inspect(within(t), dir)
		must(t, err)
		appendToLog(t, dir, func(p Position) []*raftpb.Entry {
			e := putEntry(t, next(&p), "torn")
			e.Data = append(e.Data, strings.Repeat("x", 4096)...)
			return []*raftpb.Entry{e}
		})
		file := filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal")
		b, err := os.ReadFile(file)
		must(t, err)
		end := len(strings.TrimRight(string(b), "\x00"))
		at := strings.LastIndex(string(b[:end]), "torn")
		for i := at/512*512 + 512; i < len(b); i++ { // these sectors did not reach the disk
			b[i] = 0
		}
		must(t, os.WriteFile(file, b, 0o600))
		e, keys := extracted(t, dir, version)
		if e.Survivor.Torn < 1 || e.Survivor.Torn > 8192 || e.Survivor.Last != whole.Last || keys["whole"] == "" || keys["torn"] != "" {
			t.Errorf("extracted %+v, want the end at %v", e.Survivor, whole.Last)
		}
		b[strings.Index(string(b), "k13")] ^= 1
		must(t, os.WriteFile(file, b, 0o600))
		if _, err := inspect(within(t), dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("a damaged log: %v", err)
		}
	})
}

// The reader's idea of a log, on logs that are hard to come by.
func TestReadLog(t *testing.T) {
	t.Parallel()
	type at = Position
	for _, test := range []struct {
		name  string
		write func(w *wal.WAL)
		last  Position
		start uint64
		keys  []uint64 // indices that the copied log has
	}{
		{"entries that a later leader replaced", func(w *wal.WAL) {
			saveLog(t, w, 3, at{1, 1}, at{1, 2}, at{1, 3}, at{1, 4}, at{1, 5})
			saveLog(t, w, 3, at{2, 4})
		}, at{2, 4}, 0, []uint64{1, 2, 3, 4}},
		{"a snapshot of its own", func(w *wal.WAL) {
			saveLog(t, w, 4, at{1, 1}, at{1, 2}, at{1, 3}, at{1, 4}, at{1, 5})
			saveSnap(t, w, at{1, 3})
		}, at{1, 5}, 3, []uint64{4, 5}},
		{"a snapshot that was sent, beyond the log", func(w *wal.WAL) {
			saveLog(t, w, 2, at{1, 1}, at{1, 2})
			saveSnap(t, w, at{3, 50})
			saveLog(t, w, 50)
			saveLog(t, w, 51, at{3, 51})
		}, at{3, 51}, 50, []uint64{51}},
		{"a snapshot that was sent, into entries that nobody else had", func(w *wal.WAL) {
			saveLog(t, w, 2, at{1, 1}, at{1, 2}, at{1, 3}, at{1, 4}, at{1, 5}, at{1, 6})
			saveSnap(t, w, at{2, 4})
			saveLog(t, w, 4)
		}, at{2, 4}, 4, nil},
		{"the same, and then more", func(w *wal.WAL) {
			saveLog(t, w, 2, at{1, 1}, at{1, 2}, at{1, 3}, at{1, 4}, at{1, 5}, at{1, 6})
			saveSnap(t, w, at{2, 4})
			saveLog(t, w, 4)
			saveLog(t, w, 4, at{2, 5})
		}, at{2, 5}, 4, []uint64{5}},
		{"a snapshot that was announced and not taken over", func(w *wal.WAL) {
			saveLog(t, w, 2, at{1, 1}, at{1, 2}, at{1, 3})
			saveSnap(t, w, at{2, 9})
		}, at{1, 3}, 0, []uint64{1, 2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
			must(t, err)
			w, err := wal.Create(nil, dir, owner)
			must(t, err)
			test.write(w)
			must(t, w.Close())
			l, err := readLog(dir, 0)
			must(t, err)
			if l.last != test.last || l.start.Index != test.start || l.member != 7 || l.cluster != 9 {
				t.Errorf("last %v, start %d of %s in %s; want %v and %d", l.last, l.start.Index, l.member, l.cluster, test.last, test.start)
			}
			r := &remains{log: l, walDir: dir, Survivor: Survivor{Member: l.member, Cluster: l.cluster, Last: l.last, Term: l.state.GetTerm()}}
			copied := filepath.Join(t.TempDir(), "wal")
			must(t, rewriteLog(within(t), r, copied))
			checkRewritten(t, copied, l, test.keys)
		})
	}
}

// A log of many files, of which etcd has removed the first ones.
func TestReadLogOfManyFiles(t *testing.T) { // alone: it changes what the whole package writes by
	defer func(was int64) { wal.SegmentSizeBytes = was }(wal.SegmentSizeBytes)
	wal.SegmentSizeBytes = 4 << 10
	dir := filepath.Join(t.TempDir(), "wal")
	owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
	must(t, err)
	w, err := wal.Create(nil, dir, owner)
	must(t, err)
	for i := range uint64(600) {
		saveLog(t, w, i, Position{1 + i/200, i + 1})
		if n := i + 1; n%100 == 0 {
			saveSnap(t, w, Position{1 + (n-50-1)/200, n - 50})
		}
	}
	must(t, w.Close())
	names, _, err := logFiles(dir)
	must(t, err)
	for i := range len(names) / 2 {
		must(t, os.Remove(filepath.Join(dir, names[i])))
	}
	l, err := readLog(dir, 0)
	must(t, err)
	if want := (Position{3, 600}); l.last != want || l.start.Index != 550 || l.fresh != 0 {
		t.Errorf("%d files: last %v, start %d, entries from record %d on", len(names), l.last, l.start.Index, l.fresh)
	}
	copied := filepath.Join(t.TempDir(), "wal")
	must(t, rewriteLog(within(t), &remains{log: l, walDir: dir, Survivor: Survivor{Last: l.last, Term: 3}}, copied))
	l.member = 0
	var indices []uint64
	for i := range uint64(50) {
		indices = append(indices, 551+i)
	}
	checkRewritten(t, copied, l, indices)
	must(t, os.Remove(filepath.Join(dir, names[len(names)-2])))
	if _, err := readLog(dir, 0); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a file missing between: %v", err)
	}
}

// checkRewritten reads the copied log with etcd's own reader.
func checkRewritten(t *testing.T, dir string, l *raftLog, indices []uint64) {
	t.Helper()
	snaps, err := wal.ValidSnapshotEntries(nil, dir)
	must(t, err)
	newest := snaps[len(snaps)-1]
	if newest.GetIndex() != l.start.Index {
		t.Errorf("the copied log begins at %d, want %d", newest.GetIndex(), l.start.Index)
	}
	w, err := wal.OpenForRead(nil, dir, newest)
	must(t, err)
	metadata, state, entries, err := w.ReadAll()
	must(t, err)
	var owner etcdserverpb.Metadata
	must(t, proto.Unmarshal(metadata, &owner))
	if owner.GetNodeID() != uint64(l.member) || owner.GetClusterID() == uint64(l.cluster) {
		t.Errorf("the copied log is of %v", &owner)
	}
	if state.GetCommit() != l.last.Index+padding || state.GetTerm() < l.last.Term {
		t.Errorf("its state is %v, want all committed up to %v", state, l.last)
	}
	var have []uint64
	for _, e := range entries[len(entries)-padding:] {
		if len(e.GetData()) != 0 || e.GetType() != raftpb.EntryNormal {
			t.Errorf("%v is not empty", e)
		}
	}
	entries = entries[:len(entries)-padding]
	for _, e := range entries {
		have = append(have, e.GetIndex())
	}
	if !slices.Equal(have, indices) {
		t.Errorf("it has the entries %v, want %v", have, indices)
	}
	if n := len(entries); n > 0 && (Position{entries[n-1].GetTerm(), entries[n-1].GetIndex()}) != l.last {
		t.Errorf("it ends with %v", entries[n-1])
	}
}

func saveLog(t testing.TB, w *wal.WAL, commit uint64, at ...Position) {
	t.Helper()
	var entries []*raftpb.Entry
	term := uint64(1)
	for _, p := range at {
		entries, term = append(entries, putEntry(t, p, "k")), p.Term
	}
	must(t, w.Save(&raftpb.HardState{Term: &term, Vote: new(uint64(7)), Commit: &commit}, entries))
}

func saveSnap(t testing.TB, w *wal.WAL, at Position) {
	t.Helper()
	must(t, w.SaveSnapshot(&walpb.Snapshot{Term: &at.Term, Index: &at.Index, ConfState: &raftpb.ConfState{Voters: []uint64{7}}}))
}

// inspect reads the data directory of a stopped member.
func inspect(ctx context.Context, dataDir string) (Survivor, error) {
	r, err := openRemains(ctx, dataDir)
	if err != nil {
		return Survivor{}, err
	}
	defer r.close()
	return r.Survivor, nil
}
