package v1alpha1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// What is generated of the types is what is committed: go generate ./api/...
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "controller-gen", "object:headerFile=boilerplate.txt", "paths=.",
		"crd:generateEmbeddedObjectMeta=false", "output:object:dir="+dir, "output:crd:dir="+dir)
	cmd.WaitDelay = time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		at := filepath.Join("../../config/crd", filepath.Base(file))
		if filepath.Ext(file) == ".go" {
			at = filepath.Base(file)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(at); err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s is not what the types say: run go generate ./api/... (%v)", at, err)
		}
	}
}

// A length of time that the API server let through can be read.
func TestDurations(t *testing.T) {
	for text, want := range map[Duration]time.Duration{"": time.Minute, "90s": 90 * time.Second, "1d": 24 * time.Hour, "1h30m": 90 * time.Minute} {
		if got := text.Or(time.Minute); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
	if got := Duration("99999999y").Or(0); got < 200*365*24*time.Hour {
		t.Errorf("a length of time beyond all bounds is %s", got)
	}
}
