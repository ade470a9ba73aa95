package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/teststill"
	"golang.org/x/sys/unix"
)

// That there is no room for etcd's log is told until there is some again.
func TestNoRoomForTheLog(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k"); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var room logRoom
	file, rest := filepath.Join(dir, "etcd.log"), filepath.Join(dir, "rest")
	for _, full := range []bool{false, true, false} {
		size := 4 << 10
		if full {
			size = 256 << 10
		}
		if err := os.WriteFile(rest, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := room.look(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		got := room.problems()
		if len(got) > 0 != full || full && (got[0].Code != "log-not-written" || !strings.Contains(got[0].Sentence, file+" is full")) {
			t.Errorf("full: %t, and told: %+v", full, got)
		}
	}
	if err := room.look(t.Context(), filepath.Join(dir, "none", "etcd.log")); err != nil || len(room.problems()) > 0 {
		t.Errorf("before the first start: %v, %+v", err, room.problems())
	}
}

// A log on a hung mount is told, and nothing is read of it.
func TestALogOnAMountThatStandsStill(t *testing.T) {
	var room logRoom
	file := filepath.Join(teststill.Mount(t), "logs", "etcd.log")
	if err := room.look(t.Context(), file); err == nil {
		t.Error("it is read of")
	}
	if got := room.problems(); len(got) != 1 || !strings.Contains(got[0].Sentence, "has not answered since") {
		t.Errorf("told: %+v", got)
	}
}
