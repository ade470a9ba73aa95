package plan

import (
	"fmt"
	"strings"
)

// steady says that everything is as it should be, or what is not.
func steady(v *view) *Decision {
	n, up := len(v.roster.Voters()), len(v.roster.Up())
	if down := v.downVoters(); len(down) > 0 {
		d := wait(false, "member-down", "", "%d of %d voters are up: %s", up, n, strings.Join(down, "; "))
		d.Again = later
		return d
	}
	if d := v.needSpec(); d != nil {
		return d
	}
	if n < v.wanted() {
		return &Decision{Reason: fmt.Sprintf("%d of %d voters are up, and the spec asks for %d", up, n, v.wanted())}
	}
	d := &Decision{Reason: fmt.Sprintf("%d of %d voters are up, as the spec asks", up, n), Done: true}
	if run := v.roster.Running(); run.Low != v.spec.EtcdVersion || run.High != v.spec.EtcdVersion {
		d.Done, d.Reason = false, fmt.Sprintf("%d of %d voters are up; they run etcd %s, and the spec asks for %s", up, n, v.runningWords(), v.spec.EtcdVersion)
		d.Again = later
	}
	if v.spec.Hold && n != v.spec.MemberCount {
		d.Reason = fmt.Sprintf("%d of %d voters are up; the spec asks for %d and is on hold (etcdadm seed %s --nodes N lifts it)", up, n, v.spec.MemberCount, v.store())
	}
	return d
}
