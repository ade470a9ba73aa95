package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk gives a host a file system of its own with so many bytes.
func (h *host) smallDisk(bytes int64) {
	t := h.c.t
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, a small file system needs root")
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("SKIPPED, no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := endAll(h.dir); err != nil {
			t.Error(err)
		}
		h.reap()
		if err := syscall.Unmount(h.dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("take the small file system away: %v", err)
		}
	})
}

// fillUp takes all the room that is left on a host's disk, until the returned
// function gives it back.
func (h *host) fillUp() (empty func()) {
	t := h.c.t
	t.Helper()
	path := filepath.Join(h.dir, "of-somebody-else")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of one host is full. The others serve on, nothing that was
// acknowledged is lost, somebody is told, and with room again the host's member
// is a voter again without anybody's help, and is the same one.
func TestDiskIsFull(t *testing.T) {
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	full := c.host(3)
	full.smallDisk(400 << 20)
	c.configure(3)
	c.start(1, 2, 3)
	before := c.voters(soon, 1, 2, 3)
	w := c.write()
	empty := full.fillUp()
	// etcd's log has room that it reserved, and its database writes pages of its
	// own: so it is given something to write until it ends or stands still.
	c.fillOthers(full, "big/", 80)
	w.waitFor(100)
	full.crash()
	full.start() // a daemon that comes up on a full disk says so, and ends nothing
	w.waitFor(100)
	eventually(t, soon, "the host with the full disk says so", func(context.Context) error {
		said := tail(full.log, 400) + tail(filepath.Join(full.dir, "logs", "etcd.log"), 100)
		if !strings.Contains(said, "no space left on device") {
			return errors.New("it does not")
		}
		return nil
	})
	empty()
	if !full.running() {
		full.start() // its supervisor would
	}
	same(t, before, c.voters(restoreWithin, 1, 2, 3))
	w.check()
}

// fillOthers writes values of a megabyte by way of the other hosts.
func (c *testCluster) fillOthers(but *host, prefix string, n int) {
	c.t.Helper()
	client := c.newClient(without(3, but)...)
	defer client.Close()
	value := strings.Repeat("v", 1_000_000)
	for i := range n {
		eventually(c.t, soon, "writing a large value", func(ctx context.Context) error {
			_, err := client.Put(ctx, fmt.Sprintf("%s%06d", prefix, i%20), value)
			return err
		})
	}
}
