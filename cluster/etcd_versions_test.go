package cluster_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The facts about versions, held against real etcd: one member, so that every
// step takes a second or two.

// often makes etcd cut a raft snapshot all the time, so that its database is
// complete and its log holds nothing old.
var often = []string{"--snapshot-count=5"}

const limit = 60 * time.Second

// put writes enough for raft snapshots.
func put(t *testing.T, c *testetcd.Cluster, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := c.Client(t)
	for range 12 {
		if _, err := client.Put(ctx, "key", value); err != nil {
			t.Fatal(err)
		}
	}
}

func expect(t *testing.T, c *testetcd.Cluster, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := c.Client(t).Get(ctx, "key")
	if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != value {
		t.Fatalf("read %v, %v, want %s", r, err, value)
	}
}

// settled waits until the member says that its data is of a line. etcd looks
// every few seconds, and there is no event to wait for.
func settled(t *testing.T, c *testetcd.Cluster, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.Client(t).Status(ctx, c.Members[0].ClientURL)
		if err == nil && strings.HasPrefix(s.StorageVersion, line+".") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("storage version is %v, %v, want %s", s, err, line)
		case <-tick.C:
		}
	}
}

// become restarts the member as another release. It says whether it serves.
func become(t *testing.T, c *testetcd.Cluster, version string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := c.Use(ctx, 0, version); err != nil {
		t.Fatal(err)
	}
	err := c.Restart(ctx, 0)
	if ctx.Err() != nil { // neither serves nor ends: that is no refusal
		t.Fatalf("etcd %s: %v", version, err)
	}
	return err == nil
}

// TestRollsAreEtcds walks from 3.4 to 3.7 and back to 3.5, as Rolls and
// RollNeeds say, and tries what they refuse.
func TestRollsAreEtcds(t *testing.T) {
	t.Parallel()
	v34, v35, v36, v37 := testetcd.V34, testetcd.V35, testetcd.V36, testetcd.V37
	may := func(from, to string) {
		t.Helper()
		if err := cluster.Rolls(cluster.MustVersion(from), cluster.MustVersion(to)); err != nil {
			t.Error(err)
		}
	}
	c := testetcd.Start(t, testetcd.Config{Version: v34, Args: often})
	put(t, c, "3.4")
	for _, up := range [][2]string{{v34, v35}, {v35, v36}, {v36, v37}} {
		may(up[0], up[1])
		if !become(t, c, up[1]) {
			t.Fatalf("%s does not start on data of %s", up[1], up[0])
		}
		expect(t, c, line(up[0]))
		put(t, c, line(up[1]))
		if cluster.MustVersion(up[1]).Has(cluster.StorageVersion) {
			settled(t, c, line(up[1]))
		}
	}
	for _, down := range [][2]string{{v37, v36}, {v36, v35}} {
		may(down[0], down[1])
		if needs := cluster.RollNeeds(cluster.MustVersion(down[0]), cluster.MustVersion(down[1])); len(needs) != 1 || needs[0] != cluster.NeedDowngrade {
			t.Errorf("%s to %s needs %q", down[0], down[1], needs)
		}
		if become(t, c, down[1]) {
			t.Fatalf("%s starts on data of %s without a downgrade", down[1], down[0])
		}
		if !become(t, c, down[0]) {
			t.Fatalf("%s does not start any more", down[0])
		}
		downgrade(t, c, line(down[1]))
		settled(t, c, line(down[1]))
		if !become(t, c, down[1]) {
			t.Fatalf("%s does not start on data of %s after its downgrade", down[1], down[0])
		}
		expect(t, c, line(down[0]))
		put(t, c, line(down[1]))
	}
	// 3.5 validates a downgrade, and nothing comes of enabling it.
	if err := cluster.Rolls(cluster.MustVersion(v35), cluster.MustVersion(v34)); err == nil {
		t.Errorf("%s to %s rolls", v35, v34)
	}
	validate(t, c, line(v34))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Client(t).Downgrade(ctx, clientv3.DowngradeEnable, line(v34)+".0"); err == nil {
		t.Errorf("%s enables a downgrade", v35)
	}
	if become(t, c, v34) {
		t.Errorf("%s starts on data of %s", v34, v35)
	}
}

// downgrade validates and enables a downgrade.
func downgrade(t *testing.T, c *testetcd.Cluster, line string) {
	t.Helper()
	validate(t, c, line)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := c.Client(t).Downgrade(ctx, clientv3.DowngradeEnable, line+".0"); err != nil {
		t.Fatal(err)
	}
}

