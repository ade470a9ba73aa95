package handover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/setup"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func look(t *testing.T, c *testetcd.Cluster, manifests string) (*Etcd, Options) {
	t.Helper()
	o := Options{
		From: c.Members[0].DataDir, DataDir: filepath.Join(t.TempDir(), "data"), PKIDir: t.TempDir(), Manifests: manifests,
		Has: func(context.Context, string) error { return nil },
	}
	e, err := Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e, o
}

func held(c *testetcd.Cluster) bool {
	return errors.Is(runtime.CheckUnlocked(c.Members[0].DataDir), runtime.ErrLocked)
}

// It is ended only while every other voter is up, also when one went after the look; and then for good, its data moved, with a
// file in their place.
func TestEndsOnlyWhileTheOthersAreUp(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Members: 3, Version: testetcd.V36})
	e, o := look(t, c, filepath.Join(t.TempDir(), "none"))
	if e.voters != "" || e.Members() != 3 || e.Release().String() != testetcd.V36 {
		t.Fatalf("%+v", e.Checks())
	}
	if err := c.Kill(t.Context(), 2, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); !errors.Is(err, ErrBusy) || !held(c) {
		t.Fatalf("with a voter down: %v", err)
	}
	if again, _ := look(t, c, ""); again.voters == "" {
		t.Error("a voter is down, and no check says so")
	}
	if err := c.Restart(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitHealthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); err != nil || held(c) {
		t.Fatal(err)
	}
	// Interrupted here, the next run finds all that it needs.
	again, err := Look(t.Context(), o)
	if err != nil || !again.Prepared() || again.Settings().HostID() != e.Settings().HostID() {
		t.Fatalf("%v, %+v", err, again)
	}
	for range 2 {
		if err := errors.Join(again.Prepare(), again.Stop(t.Context()), again.Move()); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(o.From, "member")); err != nil || info.IsDir() {
		t.Errorf("nothing keeps the old etcd from an empty directory: %v", err)
	}
	if moved, err := Look(t.Context(), o); err != nil || !moved.plan.Moved() || !moved.Prepared() {
		t.Errorf("after the move: %v", err)
	}
}

// A static pod's manifest is moved away, never over something, and its end is waited for.
func TestEndsStaticPods(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	dir := filepath.Join(t.TempDir(), "kubernetes", "manifests")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "etcd.manifest")
	if err := os.WriteFile(manifest, []byte("command: [etcd, --data-dir="+c.Members[0].DataDir+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, _ := look(t, c, dir)
	if _, stop, _ := e.Words(); !strings.Contains(stop, manifestAside(manifest)) {
		t.Errorf("%s", stop)
	}
	if err := os.WriteFile(manifestAside(manifest), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); err == nil || !held(c) {
		t.Fatalf("over something: %v", err)
	}
	if err := os.Remove(manifestAside(manifest)); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := e.Stop(short); !errors.Is(err, ErrBusy) || !held(c) { // no kubelet ends it
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(manifestAside(manifest)); err != nil {
		t.Error(err)
	}
}

// What is not there is said, with the way out.
func TestNothingToHandOver(t *testing.T) {
	_, err := Look(t.Context(), Options{From: t.TempDir(), DataDir: t.TempDir(), Has: func(context.Context, string) error { return nil }})
	told, is := errors.AsType[*setup.Error](err)
	if !is || !errors.Is(err, ErrNone) || told.Hint() == "" {
		t.Errorf("%v", err)
	}
}

// A host whose etcd is of another cluster than the one that is joined is not handed over.
func TestAmong(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Members: 3, Version: testetcd.V36})
	e, _ := look(t, c, "")
	if err := e.Among(t.Context(), []string{"localhost:8000"}); err != nil {
		t.Error(err)
	}
	if err := e.Among(t.Context(), []string{"192.0.2.1:8000"}); !errors.Is(err, setup.ErrOther) {
		t.Errorf("%v", err)
	}
}
