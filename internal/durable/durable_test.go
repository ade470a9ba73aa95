package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceAndCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Create(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("two"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second Create: %v, want fs.ErrExist", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "one" {
		t.Fatalf("file holds %q", got)
	}
	if err := Replace(path, []byte("three"), 0o640); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v files are left, %v: want the one", entries, err)
	}
}

func TestReplaceInMissingDirectoryFails(t *testing.T) {
	if err := Replace(filepath.Join(t.TempDir(), "no", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v, want fs.ErrNotExist", err)
	}
}

func TestSameTroubleSoundsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "f")
	first, second := Replace(path, nil, 0o600), Replace(path, nil, 0o600)
	if first.Error() != second.Error() || first.Error() != "write "+path+": no such file or directory" {
		t.Fatalf("%q, then %q", first, second)
	}
}
