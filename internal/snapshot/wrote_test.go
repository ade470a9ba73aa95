package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// A database of every release says which line wrote it, also without its hash.
func TestWrote(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		c := testetcd.Start(t, testetcd.Config{Version: version})
		client := c.Client(t)
		put(t, client, "a", "1")
		file := filepath.Join(t.TempDir(), "snapshot.db")
		save(t, client, file)
		want := cluster.MustVersion(version)
		want.Patch = 0
		if got := Wrote(file); got != want {
			t.Errorf("etcd %s wrote it, and it says %s", version, got)
		}
		var n Newest
		data, err := os.ReadFile(file)
		must(t, err)
		_, _ = n.Write(data)
		if revision, ok := n.Revision(); !ok || revision != 2 {
			t.Errorf("it goes to revision %d, %t", revision, ok)
		}
	})
	for _, content := range []string{"", "nothing of the kind"} {
		file := filepath.Join(t.TempDir(), "db")
		must(t, os.WriteFile(file, []byte(content), 0o600))
		if got := Wrote(file); !got.IsZero() {
			t.Errorf("%q says %s", content, got)
		}
	}
	if got := Wrote(filepath.Join(t.TempDir(), "none")); !got.IsZero() {
		t.Errorf("nothing says %s", got)
	}
}
