package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/say"
	"etcdadm.io/internal/testlog"
	"etcdadm.io/internal/teststill"
)

// A directory of releases on a hung mount is told and passed over; the releases
// elsewhere are found, and what was found in it before still counts as there.
func TestReleasesBesideAMountThatStandsStill(t *testing.T) {
	t.Parallel()
	still, dir := teststill.Mount(t), t.TempDir()
	program := filepath.Join(dir, "v3.6.16", "etcd")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho etcd Version: 3.6.16\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var said testlog.Lines
	v35, v36 := cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16")
	i := &inventory{
		finder: &release.Finder{Dirs: []string{still, dir}, Roots: []string{t.TempDir()}},
		log:    slog.New(slog.NewTextHandler(&said, nil)), said: say.NewOnce(slog.New(slog.NewTextHandler(&said, nil))), found: []cluster.Version{v35},
	}
	looked := make(chan struct{})
	go func() { i.look(t.Context()); close(looked) }()
	select {
	case <-looked:
	case <-time.After(time.Minute): // far more than its bound
		t.Fatal("the look stands still, too")
	}
	if got := i.versions(); len(got) != 2 || got[0] != v35 || got[1] != v36 {
		t.Errorf("found %v", got)
	}
	if !strings.Contains(said.String(), "the disk or mount of "+still+" has not answered since") {
		t.Errorf("said:\n%s", &said)
	}
}
