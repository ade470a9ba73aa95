package plan

import (
	"fmt"
	"strings"

	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// steady says that everything is as it should be, or what is not.
func steady(v *step.View) *decision.Decision {
	n, up := len(v.Roster.Voters()), len(v.Roster.Up())
	if down := v.DownVoters(); len(down) > 0 {
		if d := step.NewLead(v, n); d != nil {
			return d
		}
		if d := step.NeedSpec(v); d != nil && !v.Repairs() { // nothing is repaired then, and that has to be told
			b := d.Blockers[0]
			why := "as nobody knows how many members are wanted"
			switch {
			case b.Code == "spec-refused" && !v.Obs.Store.Read:
				why = "as " + v.UnreadWords()
			case b.Code == "spec-refused":
				why = "as the settings beside the spec, which may name hosts or put it on hold, are not known either"
			}
			v.Aside(b.Code, b.Command, "no dead voter is replaced, %s: %s", why, b.Sentence)
		}
		d := decision.Wait(false, "member-down", "", "%d of %d voters are up: %s", up, n, strings.Join(down, "; "))
		d.Again = sight.Awaited(v.Sight)
		return d
	}
	if v.Standing != nil {
		return &decision.Decision{Reason: fmt.Sprintf("%d of %d voters are up; the spec is refused, and only dead voters are replaced", up, n)}
	}
	if d := step.NeedSpec(v); d != nil {
		return d
	}
	if n < v.Wanted() {
		return &decision.Decision{Reason: fmt.Sprintf("%d of %d voters are up, and the spec asks for %d", up, n, v.Wanted())}
	}
	d := &decision.Decision{Reason: fmt.Sprintf("%d of %d voters are up, as the spec asks", up, n), Done: true}
	if run := v.Roster.Running(); run.Low != v.Spec.EtcdVersion || run.High != v.Spec.EtcdVersion {
		d.Done, d.Reason = false, fmt.Sprintf("%d of %d voters are up; they run etcd %s, and the spec asks for %s", up, n, v.RunningWords(), v.Spec.EtcdVersion)
		d.Again = decision.Later
	}
	if v.Spec.Hold && n != v.Spec.MemberCount {
		d.Reason = fmt.Sprintf("%d of %d voters are up; the spec asks for %d and is on hold (etcdadm seed %s --nodes N lifts it)", up, n, v.Spec.MemberCount, v.Store())
	}
	return d
}
