package daemon

import (
	"os"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// Most of what is tested here waits: for a mount that hangs, a program that is silent, a grace.
func TestMain(m *testing.M) {
	testetcd.SideBySide(10)
	os.Exit(m.Run())
}
