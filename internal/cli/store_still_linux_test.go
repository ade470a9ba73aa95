package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
)

// A file:// store on a mount that stands still is told, and not waited for without
// end; what was opened in time outlives the bound of the opening.
func TestOpeningAStoreOnAMountThatStandsStill(t *testing.T) {
	dir := t.TempDir()
	store, err := openWithin(t.Context(), time.Minute, "file://"+dir, toWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), "k", strings.NewReader("v"), blob.Any); err != nil {
		t.Fatalf("a store whose opening is over: %v", err)
	}

	kernel, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs a file system that nobody serves: %v", err)
	}
	still := t.TempDir()
	if err := unix.Mount("still", still, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", kernel)); err != nil {
		unix.Close(kernel)
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		unix.Close(kernel) // whoever waits for an answer gets an error
		if err := unix.Unmount(still, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	opened := make(chan error, 1)
	go func() {
		_, err := openWithin(t.Context(), 100*time.Millisecond, "file://"+filepath.Join(still, "backups"), toRead)
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered") {
			t.Errorf("got %v, want that its file system has not answered", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the opening is still waited for")
	}
}
