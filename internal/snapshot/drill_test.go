package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// A real etcd serves what the snapshot holds, with users on and without
// credentials; nothing is left, and what differs is told.
func TestDrill(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		file := snapshotOf(t, version, func(c *testetcd.Cluster, client *clientv3.Client) *clientv3.Client {
			enableAuth(t, client)
			return asRoot(t, c)
		})
		info, err := Verify(within(t), file)
		must(t, err)
		dir := t.TempDir()
		o := DrillOptions{Snapshot: file, Verified: info.SHA256, Site: filepath.Join(dir, "drill"), Release: theRelease(t, version)}
		d, err := Drill(within(t), o)
		must(t, err)
		want := Hash{info.Revision, info.CompactRevision, info.HashKV}
		if !d.Proven || d.Hash != want || d.Info.Keys != info.Keys {
			t.Errorf("drilled %+v, want %+v and %d keys", d, want, info.Keys)
		}
		t.Logf("took %v", d.Took)
		o.Expect = &want
		if d, err := Drill(within(t), o); err != nil || !d.Proven {
			t.Errorf("with the hash given: %+v %v", d, err)
		}
		o.Expect = &Hash{want.Revision, want.CompactRevision, want.Hash + 1}
		if _, err := Drill(within(t), o); !errors.Is(err, ErrDiffers) {
			t.Errorf("with another hash: %v", err)
		}
		if names := left(t, dir); len(names) != 0 {
			t.Errorf("the drill left %v", names)
		}
	})
}

// What a member told before its snapshot began is compared where it was told: a
// cluster that is written to has more in its snapshot. After a compaction in
// between, the contents decide.
func TestDrillOfABusyCluster(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		for _, compact := range []int64{0, 5, 25} {
			c := testetcd.Start(t, testetcd.Config{Version: version})
			client := c.Client(t)
			for i := range 20 {
				put(t, client, fmt.Sprintf("k%d", i), "v")
			}
			told, err := client.HashKV(within(t), client.Endpoints()[0], 0)
			must(t, err)
			expect := &Hash{told.Header.Revision, told.CompactRevision, told.Hash}
			for i := range 20 {
				put(t, client, fmt.Sprintf("k%d", i), "w")
			}
			if compact > 0 {
				_, err := client.Compact(within(t), compact, clientv3.WithCompactPhysical())
				must(t, err)
			}
			file := filepath.Join(t.TempDir(), "s.db")
			save(t, client, file)
			info, err := Verify(within(t), file)
			must(t, err)
			d, err := Drill(within(t), DrillOptions{Snapshot: file, Verified: info.SHA256, Site: filepath.Join(t.TempDir(), "drill"), Release: theRelease(t, version), Expect: expect})
			if err != nil || !d.Proven {
				t.Errorf("compacted at %d: %+v %v", compact, d, err)
			}
			expect.Hash++
			if _, err := Drill(within(t), DrillOptions{Snapshot: file, Verified: info.SHA256, Site: filepath.Join(t.TempDir(), "drill"), Release: theRelease(t, version), Expect: expect}); compact == 0 && !errors.Is(err, ErrDiffers) {
				t.Errorf("another hash: %v", err)
			}
		}
	})
}

// Etcd 3.4 restores with etcdctl, and tells no hash without credentials: its
// backups are proven all the same, by what it leaves in its database.
func TestDrillWithoutHash(t *testing.T) {
	t.Parallel()
	var live Hash
	file := snapshotOf(t, testetcd.V34, func(c *testetcd.Cluster, client *clientv3.Client) *clientv3.Client {
		enableAuth(t, client)
		root := asRoot(t, c)
		said, err := root.HashKV(within(t), c.Endpoints()[0], 0)
		must(t, err)
		live = Hash{Revision: said.Header.Revision, CompactRevision: said.CompactRevision, Hash: said.Hash}
		return root
	})
	info, err := Verify(within(t), file)
	must(t, err)
	o := DrillOptions{Snapshot: file, Site: filepath.Join(t.TempDir(), "drill"), Release: theRelease(t, testetcd.V34)}
	for what, expect := range map[string]*Hash{
		"the snapshot's contents": nil, "the live member's hash": &live,
		"a member that counts tombstones otherwise": {live.Revision, live.CompactRevision, live.Hash + 1},
	} {
		o.Expect = expect
		if d, err := Drill(within(t), o); err != nil || !d.Proven || d.Hash != info.asHash() || d.Info.Keys != info.Keys {
			t.Errorf("%s: drilled %+v, %v; the snapshot has %+v", what, d, err, info)
		}
	}
	other := snapshotOf(t, testetcd.V34, func(_ *testetcd.Cluster, client *clientv3.Client) *clientv3.Client {
		put(t, client, "k10", "another value")
		return client
	})
	served, err := Verify(within(t), other)
	must(t, err)
	d := Drilled{Hash: served.asHash(), Info: served}
	if err := d.compare(within(t), DrillOptions{Snapshot: file, Expect: &live}, false); !errors.Is(err, ErrDiffers) || d.Proven {
		t.Errorf("with another database: %+v, %v", d, err)
	}
}

