package plan_test

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// A leader that sees nobody else waits for the hosts of a cluster that is to be founded.
func ExampleNext() {
	o := &cluster.Observation{
		At:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Store: cluster.StoreView{Read: true, Conditional: true},
		Spec:  &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")},
	}
	d := plan.Next(plan.Goal{}, o)
	fmt.Println(d.Rule, d.Action)
	fmt.Println(d.Reason)
	// Output:
	// found nothing
	// 0 of 3 hosts ready; the cluster is founded once 2 are
}
