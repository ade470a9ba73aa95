package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// saveRaft writes a raft snapshot as etcd does.
func saveRaft(t testing.TB, dir string, at Position, store []byte) string {
	t.Helper()
	err := snap.New(zap.NewNop(), dir).SaveSnap(&raftpb.Snapshot{
		Data: store, Metadata: &raftpb.SnapshotMetadata{Index: &at.Index, Term: &at.Term, ConfState: &raftpb.ConfState{Voters: []uint64{7, 8}}},
	})
	must(t, err)
	return filepath.Join(dir, raftFile(at))
}

// A raft snapshot is read as etcd reads it: one that is cut anywhere, longer than it
// was, or changed in any byte is damaged, and never panics.
func TestVerifyRaft(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), Position{Term: 3, Index: 1000}
	store := bytes.Repeat([]byte(`{"Root":1}`), 30)
	file := saveRaft(t, dir, at, store)
	var got []byte
	is, err := readRaft(file, func(r io.Reader) (err error) {
		got, err = io.ReadAll(r)
		return err
	})
	if err != nil || is != at || !bytes.Equal(got, store) {
		t.Fatalf("%+v, %d bytes, %v", is, len(got), err)
	}
	must(t, verifyRaft(file, at))
	if err := verifyRaft(file, Position{Term: 3, Index: 999}); !errors.Is(err, ErrDamaged) {
		t.Error("of another entry: ", err)
	}
	if err := verifyRaft(file+"2", at); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrDamaged) {
		t.Error("there is none: ", err)
	}
	if _, err := readRaft(file, func(io.Reader) error { return nil }); err != nil {
		t.Error("whoever reads it needs no more: ", err)
	}
	whole, err := os.ReadFile(file)
	must(t, err)
	refused := func(what string, n int, data []byte) {
		t.Helper()
		must(t, os.WriteFile(file, data, 0o600))
		if err := verifyRaft(file, at); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s %d: %v", what, n, err)
		}
	}
	for n := range whole {
		refused("cut at", n, whole[:n])
		refused("zeros from", n, append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...))
		changed := bytes.Clone(whole)
		changed[n] ^= 0x21
		refused("changed at", n, changed)
	}
	refused("more", 1, append(bytes.Clone(whole), 0))
	refused("twice", 2, append(bytes.Clone(whole), whole...))
	refused("a length that nothing has", 0, binary.AppendUvarint(bytes.Clone(whole[:bytes.IndexByte(whole, fieldRaft)+1]), 1<<63))
}

// The newest raft snapshot that is whole is taken, if the log goes back that far.
func TestCopySnapshotV2(t *testing.T) {
	t.Parallel()
	old, newest := Position{Term: 2, Index: 20}, Position{Term: 2, Index: 30}
	for name, c := range map[string]struct {
		first uint64
		break1, break2,
		gone2 bool
		want Position
	}{
		"both are whole":           {21, false, false, false, newest},
		"the older one is not":     {21, true, false, false, newest},
		"half":                     {21, false, true, false, old},
		"not there yet":            {21, false, false, true, old},
		"half, and a log too late": {22, false, true, false, Position{}},
		"none, and a whole log":    {1, true, true, false, Position{Index: 0}},
		"none, and a log too late": {2, true, true, false, Position{}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			for p, broken := range map[Position]bool{old: c.break1, newest: c.break2, {Term: 2, Index: 40}: true} { // of the last the log knows nothing
				file := saveRaft(t, from, p, bytes.Repeat([]byte("x"), 999))
				if broken {
					must(t, os.Truncate(file, 500))
				}
			}
			if c.gone2 {
				must(t, os.Remove(filepath.Join(from, raftFile(newest))))
			}
			r := &remains{snap: from, log: &raftLog{first: c.first, start: position{Position: newest}}}
			err := r.copySnapshotV2(within(t), to)
			left, _ := filepath.Glob(filepath.Join(to, "*"))
			switch {
			case c.want == (Position{}) && c.first > 1:
				if !errors.Is(err, ErrDamaged) || len(left) != 0 {
					t.Errorf("%v, %v", left, err)
				}
			case err != nil || r.log.start.Position != c.want:
				t.Errorf("%+v, %v", r.log.start.Position, err)
			case c.want.Index == 0 && len(left) != 0 || c.want.Index > 0 && (len(left) != 1 || verifyRaft(left[0], c.want) != nil):
				t.Errorf("copied %v", left)
			}
		})
	}
}
