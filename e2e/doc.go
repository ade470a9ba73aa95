// Package e2e holds no code, only tests of the programs as people run them:
// real daemons, real etcd, real files, several hosts on one machine.
//
// A host is a loopback address of its own (127.a.b.n), a data directory and a
// daemon; a cluster is a block 127.a.b.0/24 that no other test has at the same
// time, so the ports are the ones of the handbook. Every wait is bounded, every
// process is ended by its pid, also an etcd that outlives its daemon, and also
// when the test process itself is killed (see watchdog).
//
// Where the network between the hosts matters, a host is a network namespace
// with an address of its own, on a wire that the test can cut (network). That
// needs root and iproute2; without them these tests are skipped, and say so.
//
// What must hold in every test: a write that was acknowledged is there at the
// end (writer).
//
// The tests that take long run with -e2e.long only; see .ci/tiers.
package e2e
