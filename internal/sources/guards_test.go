package sources

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
)

// What lies ready is what was recorded, byte for byte.
func TestSourceHasTheRecordedSum(t *testing.T) {
	data := bytes.Repeat([]byte("some page of a database "), 512*10)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)
	catalogue := backupstore.New(memory.New())
	b, err := catalogue.Write(t.Context(), backupstore.Request{Meta: backup.Meta{EtcdVersion: cluster.MustVersion("3.6.16")}}, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// No release is here, so whatever is taken for good fails after that.
	none := &release.Finder{Dirs: []string{t.TempDir()}, Caches: []string{}, Roots: []string{t.TempDir()}}
	s := &Sources{o: Options{Disk: disk, Finder: none, Versions: func() []cluster.Version { return nil }, Log: slog.New(slog.DiscardHandler), Catalogue: catalogue}}
	for recorded, bad := range map[string]bool{"": false, hex.EncodeToString(sum[:]): false, strings.Repeat("0", 64): true} {
		o := bulk.StageOrder{Token: "t" + recorded, Disk: "d", Name: "h", Version: cluster.MustVersion("3.6.16"), Source: cluster.Source{
			Kind: cluster.SourceBackup, Backup: b.Name.String(), Wrote: cluster.MustVersion("3.6.16"), SHA256: recorded,
		}}
		if _, err := s.Stage(t.Context(), o, func(cluster.StageState, int64) {}); err == nil || errors.Is(err, bulk.ErrBadSource) != bad {
			t.Errorf("recorded %q: %v", recorded, err)
		}
	}
}

// A token names one directory of what is staged, and nothing beside it.
func TestStagedNames(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	keep := filepath.Join(disk.StateDir(), "keep")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Sources{o: Options{Disk: disk}}
	for _, token := range []string{"", "../keep", "/x", "a/b"} {
		if err := s.DropStaged(token); err == nil {
			t.Errorf("%q was taken away", token)
		}
	}
	if err := s.DropStaged("t"); err != nil { // which nothing lies under
		t.Error(err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
}

// etcd reads what its own line wrote, and the line before; across more than that, and
// from version 2 of the API, keys are carried one by one.
func TestWhatReadsWhat(t *testing.T) {
	for _, c := range []struct {
		kind, wrote, run string
		reads, keys      bool
	}{
		{cluster.SourceBackup, "", "3.6.16", true, false},
		{cluster.SourceBackup, "3.6.16", "3.6.16", true, false},
		{cluster.SourceBackup, "3.5.35", "3.6.16", true, false},
		{cluster.SourceBackup, "3.4.25", "3.6.16", false, false},
		{cluster.SourceBackup, "3.6.16", "3.5.35", false, false},
		{cluster.SourceHalted, "3.2.24", "3.6.16", false, true},
		{cluster.SourceHalted, "3.5.35", "3.6.16", true, false},
		{cluster.SourceSurvivor, "2.3.8", "3.2.24", false, true},
		{cluster.SourceSurvivor, "2.3.8", "2.3.8", true, true},
		{cluster.SourceSurvivor, "3.2.24", "2.3.8", false, true},
	} {
		var wrote cluster.Version
		if c.wrote != "" {
			wrote = cluster.MustVersion(c.wrote)
		}
		run := cluster.MustVersion(c.run)
		if got := reads(run, wrote); got != c.reads {
			t.Errorf("etcd %s reads what %q wrote: %v", c.run, c.wrote, got)
		}
		if got := keyByKey(bulk.StageOrder{Version: run, Source: cluster.Source{Kind: c.kind, Wrote: wrote}}); got != c.keys {
			t.Errorf("%s of %q to %s key by key: %v", c.kind, c.wrote, c.run, got)
		}
	}
}

// A backup is restored by the tool of what wrote it, else by the newest of its line, else
// by what is to run it; what was halted, always by what is to run it. Data are read by
// what wrote them, or by the newest of their line.
func TestReleaseThatRestores(t *testing.T) {
	for _, c := range []struct {
		kind, wrote, run string
		here             []string
		tool, line       string
	}{
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.20", "3.5.35", "3.6.16"}, "3.5.20", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.35", "3.5.20", "3.5.36"}, "3.5.20", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.9", "3.5.35", "3.5.22", "3.6.16"}, "3.5.35", "3.5.35"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.6.16", "3.4.25"}, "3.6.16", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.5.30", []string{"3.5.10", "3.5.30"}, "3.5.30", "3.5.30"},
		{cluster.SourceHalted, "3.5.20", "3.6.16", []string{"3.5.20", "3.6.16"}, "3.6.16", "3.5.20"},
		{cluster.SourceSurvivor, "2.3.8", "3.2.24", []string{"2.3.8", "3.2.24"}, "3.2.24", "2.3.8"},
	} {
		var here []cluster.Version
		for _, v := range c.here {
			here = append(here, cluster.MustVersion(v))
		}
		none := &release.Finder{Dirs: []string{t.TempDir()}, Caches: []string{}, Roots: []string{t.TempDir()}}
		s := &Sources{o: Options{Finder: none, Versions: func() []cluster.Version { return here }}}
		wrote := cluster.MustVersion(c.wrote)
		// None of them can be run here, and it is said which one could not be found.
		_, err := s.tool(t.Context(), bulk.StageOrder{Version: cluster.MustVersion(c.run), Source: cluster.Source{Kind: c.kind, Wrote: wrote}})
		if err == nil || !strings.Contains(err.Error(), c.tool) {
			t.Errorf("%+v: the tool is of %v", c, err)
		}
		if _, err := s.ofLine(t.Context(), wrote); err == nil || !strings.Contains(err.Error(), c.line) {
			t.Errorf("%+v: the data are read by %v", c, err)
		}
	}
}

// A snapshot of raft's leader was received when the newest of them was written.
func TestReceived(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sources{o: Options{Disk: disk}}
	if ago := s.Received("t"); ago != 0 {
		t.Errorf("nothing is there: %s", ago)
	}
	snap := filepath.Join(disk.DataDir("t"), "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, ago := range map[string]time.Duration{"1.snap": 3 * time.Hour, "2.snap": time.Hour, "3.snap": 2 * time.Hour, "db": time.Minute} {
		path, at := filepath.Join(snap, name), time.Now().Add(-ago)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if ago := s.Received("t"); ago < time.Hour || ago > 2*time.Hour-time.Minute {
		t.Errorf("it was received %s ago", ago)
	}
}

// What no host can do better is marked so, and nothing else is.
func TestHopelessSources(t *testing.T) {
	for err, want := range map[error]bool{
		backupstore.ErrNoBackup: true, backupstore.ErrDamaged: true, snapshot.ErrDamaged: true, snapshot.ErrNoHash: true,
		backupstore.ErrEncrypted: false, fs.ErrPermission: false,
	} {
		if got := hopeless(fmt.Errorf("fetch it: %w", err)); errors.Is(got, bulk.ErrBadSource) != want || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}
