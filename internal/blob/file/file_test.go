package file_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/file"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return openStore(t, t.TempDir()) })
}

func openStore(t *testing.T, dir string) *file.Store {
	t.Helper()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func put(t *testing.T, store blob.Store, key, data string, cond blob.Condition) blob.ETag {
	t.Helper()
	tag, err := blob.PutBytes(t.Context(), store, key, []byte(data), cond)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func keys(t *testing.T, store blob.Store, prefix string) []string {
	t.Helper()
	infos, err := store.List(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

// hinted checks that an error is one clear sentence with a hint.
func hinted(t *testing.T, err error, want string) {
	t.Helper()
	e, ok := errors.AsType[*blob.Error](err)
	if !ok || !strings.Contains(err.Error(), want) || e.Hint() == "" {
		t.Errorf("%v, want a *blob.Error with a hint and %q", err, want)
	}
	if errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v passes for a missing object", err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"relative/path":               "not an absolute path",
		"":                            "not an absolute path",
		"/":                           "root directory",
		plain:                         "not a directory",
		filepath.Join(plain, "below"): "not a directory",
		filepath.Join(dir, "none"):    "does not exist",
		"/proc/self/none":             "does not exist",
	} {
		_, err := file.Open(t.Context(), path, file.Options{})
		hinted(t, err, want)
	}
	_, err := file.Open(t.Context(), filepath.Join(dir, "none"), file.Options{Create: true, ReadOnly: true})
	hinted(t, err, "does not exist")
	_, err = file.Open(t.Context(), "/proc/none", file.Options{Create: true})
	hinted(t, err, "create the directory")

	deep := filepath.Join(dir, "a", "b", "c")
	if _, err := file.Open(t.Context(), deep, file.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(deep); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	// A link to the store is the store.
	link := filepath.Join(dir, "link")
	if err := os.Symlink(deep, link); err != nil {
		t.Fatal(err)
	}
	store := openStore(t, link)
	put(t, store, "x/y", "1", blob.IfAbsent)
	if got := keys(t, store, ""); !slices.Equal(got, []string{"x/y"}) {
		t.Errorf("through a link: %q", got)
	}
}

// A store whose disk went away is an error, never an empty store, and it is not made anew.
func TestStoreVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store, err := file.Open(t.Context(), dir, file.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, "control/marker", "1", blob.IfAbsent)
	if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	_, _, err = blob.ReadAll(t.Context(), store, "control/marker", 10)
	hinted(t, err, "does not exist")
	_, err = store.List(t.Context(), "")
	hinted(t, err, "does not exist")
	_, err = blob.PutBytes(t.Context(), store, "control/marker", []byte("2"), blob.IfAbsent)
	hinted(t, err, "does not exist")
	hinted(t, store.Delete(t.Context(), "control/marker"), "does not exist")
	if err := os.Rename(dir+"-elsewhere", dir); err != nil {
		t.Fatal(err)
	}
	if data, _, err := blob.ReadAll(t.Context(), store, "control/marker", 10); err != nil || string(data) != "1" {
		t.Errorf("after it came back: %q, %v", data, err)
	}
}

// Nothing is known of the objects of a store in whose place there is something else.
func TestStoreIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store, err := file.Open(t.Context(), dir, file.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	put(t, store, "a", "1", blob.Any)
	if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = blob.ReadAll(t.Context(), store, "a", 10)
	hinted(t, err, "not a directory")
	_, err = store.List(t.Context(), "")
	hinted(t, err, "not a directory")
	_, err = blob.PutBytes(t.Context(), store, "a", []byte("2"), blob.IfAbsent)
	hinted(t, err, "not a directory")
	hinted(t, store.Delete(t.Context(), "a"), "not a directory")
	_, err = file.Open(t.Context(), filepath.Join(dir, "below"), file.Options{Create: true})
	hinted(t, err, "not a directory")
}

// What stands in the lock's file is repeated to a person only as far as it is one line for
// a terminal.
func TestHolderSigned(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "a", "1", blob.Any)
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	const nobody = "a process that did not sign"
	for signed, want := range map[string]string{
		"process 7 (~ !) on host h\nrest": "process 7 (~ !) on host h",
		"process 7":                       nobody,
		"":                                nobody,
		"process \x1b[2J\n":               nobody,
		"process \x1f\n":                  nobody,
		"process \x7f\n":                  nobody,
		"process \u00e9\n":                nobody,
		strings.Repeat("x", 600) + "\n":   nobody,
	} {
		if err := os.WriteFile(filepath.Join(dir, ".lock"), []byte(signed), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := blob.PutBytes(ctx, store, "a", []byte("2"), blob.Any)
		cancel()
		told, ok := errors.AsType[*blob.Error](err)
		if !ok || !strings.Contains(told.Hint(), "take it was "+want+";") {
			t.Errorf("signed %q: %v", signed, err)
			if ok {
				t.Log(told.Hint())
			}
		}
	}
}

// What else lies in the directory is neither listed nor touched, and nothing leads outside.
func TestForeignFiles(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	store := openStore(t, dir)
	put(t, store, "real/object", "1", blob.IfAbsent)
	for path, data := range map[string]string{
		filepath.Join(outside, "secret"):      "secret",
		filepath.Join(dir, ".tmp-other"):      "half wri",
		filepath.Join(dir, "bad\nname"):       "",
		filepath.Join(dir, "real", "\xffbad"): "",
		filepath.Join(dir, "by-hand"):         "kops wrote this",
	} {
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "out-file": filepath.Join(outside, "secret"), "in": "real", "in-file": "real/object", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, store, ""); !slices.Equal(got, []string{"by-hand", "real/object"}) {
		t.Errorf("list: %q", got)
	}
	for _, prefix := range []string{"in/", "out/", "empty/", "pipe/", "by-hand/"} {
		if got := keys(t, store, prefix); len(got) != 0 {
			t.Errorf("list %q: %q", prefix, got)
		}
	}
	for key, want := range map[string]string{"by-hand": "kops wrote this", "in-file": "1", "in/object": "1"} {
		if data, _, err := blob.ReadAll(t.Context(), store, key, 100); err != nil || string(data) != want {
			t.Errorf("read %q: %q, %v", key, data, err)
		}
	}
	for _, key := range []string{"out/secret", "out-file"} {
		if data, _, err := blob.ReadAll(t.Context(), store, key, 100); err == nil || errors.Is(err, blob.ErrNotFound) {
			t.Errorf("read %q: %q, %v", key, data, err)
		}
	}
	if _, err := blob.PutBytes(t.Context(), store, "out/new", nil, blob.Any); err == nil {
		t.Error("wrote outside of the store")
	}
	if _, _, err := blob.ReadAll(t.Context(), store, "pipe", 100); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("read of a pipe: %v", err)
	}
	for _, key := range []string{".lock", ".tmp-other", ".lock/x", ".tmp-/x"} {
		if _, _, err := blob.ReadAll(t.Context(), store, key, 100); !errors.Is(err, blob.ErrInvalidKey) {
			t.Errorf("read %q: %v", key, err)
		}
		if err := store.Delete(t.Context(), key); !errors.Is(err, blob.ErrInvalidKey) {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if _, err := blob.PutBytes(t.Context(), store, "real", nil, blob.Any); err == nil || !strings.Contains(err.Error(), "directory of that name") {
		t.Errorf("put on a directory: %v", err)
	}
	if _, err := blob.PutBytes(t.Context(), store, "by-hand/below", nil, blob.Any); err == nil {
		t.Error("put below a file succeeded")
	}
	noTemporary(t, dir, ".tmp-other")
}

// noTemporary checks that no temporary file is left but the given ones.
func noTemporary(t *testing.T, dir string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".tmp-") && !slices.Contains(but, entry.Name()) {
			t.Errorf("%s was left", entry.Name())
		}
	}
}

// A file that others write in place under us gets another ETag, also when size and time stay the same.
func TestForeignWriteChangesETag(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	tag := put(t, store, "spec", "3", blob.Any)
	path := filepath.Join(dir, "spec")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), store, "spec", []byte("7"), blob.IfMatch(tag)); !errors.Is(err, blob.ErrPreconditionFailed) {
		t.Errorf("put over the write of another: %v", err)
	}
}

