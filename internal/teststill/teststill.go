//go:build linux

// Package teststill makes a hung mount, for tests of what meets one.
package teststill

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long what a test left behind has to come to its error, before the mount is
// gone: after that it would find a directory that it can write to.
const settle = 500 * time.Millisecond

// Mount is a mount on which every look at a file waits until the test is over, and fails
// then. Where nothing may be mounted the test is skipped.
func Mount(t *testing.T) string {
	t.Helper()
	kernel, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs a file system that nobody serves: %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("still", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", kernel)); err != nil {
		unix.Close(kernel)
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		// Whoever waits for an answer gets an error, also where a process that was being
		// started has the descriptor, too.
		_ = unix.Unmount(dir, unix.MNT_FORCE)
		unix.Close(kernel)
		time.Sleep(settle)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // gone by then
			t.Error(err)
		}
	})
	return dir
}
