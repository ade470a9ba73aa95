package sources

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/datadir"
)

// What was fetched is dropped before a source is staged anew, and has to find room again:
// told without it, the room would look enough, and it would be fetched without end.
func TestRoomThatWasUsed(t *testing.T) {
	const fetched = 1 << 20
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sources{o: Options{Disk: disk}}
	write := func(file string, content []byte, size int64) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600), os.Truncate(file, size)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(disk.DataDir("old"), "member", "wal", "0000000000000000-0000000000000000.wal"), nil, 1<<43) // sparse
	o := bulk.StageOrder{Token: "new", From: "old", Version: cluster.MustVersion("3.2.24"), Source: cluster.Source{Kind: cluster.SourceSurvivor, Wrote: cluster.MustVersion("2.3.8")}}
	needs := func() int64 {
		t.Helper()
		_, err := s.Stage(t.Context(), o, func(cluster.StageState, int64) {})
		var no interface{ NeedsRoom() int64 }
		if !errors.As(err, &no) {
			t.Fatalf("got %v", err)
		}
		return no.NeedsRoom()
	}
	before := needs()
	write(filepath.Join(s.staging(o.Token), "fetched", "log"), make([]byte, fetched), fetched)
	if more := needs() - before; more < fetched {
		t.Errorf("with %d bytes that go, it needs %d more", fetched, more)
	}
}
