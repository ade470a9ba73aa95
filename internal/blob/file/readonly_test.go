package file

import (
	"errors"
	"os"
	"testing"

	"etcdadm.io/internal/blob"
)

// A directory in which nobody makes files, root neither, tells that nothing was written.
func TestNothingIsWrittenWhereNobodyMay(t *testing.T) {
	root, err := os.OpenRoot("/sys")
	if err != nil {
		t.Skipf("no such directory here: %v", err)
	}
	defer root.Close()
	if _, err := newTemporary(root, (*os.File).Sync); !errors.Is(err, blob.ErrReadOnly) {
		t.Fatalf("got %v", err)
	}
}
