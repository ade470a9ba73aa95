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
// The fault bench (faultBench) is a cluster of which every part can be hurt alone:
// beside its network each host has a file system of its own, the store is an S3
// server behind a proxy on a place of its own, and so are the clients. What can
// go wrong there is a vocabulary (fault), a seed is a schedule of it over a job
// that is under way (schedule), and what clients saw is judged afterwards by
// internal/history. "go run ./e2e/soak" goes on with it, and replays a seed.
//
// Where a test has to come between what one daemon sees in the store and what it
// writes there, the store is an S3 server, and each daemon's way to it goes
// through a tap, which knows the requests and can stop the daemon at one.
//
// What must hold in every test: a write that was acknowledged is there at the
// end (writer). Where it is about more than writes, clients of internal/history
// are watched, and what they saw is held against what etcd promises (observe);
// a failure says where the history and its timeline are.
//
// The tests that take long run with -e2e.long only; see .ci/tiers. What is random
// is printed as a seed, and -e2e.seed repeats it.
//
// Kubernetes' API server on a cluster that changes its version is a test that
// is run when asked for, since that program takes six minutes of processor time
// to build, once for each machine:
//
//	go run ./internal/testkube/cmd/fetch
//	go test ./e2e -run TestAPIServerAcrossVersions -v -e2e.apiserver
package e2e
