package release

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io/internal/teststill"
)

// A directory on a hung mount, one of releases or of one release, hides no
// other one: neither of its version, in a later place, nor of another.
func TestADirectoryThatStandsStillHidesNoOther(t *testing.T) {
	const all = 8 * time.Second // of which one that stands still has half
	still := teststill.Mount(t)
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), all)
		t.Cleanup(cancel)
		return ctx
	}
	for what, c := range map[string]struct {
		put    func(f *Finder, root string)
		passed []string // what is passed over
	}{
		"of releases":    {func(f *Finder, _ string) { f.Dirs = []string{still} }, []string{still}},
		"of one release": {func(_ *Finder, root string) { link(t, still, root+"/opt/etcd-v3.5.1") }, nil}, // another one has its version
	} {
		f, root := machine(t)
		etcd(t, root+"/opt/etcd-v3.6.1", "3.6.1")
		etcd(t, root+"/var/cache/etcdadm/etcd/v3.5.1", "3.5.1")
		c.put(f, root)
		list, passed, err := f.List(within())
		if err != nil || len(list) != 2 || list[0].Asked != "3.5.1" || list[1].Asked != "3.6.1" {
			t.Errorf("%s: list: %+v, %v, %v", what, list, passed, err)
		}
		var silent []string
		for _, p := range passed {
			if p.Silent() && p.Version == "" {
				silent = append(silent, p.Path)
			}
		}
		if !slices.Equal(silent, c.passed) || len(passed) != len(silent) {
			t.Errorf("%s: passed over: %v", what, passed)
		}
		began := time.Now()
		if r, err := f.Find(within(), "3.5.1"); err != nil || r.Dir != root+"/var/cache/etcdadm/etcd/v3.5.1" {
			t.Errorf("%s: found %+v, %v", what, r, err)
		}
		if took := time.Since(began); took > all*3/8 {
			t.Errorf("%s: what stands still was waited for again, for %s", what, took)
		}
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}
