package testetcd

import (
	"path/filepath"
	"strconv"
	"testing"
)

// Tests beside each other may have temporary directories of their own; the ports are the
// same.
func TestReservedPortIsReservedWhateverTMPDIRIs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := portLocks()
	if err != nil {
		t.Fatal(err)
	}
	if unlock, err := tryLock(filepath.Join(dir, strconv.Itoa(p.Number))); err == nil {
		unlock()
		t.Errorf("port %d is given away again", p.Number)
	}
}
