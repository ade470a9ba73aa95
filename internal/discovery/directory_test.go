package discovery

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantSeeds(t *testing.T, source Seeds, want ...Seed) error {
	t.Helper()
	got, err := source.Seeds(t.Context())
	if len(got) == 0 {
		got = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seeds, with error %v (-want +got):\n%s", err, diff)
	}
	return err
}

func TestDirectory(t *testing.T) {
	dir := Directory{Path: filepath.Join(t.TempDir(), "not", "yet"), DefaultPort: 8000}
	if err := wantSeeds(t, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	b, a, odd := Seed{"host-b", "10.0.0.2:3996"}, Seed{"host-a", "[2001:db8::1]:3996"}, Seed{"../proj/vol", "host-c:3996"}
	for _, seed := range []Seed{b, a, odd, a} {
		if err := dir.Announce(t.Context(), seed); err != nil {
			t.Fatal(err)
		}
	}
	if err := wantSeeds(t, dir, odd, a, b); err != nil {
		t.Error(err)
	}
	moved := Seed{"host-a", "10.0.0.9:3996"}
	if err := dir.Announce(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if err := wantSeeds(t, dir, odd, moved, b); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir.Path, "host-b")); err != nil || string(data) != `{"id":"host-b","endpoints":[{"ip":"10.0.0.2","port":3996}]}` {
		t.Errorf("the file holds %s, %v", data, err)
	}

	// What others left there is named, once each, and the rest is read.
	write(t, filepath.Join(dir.Path, "half"), `{"id":"half","end`)
	write(t, filepath.Join(dir.Path, "README"), "Seeds are in this directory.")
	write(t, filepath.Join(dir.Path, "host-b.bak"), `{"id":"host-b","endpoints":[{"ip":"10.0.0.3","port":3996}]}`)
	write(t, filepath.Join(dir.Path, "big"), strings.Repeat(" ", maxEntry+1))
	write(t, filepath.Join(dir.Path, ".tmp-x"), `{"id":"`)
	if err := os.Mkdir(filepath.Join(dir.Path, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir.Path, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir.Path, "link")); err != nil {
		t.Fatal(err)
	}
	err := wantSeeds(t, dir, odd, moved, b)
	if err == nil {
		t.Fatal("foreign files are not told")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{`"half"`, `"README"`, `"host-b.bak"`, `"big"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d complaints:\n%v", len(lines), err)
	}

	if err := dir.Announce(t.Context(), Seed{"", "10.0.0.1:1"}); err == nil {
		t.Error("announced a host without an ID")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dir.Announce(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("announce after the end: %v", err)
	}
	if _, err := dir.Seeds(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("seeds after the end: %v", err)
	}
}

// A reader never sees half of an announcement, however often it is changed.
func TestDirectoryAtomic(t *testing.T) {
	dir := Directory{Path: t.TempDir()}
	versions := []Seed{{"a", "10.0.0.1:1"}, {"a", "a-much-longer-name.of-the-same-host.example.com:65535"}}
	if err := dir.Announce(t.Context(), versions[0]); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		defer close(stop)
		for i := range 100 {
			if err := dir.Announce(t.Context(), versions[i%2]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer writing.Wait()
	for {
		got, err := dir.Seeds(t.Context())
		if err != nil || len(got) != 1 || got[0] != versions[0] && got[0] != versions[1] {
			t.Errorf("saw %v, %v", got, err)
			return
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

func TestAddresses(t *testing.T) {
	source := Addresses{Path: t.TempDir(), Port: 3996}
	if err := wantSeeds(t, source); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"10.0.0.2", "10.0.0.1", "2001:db8::1", "README", ".hidden", "0.0.0.0"} {
		write(t, filepath.Join(source.Path, name), "")
	}
	err := wantSeeds(t, source, Seed{"", "10.0.0.1:3996"}, Seed{"", "10.0.0.2:3996"}, Seed{"", "[2001:db8::1]:3996"})
	if err == nil || !strings.Contains(err.Error(), `"README"`) || !strings.Contains(err.Error(), `"0.0.0.0"`) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("foreign files: %v", err)
	}
}

// await takes notes from a watch until the condition holds. The time is only a bound for a broken watch.
func await(t *testing.T, changes <-chan struct{}, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for !holds() {
		select {
		case _, ok := <-changes:
			if !ok {
				t.Fatalf("%s: the watch ended", what)
			}
		case <-timeout:
			t.Fatalf("%s: no event came", what)
		}
	}
}

// testWatch walks a directory through its life; it does not matter how the watch learns of it.
func testWatch(t *testing.T, dir Directory, watch func(context.Context) <-chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := watch(ctx)
	sees := func(want ...Seed) func() bool {
		return func() bool {
			got, _ := dir.Seeds(t.Context())
			return cmp.Equal(got, want) || len(got) == 0 && len(want) == 0
		}
	}
	announce := func(seed Seed) {
		if err := dir.Announce(t.Context(), seed); err != nil {
			t.Fatal(err)
		}
	}
	a, a2, b := Seed{"a", "10.0.0.1:1"}, Seed{"a", "10.0.0.1:2"}, Seed{"b", "10.0.0.2:1"}
	await(t, changes, "the first note", func() bool { return true })
	announce(a)
	await(t, changes, "the directory is made", sees(a))
	announce(b)
	await(t, changes, "a newcomer", sees(a, b))
	announce(a2)
	await(t, changes, "another address", sees(a2, b))
	if err := os.Remove(filepath.Join(dir.Path, "b")); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "one goes", sees(a2))
	if err := os.Rename(dir.Path, dir.Path+"-away"); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "the directory goes", sees())
	announce(b)
	await(t, changes, "another directory of that name", sees(b))
	announce(a)
	await(t, changes, "a newcomer in it", sees(a, b))
	// A tool that writes in place, in two steps.
	f, err := os.Create(filepath.Join(dir.Path, "c"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, part := range []string{`{"id":"c","endpoints":[{"ip":"10.0`, `.0.3","port":1}]}`} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
	}
	await(t, changes, "a file written in place", sees(a, b, Seed{"c", "10.0.0.3:1"}))
	cancel()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("the watch does not end")
		}
	}
}

// Events alone are enough: the poll comes too late to help.
func TestWatchByEvents(t *testing.T) {
	dir := Directory{Path: filepath.Join(t.TempDir(), "discovery"), Poll: time.Hour}
	testWatch(t, dir, dir.Watch)
}

// Where the system gives no events, polling finds every change.
func TestWatchByPolling(t *testing.T) {
	dir := Directory{Path: filepath.Join(t.TempDir(), "discovery")}
	testWatch(t, dir, func(ctx context.Context) <-chan struct{} {
		w := &directoryWatch{path: dir.Path, changes: make(chan struct{}, 1), deaf: true}
		go func() {
			defer close(w.changes)
			w.run(ctx, 5*time.Millisecond)
		}()
		return w.changes
	})
}
