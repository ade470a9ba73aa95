package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
)

// synced is a store that notes what is synced, and whether there was an object by then.
func synced(t *testing.T, key string) (s *Store, before, after *[]string) {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, after = new([]string), new([]string)
	s.sync = func(f *os.File) error {
		name, err := filepath.Rel(s.dir, f.Name())
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, tempPrefix) {
			name = "the new file"
		}
		if _, err := os.Lstat(filepath.Join(s.dir, key)); err == nil {
			*after = append(*after, name)
		} else {
			*before = append(*before, name)
		}
		return f.Sync()
	}
	return s, before, after
}

// An object that Put has written is there after a power cut, whole, and so are the
// directories that it is in: its content is durable before it has its name, and every
// name by the time that Put returns. One that Delete took away stays away.
func TestObjectsAreDurable(t *testing.T) {
	for what, size := range map[string]int{"small": 100, "large": 3*hashedSize + 7} {
		s, before, after := synced(t, "a/b/c")
		if _, err := s.Put(t.Context(), "a/b/c", strings.NewReader(strings.Repeat("x", size)), blob.Any); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"the new file", ".", "a"} {
			if !slices.Contains(*before, want) {
				t.Errorf("%s: %q was not synced before the object had its name, only %q", what, want, *before)
			}
		}
		if !slices.Equal(*after, []string{"a/b"}) {
			t.Errorf("%s: after the object has its name %q is synced", what, *after)
		}
		*before = nil
		if err := s.Delete(t.Context(), "a/b/c"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*before, []string{"."}) {
			t.Errorf("%s: once it is gone %q is synced", what, *before)
		}
	}
}

// What cannot be made durable was not written, as far as Put knows.
func TestSyncThatFails(t *testing.T) {
	for _, fail := range []string{tempPrefix, "/a", "/a/b"} {
		s, _, _ := synced(t, "a/b/c")
		s.sync = func(f *os.File) error {
			if strings.HasSuffix(f.Name(), fail) || strings.HasPrefix(filepath.Base(f.Name()), fail) {
				return errors.New("the disk is broken")
			}
			return f.Sync()
		}
		for _, size := range []int{100, hashedSize + 1} {
			if _, err := s.Put(t.Context(), "a/b/c", strings.NewReader(strings.Repeat("x", size)), blob.Any); err == nil {
				t.Errorf("%s cannot be synced, and that is no error", fail)
			}
			if err := s.Delete(context.WithoutCancel(t.Context()), "a/b/c"); err != nil && fail == tempPrefix {
				t.Error(err)
			}
		}
	}
}

// A directory that is there, and that a process which was killed had made, is made
// durable with the first object that is written into it.
func TestParentsOfAnother(t *testing.T) {
	s, before, _ := synced(t, "a/b/c")
	if err := os.MkdirAll(filepath.Join(s.dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/b/c", strings.NewReader("x"), blob.Any); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".", "a"} {
		if !slices.Contains(*before, want) {
			t.Errorf("%q was not synced, only %q", want, *before)
		}
	}
}

// The directory of a new store is durable, with those above it that were made, and so is what a process that was killed had
// made of them.
func TestNewStoreIsDurable(t *testing.T) {
	for made, want := range map[string][]string{"": {"..", ".", "x", "x/y"}, "x": {".", "x", "x/y"}, "x/y": {"x", "x/y"}, "x/y/z": {"x/y"}} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
		var synced []string
		s := &Store{dir: filepath.Join(dir, "x", "y", "z"), sync: func(f *os.File) error {
			name, err := filepath.Rel(dir, f.Name())
			synced = append(synced, name)
			return errors.Join(err, f.Sync())
		}}
		err := s.look(Options{Create: true})
		if synced = slices.Compact(synced); err != nil || !slices.Equal(synced, want) {
			t.Errorf("with %q there: synced %q, want %q, %v", made, synced, want, err)
		}
	}
}

// A store whose name cannot be made durable holds nothing that is, unless it is only read.
func TestNewStoreThatIsNotDurable(t *testing.T) {
	s := &Store{dir: t.TempDir(), sync: func(*os.File) error { return errors.New("the disk is broken") }}
	if err := s.look(Options{}); err == nil {
		t.Error("it can be used")
	}
	if err := s.look(Options{ReadOnly: true}); err != nil {
		t.Error(err)
	}
	s.dir = filepath.Join(s.dir, "new")
	if err := s.look(Options{Create: true}); err == nil {
		t.Error("a new one can be used")
	}
}

// What takes no sync of directories, and a mount point, are used as they are.
func TestStoreThatCannotBeSynced(t *testing.T) {
	s := &Store{dir: t.TempDir(), sync: func(*os.File) error { return &os.PathError{Op: "sync", Err: unix.EINVAL} }}
	if err := s.look(Options{}); err != nil {
		t.Error(err)
	}
	s = &Store{dir: "/dev/shm", sync: func(*os.File) error { return errors.New("the disk is broken") }}
	if !isMountPoint(s.dir, "/dev") || unix.Access("/dev", unix.W_OK) != nil {
		t.Skip("/dev/shm is no mount point here, or this user may not write above it")
	}
	if err := s.look(Options{}); err != nil {
		t.Error(err)
	}
}
