package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// A snapshot of a member that was killed has all that it acknowledged; of one that runs none is made.
func TestSnapshotExtract(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	client := c.Client(t)
	for n := range 20 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("key-%d", n), "x"); err != nil {
			t.Fatal(err)
		}
	}
	m := c.Members[0]
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	args := []string{"snapshot", "extract", m.DataDir, file, "--release-dir", cache, "-o", "json"}
	if code, out, errs := runEtcdadm(args...); code != ExitUnsafe || !strings.Contains(errs, "snapshot save") {
		t.Errorf("of a member that runs: %d %s %s", code, out, errs)
	}
	if err := c.Kill(t.Context(), 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runEtcdadm(args...)
	var done extractedFile
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != ExitOK || done.Info.Keys != 20 || done.Survivor.Last.Index == 0 {
		t.Fatalf("%d %v: %s%s", code, err, out, errs)
	}
	if code, _, errs := runEtcdadm("snapshot", "status", file); code != ExitOK {
		t.Error(errs)
	}
	if code, _, errs := runEtcdadm("snapshot", "extract", t.TempDir(), file); code != ExitUsage || !strings.Contains(errs, "has no member's data") {
		t.Errorf("of nothing: %d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(m.DataDir, "member")); err != nil {
		t.Error(err)
	}
}
