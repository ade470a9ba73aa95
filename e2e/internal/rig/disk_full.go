package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// SmallDisk gives a host a file system of its own with so many bytes.
func (h *Host) SmallDisk(bytes int64) {
	t := h.C.T
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, a small file system needs root")
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", h.Dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("SKIPPED, no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := EndAll(h.Dir); err != nil {
			t.Error(err)
		}
		h.reap()
		if err := syscall.Unmount(h.Dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("take the small file system away: %v", err)
		}
	})
}

// FillUp takes all the room that is left on a host's disk, until the returned
// function gives it back.
func (h *Host) FillUp() (empty func()) {
	t := h.C.T
	t.Helper()
	path := filepath.Join(h.Dir, "of-somebody-else")
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

// FillOthers writes values of a megabyte by way of the other hosts.
func (c *Cluster) FillOthers(but *Host, prefix string, n int) {
	c.T.Helper()
	client := c.NewClient(Without(3, but)...)
	defer client.Close()
	value := strings.Repeat("v", 1_000_000)
	for i := range n {
		Eventually(c.T, Soon, "writing a large value", func(ctx context.Context) error {
			_, err := client.Put(ctx, fmt.Sprintf("%s%06d", prefix, i%20), value)
			return err
		})
	}
}
