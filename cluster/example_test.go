package cluster_test

import (
	"fmt"

	"etcdadm.io/cluster"
)

// How many voters have to be up, and which releases a member may be moved to in one step.
func ExampleQuorum() {
	for _, voters := range []int{1, 3, 5} {
		fmt.Printf("%d of %d\n", cluster.Quorum(voters), voters)
	}
	runs := cluster.MustVersion("3.5.35")
	fmt.Println(runs.SameMinor(cluster.MustVersion("3.5.9")), cluster.MustVersion("3.6.16").ReadsSnapshot(runs))
	// Output:
	// 1 of 1
	// 2 of 3
	// 3 of 5
	// true true
}
