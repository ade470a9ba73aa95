package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// TestMain fetches the releases and the object stores that the tests of all packages use. Of those that run
// etcd at all this package is the first in "go test ./...", and its own tests take no
// time, so that it can spend what Go allows a package on that. -short leaves it to who
// needs one.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		began := time.Now()
		testetcd.Prepare(9*time.Minute, testetcd.Usual()...)
		teststore.Prepare(9*time.Minute-time.Since(began), teststore.Programs()...)
	}
	os.Exit(m.Run())
}