// A drill that is called off ends its etcd and leaves nothing, wherever it was.
func TestCancelledDrill(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V37), t.TempDir()
	slowTool, slowEtcd := theRelease(t, testetcd.V37), theRelease(t, testetcd.V37)
	slowTool.Etcdutl, slowEtcd.Etcd = hangs(t), hangs(t)
	o := DrillOptions{Snapshot: file, Site: filepath.Join(dir, "drill")}
	for _, o.Release = range []release.Release{slowTool, slowEtcd} {
		bound := fmt.Errorf("half a second is over: %w", context.DeadlineExceeded)
		ctx, cancel := context.WithTimeoutCause(within(t), 500*time.Millisecond, bound)
		_, err := Drill(ctx, o)
		cancel()
		if !errors.Is(err, bound) {
			t.Errorf("called off: %v", err)
		}
		if names := left(t, dir); len(names) != 0 {
			t.Errorf("the drill left %v", names)
		}
	}
	if running := processesIn(t, dir); len(running) != 0 {
		t.Errorf("processes %v are left", running)
	}
}

// hangs is a program that does nothing for long.
func hangs(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "hangs")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 100\n"), 0o700))
	return path
}

// processesIn lists the processes whose working directory is below dir.
func processesIn(t testing.TB, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	for _, link := range all {
		if at, err := os.Readlink(link); err == nil && len(at) > len(dir) && at[:len(dir)] == dir {
			pids = append(pids, link)
		}
	}
	slices.Sort(pids)
	return pids
}

// What etcd left of a snapshot is compared with the snapshot itself where nobody told a
// hash: a key more or less is a difference also where the hash is the same.
func TestDrillComparesWithTheSnapshot(t *testing.T) {
	t.Parallel()
	file := sealedFile(t, smallDatabase(t, 40))
	info, err := examine(within(t), file)
	must(t, err)
	whole := Drilled{Info: info, Hash: info.asHash()}
	for name, c := range map[string]struct {
		change func(*Drilled)
		expect *Hash
		tells  bool
		proven bool
		fails  bool
	}{
		"the same":             {func(*Drilled) {}, nil, true, true, false},
		"a key more":           {func(d *Drilled) { d.Info.Keys++ }, nil, true, false, true},
		"another hash":         {func(d *Drilled) { d.Hash.Hash++ }, nil, true, false, true},
		"another revision":     {func(d *Drilled) { d.Hash.Revision++ }, nil, true, false, true},
		"not what was told":    {func(*Drilled) {}, &Hash{Hash: 1}, true, false, true},
		"of a release without": {func(*Drilled) {}, &Hash{Hash: 1}, false, true, false},
		"unknown":              {func(d *Drilled) { d.Info.HashKVTold = false }, nil, false, false, false},
	} {
		d := whole
		c.change(&d)
		err := d.compare(within(t), DrillOptions{Snapshot: file, Expect: c.expect}, c.tells)
		if errors.Is(err, ErrDiffers) != c.fails || !c.fails && err != nil || d.Proven != c.proven || !c.fails && d.Proven == (d.Note != "") {
			t.Errorf("%s: %v, proven %t, %q", name, err, d.Proven, d.Note)
		}
	}
}
