package main

import (
	"testing"

	_ "etcdadm.io/e2e/internal/rig" // its flags, for go test ./e2e/...
)

// The clock of a run writes a plus, too, and only in its first hundred seconds one that
// stands alone.
func TestFaultsIn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"faultbench_test.go:176: 15:37:22.322  +  5.4s  round 1: daemon of host 1 killed":                                            1,
		"faultbench_test.go:176: 15:38:22.322  + 65.4s  round 2: daemon of host 1 killed + later hosts [1 2] cut off from the store": 2,
		"faultbench_test.go:176: 15:39:22.322  +125.4s  round 3: daemon of host 1 killed + store thinks for 2s":                      2,
		"faultbench_test.go:176: 15:39:22.322  + 25.4s  3 voters 242ms after the last fault was over":                                0,
		"round 1, 1.519s after the cluster was whole, for 2.213s: stop etcd of a follower + loss of the leading daemon":              0,
	} {
		if n, ok := faultsIn(line); n != want || ok != (want > 0) {
			t.Errorf("%d faults (%t) in %q, want %d", n, ok, line, want)
		}
	}
}
