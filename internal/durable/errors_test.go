package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// failing fails at one step, by its name.
type failing struct {
	osFiles
	at string
}

var errStep = errors.New("input/output error")

func (f failing) fails(step string) error {
	if f.at == step {
		return errStep
	}
	return nil
}

func (f failing) Temp(dir, pattern string) (File, error) {
	if err := f.fails("temp"); err != nil {
		return nil, err
	}
	file, err := f.osFiles.Temp(dir, pattern)
	return failingFile{file, f}, err
}

func (f failing) Rename(from, to string) error {
	return errors.Join(f.fails("expose"), f.osFiles.Rename(from, to))
}

func (f failing) Link(from, to string) error {
	return errors.Join(f.fails("expose"), f.osFiles.Link(from, to))
}

func (f failing) SyncDir(dir string) error {
	return errors.Join(f.fails("sync of the directory"), f.osFiles.SyncDir(dir))
}

func (f failing) Mkdir(path string, mode fs.FileMode) error {
	if f.at == filepath.Base(path) {
		return errStep
	}
	return f.osFiles.Mkdir(path, mode)
}

type failingFile struct {
	File
	failing
}

func (f failingFile) Write(p []byte) (int, error) {
	if err := f.fails("write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f failingFile) Chmod(mode fs.FileMode) error {
	return errors.Join(f.fails("chmod"), f.File.Chmod(mode))
}
func (f failingFile) Sync() error  { return errors.Join(f.fails("sync"), f.File.Sync()) }
func (f failingFile) Close() error { return errors.Join(f.fails("close"), f.File.Close()) }

// Whatever fails is an error, and what fails before the new file has its name leaves
// the old bytes there and nothing beside them.
func TestWhatFailsIsAnError(t *testing.T) {
	for _, step := range []string{"temp", "write", "chmod", "sync", "close", "expose", "sync of the directory"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := Replace(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := On(failing{at: step})
		if err := d.Replace(path, []byte("new"), 0o600); !errors.Is(err, errStep) {
			t.Errorf("%s: Replace: %v", step, err)
		}
		got, err := os.ReadFile(path)
		if exposed := step == "expose" || step == "sync of the directory"; err != nil || !exposed && string(got) != "old" {
			t.Errorf("%s: the file holds %q, %v", step, got, err)
		}
		if err := d.Create(filepath.Join(dir, "g"), []byte("new"), 0o600); !errors.Is(err, errStep) {
			t.Errorf("%s: Create: %v", step, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "f" && e.Name() != "g" {
				t.Errorf("%s: %s is left", step, e.Name())
			}
		}
	}
}

// All that is missing on the way is made, what is there is no error, and what cannot
// be made is one: for a directory above as well, and where a file is in the way.
func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b", "c")
	for range 2 {
		if err := OS().MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(deep); err != nil || !info.IsDir() {
		t.Fatalf("%v, %v", info, err)
	}
	if err := On(failing{at: "x"}).MkdirAll(filepath.Join(root, "x", "y"), 0o700); !errors.Is(err, errStep) {
		t.Errorf("below one that cannot be made: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := OS().MkdirAll(filepath.Join(root, "f"), 0o700); err == nil {
		t.Error("a file was taken for a directory")
	}
}
