// Package rig is what the tests of e2e have in common: clusters of real daemons on one
// machine (Cluster, Host), what can be asked and done there, and what watches clients
// meanwhile. What only one subject needs stands in that subject's package.
//
// A host is a loopback address of its own (127.a.b.n), a data directory and a
// daemon; a cluster is a block 127.a.b.0/24 that no other test of this machine has at
// the same time, so the ports are the ones of the handbook. Every wait is bounded, every
// process is ended by its pid, also an etcd that outlives its daemon, and also
// when the test process itself is killed (see watchdog).
//
// Where the network between the hosts matters, a host is a network namespace
// with an address of its own, on a wire that the test can cut (network). That
// needs root and iproute2; without them these tests are skipped, and say so.
//
// Where a test has to come between what one daemon sees in the store and what it
// writes there, the store is an S3 server, and each daemon's way to it goes
// through a tap, which knows the requests and can stop the daemon at one.
//
// Each package has TestMain run Main: it fetches the releases and builds the programs
// before the first test. Nothing of this machine is used beside them: no release that is
// installed, no home directory, and no environment (internal/testenv).
package rig
