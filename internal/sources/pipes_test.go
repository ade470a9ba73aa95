package sources

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/regular"
)

// A rehearsal does not wait at a pipe in the place of its record, also where one writes to
// it.
func TestPipeInPlaceOfRecord(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sources{o: Options{Disk: disk}}
	pipe := filepath.Join(s.drillDir(), fileTrial)
	if err := errors.Join(os.Mkdir(s.drillDir(), 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	said := make(chan error, 1)
	go func() { said <- s.beginTrial("one") }()
	select {
	case err := <-said:
		if !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("said %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits at the pipe")
	}
}
