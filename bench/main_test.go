package main

import (
	"os"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// TestMain fetches the releases that the tests of all packages use. Of those that run
// etcd at all this package is the first in "go test ./...", and its own tests take no
// time, so that it can spend what Go allows a package on that.
func TestMain(m *testing.M) {
	if !testing.Short() {
		testetcd.Prepare(9*time.Minute, testetcd.Usual()...)
	}
	os.Exit(m.Run())
}
