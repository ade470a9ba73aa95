package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/say"
)

// A look that takes longer than whoever asked goes on, and the next question has what it finds.
func TestReleasesAreLookedForOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := filepath.Join(dir, "etcd-v3.6.99-linux-"+runtime.GOARCH)
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(place, "etcd"), []byte("#!/bin/sh\nsleep 3\necho etcd Version: 3.6.99\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &daemon{id: "a", log: slog.New(slog.DiscardHandler)}
	d.releases = &inventory{finder: &release.Finder{Dirs: []string{dir}}, log: d.log, said: say.NewOnce(d.log)}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got := d.releasesHere(ctx); !got.Looking || got.Unknown == "" || got.Host != "a" {
		t.Errorf("%+v", got)
	}
	got := d.releasesHere(t.Context())
	for got.Looking && time.Since(began) < time.Minute {
		got = d.releasesHere(t.Context())
	}
	if len(got.Found) == 0 || got.Found[len(got.Found)-1].Version != "3.6.99" || got.Unknown != "" {
		t.Errorf("%+v", got)
	}
}
