package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/teststill"
)

// A file:// store on a hung mount is told, and not waited for without
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

	still := teststill.Mount(t)
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