// Writing back equal bytes gives another ETag, even when the clock stands still or the file is from the future.
func TestETagNeverReturns(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "a", "same", blob.Any)
	future := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "a"), future, future); err != nil {
		t.Fatal(err)
	}
	seen, last := map[blob.ETag]bool{}, future
	for range 20 {
		tag := put(t, store, "a", "same", blob.Any)
		if seen[tag] {
			t.Fatalf("ETag %q came twice", tag)
		}
		seen[tag] = true
		info, err := os.Stat(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().After(last) {
			t.Fatalf("modified at %v, and again at %v", last, info.ModTime())
		}
		last = info.ModTime()
	}
}

// While another holds the lock, a write waits as long as its context allows, and reads do not wait.
func TestLockedByAnother(t *testing.T) {
	dir := t.TempDir()
	store, other := openStore(t, dir), openStore(t, dir)
	put(t, store, "a", "1", blob.Any)
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := blob.PutBytes(ctx, store, "a", []byte("2"), blob.Any); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put: %v", err)
	}
	noTemporary(t, dir)
	if data, _, err := blob.ReadAll(t.Context(), store, "a", 10); err != nil || string(data) != "1" {
		t.Errorf("read: %q, %v", data, err)
	}
	// A condition that cannot hold is told without the lock.
	if _, err := blob.PutBytes(t.Context(), store, "a", nil, blob.IfAbsent); !errors.Is(err, blob.ErrPreconditionFailed) {
		t.Errorf("put if absent: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := blob.PutBytes(t.Context(), other, "a", []byte("3"), blob.Any)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a write passed the lock: %v", err)
	case <-time.After(50 * time.Millisecond): // there is no event for a write that does not happen
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// A lock on a file that is .lock no more keeps nobody out, so it is not relied on.
func TestLockFileReplaced(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "a", "1", blob.Any)
	if err := os.Remove(filepath.Join(dir, ".lock")); err != nil {
		t.Fatal(err)
	}
	put(t, store, "a", "2", blob.Any)
	if _, err := os.Stat(filepath.Join(dir, ".lock")); err != nil {
		t.Error(err)
	}
}

