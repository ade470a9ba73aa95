package host_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/inventory"
)

// RemoveAside makes the session's disk one that can remove what was set aside.
func (s *session) RemoveAside(name string) (func() error, error) {
	return func() error { return nil }, s.call("remove-aside", func() error {
		if s.m.heldBy != nil {
			return s.m.heldBy
		}
		s.m.disk.aside = slices.DeleteFunc(s.m.disk.aside, func(a cluster.SetAside) bool { return filepath.Base(a.Dir) == name })
		return nil
	})
}

// FinishRemovals has nothing to do: the session removes at once.
func (s *session) FinishRemovals() error { return nil }

// What was set aside is removed when a person asks for it, and not while a generation
// is made from it.
func TestPruneAside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		m.disk.aside = []cluster.SetAside{{Dir: "/d/data-trashcan/old", Reason: "removed", Bytes: 7}, {Dir: "/d/data-trashcan/used", Reason: "superseded"}}
		ctx := context.Background()
		if _, err := d.PruneAside(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a directory that is not there: %v", err)
		}
		if was, err := d.PruneAside(ctx, "old"); err != nil || was.Bytes != 7 {
			t.Fatalf("%+v, %v", was, err)
		}
		if s := d.look(2); s == nil || len(s.SetAside) != 1 {
			t.Fatalf("what is left: %+v", s)
		}
		local := m.state().Local
		in := &cluster.Intent{
			Name: m.state().Cluster, Generation: local.Generation + 1, Nonce: "n2", Token: "t2", State: cluster.IntentFounding,
			Source:  cluster.Source{Kind: cluster.SourceSetAside, Dir: "used"},
			History: []cluster.PastGeneration{{Generation: local.Generation, Cluster: local.Cluster}},
		}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(3), Intent: in}); r.State == nil || r.State.Intent.Generation != in.Generation {
			t.Fatalf("%+v", r)
		}
		if _, err := d.PruneAside(ctx, "used"); !errors.Is(err, inventory.ErrAsideInUse) {
			t.Fatalf("a directory that a generation is made from: %v", err)
		}
	})
}

func TestFileDiskRemovesAside(t *testing.T) {
	dir := t.TempDir()
	var heldBy error
	d := openDisk(t, dir, func(string) error { return heldBy })
	if err := d.CreateData("t", "d1"); err != nil {
		t.Fatal(err)
	}
	aside, err := d.SetAside("t", cluster.SetAside{Reason: cluster.AsideRemoved})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(aside.Dir)
	for _, bad := range []string{"", ".", "..", "../data", "a/b", "none"} {
		if _, err := d.RemoveAside(bad); err == nil {
			t.Errorf("removed %q", bad)
		}
	}
	heldBy = errors.New("a process has it")
	if _, err := d.RemoveAside(name); !errors.Is(err, heldBy) {
		t.Fatalf("under a process: %v", err)
	}
	heldBy = nil
	remove, err := d.RemoveAside(name)
	if err != nil {
		t.Fatal(err)
	}
	// Half way, and after it: nothing looks as if it were set aside.
	for range 2 {
		if left, _, err := d.Inventory(""); err != nil || len(left) != 0 {
			t.Fatalf("%+v %v", left, err)
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "data-trashcan"))
	if err != nil || len(entries) != 0 {
		t.Fatalf("left behind: %v %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcdadm", "pruning")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the directory is there still")
	}
}
