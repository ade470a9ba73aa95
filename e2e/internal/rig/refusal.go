package rig

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

// Tree is what a directory holds: each path with its kind and content. The
// lock of a state directory is left out: taking it is how a daemon looks; and so
// is that of a store, in which each writer says who it is, and the word beside the
// data directory of why the daemon ended.
func Tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasSuffix(path, "/etcdadm/lock") || strings.HasSuffix(path, ".refused.json") || d.Name() == ".lock" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out[path] = fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func SameTree(t *testing.T, before, after map[string]string) {
	t.Helper()
	var changes []string
	for path, was := range before {
		if is, there := after[path]; !there {
			changes = append(changes, "gone: "+path)
		} else if is != was {
			changes = append(changes, "changed: "+path)
		}
	}
	for path := range after {
		if _, was := before[path]; !was {
			changes = append(changes, "new: "+path)
		}
	}
	sort.Strings(changes)
	if len(changes) > 0 {
		t.Errorf("a refusal changed files:\n  %s", strings.Join(changes, "\n  "))
	}
}

// withoutStatus leaves out what the daemon that leads writes meanwhile.
func withoutStatus(tree map[string]string) map[string]string {
	maps.DeleteFunc(tree, func(path, _ string) bool { return filepath.Base(path) == "etcdadm-status.json" })
	return tree
}

// Refused runs a daemon that must not come up: it ends by itself, not with 0,
// with one sentence that has the words and a hint, and changes nothing in the
// directories.
func (h *Host) Refused(words string, unchanged ...string) {
	t := h.C.T
	t.Helper()
	before := map[string]map[string]string{}
	for _, dir := range unchanged {
		before[dir] = withoutStatus(Tree(t, dir))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(Programs, "etcd-manager"), h.Arguments()...)
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	var sentences, hints []string
	for line := range strings.Lines(string(said)) {
		switch {
		case strings.HasPrefix(line, "etcd-manager: "):
			sentences = append(sentences, line)
		case strings.HasPrefix(line, "  hint: "):
			hints = append(hints, line)
		}
	}
	switch {
	case ctx.Err() != nil:
		t.Errorf("the daemon comes up instead of refusing %q:\n%s", words, said)
	case err == nil:
		t.Errorf("the daemon ends with 0:\n%s", said)
	case len(sentences) != 1 || !strings.Contains(sentences[0], words):
		t.Errorf("want one sentence with %q:\n%s", words, said)
	case len(hints) != 1:
		t.Errorf("want one hint:\n%s", said)
	}
	for _, dir := range unchanged {
		SameTree(t, before[dir], withoutStatus(Tree(t, dir)))
	}
}
