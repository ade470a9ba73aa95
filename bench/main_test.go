package main

import (
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// TestMain fetches the releases and the object stores that the tests of all packages use.
// Of those that run etcd at all this package is the first in "go test ./...", and its own
// tests take no time, so that it can spend what Go allows a package on that. -short leaves
// it to who needs one.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Short() {
		const within = 9 * time.Minute
		var both sync.WaitGroup // a build links on one core while another compiles
		both.Go(func() { testetcd.Prepare(within, testetcd.Usual()...) })
		both.Go(func() { teststore.Prepare(within, teststore.Programs()...) })
		both.Wait()
	}
	os.Exit(m.Run())
}
