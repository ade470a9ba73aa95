package sources

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/datadir"
)

// What can be taken back, or has stopped nothing yet, waits for a word about losses.
func TestAcceptsAny(t *testing.T) {
	v2, v3 := cluster.Version{Major: 2, Minor: 3, Patch: 8}, cluster.Version{Major: 3, Minor: 2, Patch: 24}
	for kind, want := range map[string]bool{
		cluster.SourceHalted: false, cluster.SourceSetAside: true, cluster.SourceSurvivor: true, cluster.SourceBackup: false,
	} {
		if got := acceptsAny(cluster.Source{Kind: kind, Wrote: v2}, v3); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
	if !acceptsAny(cluster.Source{Kind: cluster.SourceBackup, Wrote: v2, Accept: cluster.AcceptAny}, v3) {
		t.Error("its generation is written down, all members are stopped, and it waits for a word")
	}
	if acceptsAny(cluster.Source{Kind: cluster.SourceHalted, Wrote: v2, Accept: cluster.AcceptAny}, v3) {
		t.Error("a halt is not taken back for the list")
	}
	if !acceptsAny(cluster.Source{Kind: cluster.SourceBackup, Wrote: v2}, v2) {
		t.Error("a backup of version 2 waits for a word although there is no other way with it")
	}
}

// A rehearsal that ends its daemon again and again is given up, until somebody gives
// another word; and what it left goes with the next start.
func TestRehearsalsThatEndTheDaemon(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := disk.StateDir()
	start := func() *Sources {
		t.Helper()
		s := &Sources{o: Options{Disk: disk, Log: slog.New(slog.DiscardHandler)}}
		if err := s.clearDrills(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	begin := func(name string) error {
		t.Helper()
		s := start()
		room, err := s.drillRoom()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.beginTrial(name); err != nil {
			return err
		}
		for _, left := range []string{filepath.Join(room, "live"), filepath.Join(state, "etcdadm-drill-1")} {
			if err := os.MkdirAll(left, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return nil // and the daemon is killed
	}
	for range mostCuts {
		if err := begin("one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("one"); err == nil {
		t.Error("it was begun once more")
	}
	if left, _ := filepath.Glob(filepath.Join(state, "*drill*", "*")); len(left) != 1 || filepath.Base(left[0]) != fileTrial {
		t.Errorf("left: %v", left)
	}
	if err := begin("two"); err != nil {
		t.Error("another word was given: ", err)
	}
	if err := start().endTrial(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "*drill*", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