// Temporary files of crashed writers go after an hour; those of living ones, and young ones, stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for name, modified := range map[string]time.Time{".tmp-crashed": old, ".tmp-alive": old, ".tmp-young": time.Now()} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := os.Open(filepath.Join(dir, ".tmp-alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := unix.Flock(int(alive.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	put(t, openStore(t, dir), "a", "1", blob.Any)
	noTemporary(t, dir, ".tmp-alive", ".tmp-young")
	for _, name := range []string{".tmp-alive", ".tmp-young"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// What holds the cluster's data is for its owner only.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	put(t, openStore(t, dir), "2026/backup", "1", blob.Any)
	for path, want := range map[string]fs.FileMode{"2026": 0o700, "2026/backup": 0o600, ".lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
	}
}

// Deleting the last object of a folder takes the empty folders along, but never the root.
func TestDeleteTidies(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	put(t, store, "a/b/c", "1", blob.Any)
	if err := store.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is still there: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// A directory that this user may not write to is told at once, and can still be read.
func TestNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs a user other than root, whom modes do not stop")
	}
	dir := t.TempDir()
	put(t, openStore(t, dir), "a", "1", blob.Any)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	_, err := file.Open(t.Context(), dir, file.Options{Create: true})
	hinted(t, err, "may not write to the directory: permission denied")
	store, err := file.Open(t.Context(), dir, file.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := blob.ReadAll(t.Context(), store, "a", 10); err != nil || string(data) != "1" {
		t.Errorf("%q, %v", data, err)
	}
	_, err = blob.PutBytes(t.Context(), store, "a", []byte("2"), blob.Any)
	hinted(t, err, "permission denied")
	_, err = blob.Probe(t.Context(), store, "")
	hinted(t, err, "permission denied")
	_, err = file.Open(t.Context(), filepath.Join(dir, "below"), file.Options{Create: true})
	hinted(t, err, "create the directory: permission denied")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	_, err = file.Open(t.Context(), dir, file.Options{ReadOnly: true})
	hinted(t, err, "may not read the directory: permission denied")
	_, err = store.List(t.Context(), "")
	hinted(t, err, "permission denied")
}

// A listing that fails says of which store.
func TestListingThatFailsNamesTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx, ""); !errors.Is(err, context.Canceled) || err.Error() != "list store "+file.URL(dir)+": context canceled" {
		t.Error(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), ""); err == nil || strings.Count(err.Error(), dir) != 1 {
		t.Errorf("it names itself once: %v", err)
	}
}
