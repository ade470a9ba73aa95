package host

import (
	"os"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// The tests that run beside each other wait for etcd most of the time.
func TestMain(m *testing.M) {
	testetcd.SideBySide(6)
	os.Exit(m.Run())
}
