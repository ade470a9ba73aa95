package file

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"etcdadm.io/internal/blob"
)

// A file system that takes no more has one sentence for two reasons: both are told, and
// nothing else gets that advice.
func TestFullFileSystemSaysWhereToLook(t *testing.T) {
	s := &Store{dir: "/store"}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := s.full(fmt.Errorf("create temporary file: %w", full))
		told, ok := errors.AsType[*blob.Error](err)
		if !ok || !strings.Contains(told.Hint(), "df -i") || !errors.Is(err, full) || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("%v: %v", full, err)
		}
	}
	for _, other := range []error{fs.ErrPermission, blob.ErrPreconditionFailed, syscall.EIO} {
		if err := s.full(other); !errors.Is(err, other) || err.Error() != other.Error() {
			t.Errorf("%v became %v", other, err)
		}
	}
}
