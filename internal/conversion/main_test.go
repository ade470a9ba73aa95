package conversion_test

import (
	"os"
	"testing"

	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) {
	testetcd.SideBySide(6)
	os.Exit(m.Run())
}