// validate waits until a downgrade is taken. The one before ends by itself, a
// few seconds after its last member was restarted; until then VALIDATE says
// that one is in progress.
func validate(t *testing.T, c *testetcd.Cluster, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.Client(t).Downgrade(ctx, clientv3.DowngradeValidate, line+".0")
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func line(version string) string {
	l, _ := cluster.MustVersion(version).Line()
	return l.String()
}

// TestOldEntriesInLogs: a young member of 3.5, whose log begins with entries of
// version 2 of the API, gets to 3.6 and not to 3.7, unless a raft snapshot was
// cut behind them by the last start of 3.5, or by 3.6.
func TestOldEntriesInLogs(t *testing.T) {
	t.Parallel()
	seldom := []string(nil) // as etcd does by itself
	for _, way := range []struct {
		name   string
		starts [][]string // arguments: of 3.5 once or several times, then of 3.6, then of 3.7
		works  bool
	}{
		{"never", [][]string{seldom, seldom, seldom}, false},
		{"by the last start of 3.5", [][]string{seldom, often, seldom, seldom}, true},
		{"by a start of 3.5 before the last", [][]string{often, seldom, seldom, seldom}, false},
		{"by 3.6", [][]string{seldom, often, seldom}, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			c := testetcd.Start(t, testetcd.Config{Version: testetcd.V35, Args: way.starts[0]})
			put(t, c, "value")
			for i, args := range way.starts[1:] {
				version := testetcd.V35
				switch i + 2 {
				case len(way.starts):
					version = testetcd.V37
				case len(way.starts) - 1:
					version = testetcd.V36
				}
				c.Members[0].Args = args
				works := become(t, c, version)
				if expected := way.works || version != testetcd.V37; works != expected {
					t.Fatalf("etcd %s starts: %v", version, works)
				}
				if works {
					expect(t, c, "value")
					put(t, c, "value")
				}
			}
		})
	}
}

// TestSnapshotsOfOtherLines restores snapshots of each release as our restores
// do, with the tool of each, and takes it to the next line where ReadsSnapshot says that it is
// readable: then that has to work. What it refuses fails sooner or later.
func TestSnapshotsOfOtherLines(t *testing.T) {
	t.Parallel()
	order := []string{testetcd.V34, testetcd.V35, testetcd.V36, testetcd.V37}
	for _, writer := range order {
		c := testetcd.Start(t, testetcd.Config{Version: writer, Args: often})
		put(t, c, writer)
		if cluster.MustVersion(writer).Has(cluster.StorageVersion) {
			settled(t, c, line(writer))
		}
		file := filepath.Join(t.TempDir(), "snapshot")
		run(t, c.Members[0].Release.Etcdctl, "--endpoints", c.Members[0].Endpoint(), "snapshot", "save", file)
		for i, reader := range order {
			works := restored(t, c, file, reader)
			for _, next := range order[i+1:] {
				if works = works && become(t, c, next); works { // more to look at for the one after
					put(t, c, writer)
				}
			}
			if works {
				expect(t, c, writer)
			}
			if said := cluster.MustVersion(reader).ReadsSnapshot(cluster.MustVersion(writer)); said != works {
				t.Errorf("a snapshot of %s is read by %s and what comes after it: %v; the table says %v", writer, reader, works, said)
			}
		}
	}
}

// restored puts the snapshot in the place of the member's data.
func restored(t *testing.T, c *testetcd.Cluster, file, reader string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	m := c.Members[0]
	if m.Running() {
		if err := c.Kill(ctx, 0, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	m.Release = testetcd.Binary(t, reader)
	m.DataDir = filepath.Join(t.TempDir(), "data")
	_, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Snapshot: file, DataDir: m.DataDir, Name: m.Name, PeerURLs: []string{m.PeerURL}, Token: "restored",
		Release: release.Release{Version: m.Release.Version, Dir: m.Release.Dir, Etcd: m.Release.Etcd, Etcdctl: m.Release.Etcdctl, Etcdutl: m.Release.Etcdutl},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Restart(ctx, 0) != nil {
		return false
	}
	for range 12 { // the snapshot's marks are looked at when the next line starts on data that was written to
		if _, err := c.Client(t).Put(ctx, "other", "value"); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"ETCDCTL_API=3"} // which was 2 by default up to 3.3
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// TestToolsAreEtcds asks the tools what the table of features says of them.
func TestToolsAreEtcds(t *testing.T) {
	for _, version := range testetcd.Versions() {
		v, r := cluster.MustVersion(version), testetcd.Binary(t, version)
		help := func(args ...string) string {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			out, _ := exec.CommandContext(ctx, r.Etcdutl, append(args, "--help")...).CombinedOutput()
			return string(out)
		}
		has := strings.Contains(help("snapshot", "restore"), "--bump-revision")
		if v.Has(cluster.BumpRevision) != has {
			t.Errorf("%s: %q is %v", v, cluster.BumpRevision, has)
		}
	}
}
