package durable

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSweepTakesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	f, err := os.CreateTemp(dir, "."+"state.json"+".*.tmp") // as publish names it
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	keep := []string{
		"state.json", "state.json.1.tmp", ".state.json.tmp", ".state.json.x1.tmp", ".state.json.1.tmp~", "..1.tmp", ".1.tmp", ".state.json..tmp",
		".other.conf.12.tmp", // ours by its form, and not of what the directory holds
	}
	for _, name := range keep {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".state.json.7.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("state.json", filepath.Join(dir, ".state.json.8.tmp")); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, ".state.json.7.tmp", ".state.json.8.tmp")
	removed, err := OS().Sweep(dir, "*.json")
	if err != nil || !slices.Equal(removed, []string{f.Name()}) {
		t.Errorf("removed %v, %v, want %s", removed, err, f.Name())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(keep)
	if !slices.Equal(left, keep) {
		t.Errorf("left %v, want %v", left, keep)
	}
	// Whatever is asked for, only what has the form of a new file is taken.
	if removed, err := OS().Sweep(dir, "*"); err != nil || !slices.Equal(removed, []string{filepath.Join(dir, ".other.conf.12.tmp")}) {
		t.Errorf("of all: removed %v, %v", removed, err)
	}
	if removed, err := OS().Sweep(filepath.Join(dir, "none"), "*"); err != nil || removed != nil {
		t.Errorf("of a directory that is not there: %v, %v", removed, err)
	}
}
