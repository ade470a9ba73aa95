package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/say"
)

// A release that is put into its place is found within ten seconds, a leader's look every
// seven included, and wakes the leader.
func TestAReleaseIsFoundSoon(t *testing.T) {
	if relook > 7*time.Second {
		t.Errorf("a host looks every %s only", relook)
	}
	dir, told := t.TempDir(), make(chan struct{}, 9)
	i := &inventory{log: slog.New(slog.DiscardHandler), said: say.NewOnce(slog.New(slog.DiscardHandler)), finder: &release.Finder{Dirs: []string{dir}, Caches: []string{}, Roots: []string{t.TempDir()}}, changed: func() { told <- struct{}{} }}
	i.look(t.Context())
	if len(told) > 0 || len(i.versions()) > 0 {
		t.Fatalf("there is nothing yet, and it has %v", i.versions())
	}
	v := cluster.MustVersion("3.6.16")
	at := filepath.Join(dir, "etcd-v"+v.String())
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "etcd"), []byte("#!/bin/sh\necho etcd Version: 3.6.16\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.at = i.at.Add(-relook)
	i.mu.Unlock()
	i.versions()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody is told of it")
	}
	if !slices.Contains(i.versions(), v) {
		t.Errorf("it has %v", i.versions())
	}
}
