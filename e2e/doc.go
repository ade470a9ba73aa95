// Package e2e holds no code. Below it are tests of the programs as people run them:
// real daemons, real etcd, real files, several hosts on one machine; a package for each
// subject, none of which takes more than four minutes, and internal/rig for what they
// have in common.
//
// The fault bench (faults: faultBench) is a cluster of which every part can be hurt alone:
// beside its network each host has a file system of its own, the store is an S3
// server behind a proxy on a place of its own, and so are the clients. What can
// go wrong there is a vocabulary (fault), a seed is a schedule of it over a job
// that is under way (schedule), and what clients saw is judged afterwards by
// internal/history. "go run ./e2e/soak" goes on with it, and replays a seed.
//
// What must hold in every test: a write that was acknowledged is there at the
// end (rig.Writer). Where it is about more than writes, clients of internal/history
// are watched, and what they saw is held against what etcd promises;
// a failure says where the history and its timeline are.
//
// The tests that take long run with -e2e.long only; see .ci/tiers. What is random
// is printed as a seed, and -e2e.seed repeats it.
//
// Kubernetes' API server on a cluster that changes its version, and the agent under
// a kubelet beside that API server, are tests that are run when asked for, since
// those programs take nine minutes of processor time to build, once for each machine:
//
//	go run ./internal/testkube/cmd/fetch
//	go test ./e2e/versions -run TestAPIServerAcrossVersions -v -e2e.apiserver
//	go test ./e2e/pods -v -e2e.kubelet
package e2e
