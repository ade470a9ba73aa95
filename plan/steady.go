package plan

import (
	"strings"

	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// steady says that everything is as it should be, or what is not.
func steady(v *step.View) *decision.Decision {
	n, up := len(v.Roster.Voters()), len(v.Roster.Up())
	if down := v.DownVoters(); len(down) > 0 {
		if d := step.NewLead(v, n); d != nil {
			return d
		}
		if d := step.NeedSpec(v); d != nil && !v.Repairs() { // nothing is repaired then, and that has to be told
			why := "as nobody knows how many members are wanted"
			switch {
			case v.SpecRefused() && !v.Obs.Store.Read:
				why = "as " + v.UnreadWords()
			case v.SpecRefused():
				why = "as the settings beside the spec, which may name hosts or put it on hold, are not known either"
			}
			for _, b := range d.Blockers {
				v.Notice(b.Code, b.Command, "no dead voter is replaced, {why}: {sentence}", why, b.Sentence)
			}
		}
		d := decision.Wait(false, "member-down", "", "{up} of {number} voters are up: {down}", up, n, strings.Join(down, "; "))
		d.Again = sight.Awaited(v.Sight)
		return d
	}
	if v.Standing != nil {
		return &decision.Decision{Reason: words.F("{up} of {number} voters are up; the spec is invalid, so only dead voters are replaced", up, n)}
	}
	if d := step.NeedSpec(v); d != nil {
		return d
	}
	if n < v.Wanted() {
		return &decision.Decision{Reason: words.F("{up} of {number} voters are up, and the spec asks for {wanted}", up, n, v.Wanted())}
	}
	d := &decision.Decision{Reason: words.F("{up} of {number} voters are up, as the spec asks", up, n), Done: true}
	if run := v.Roster.Running(); run.Low != v.Spec.EtcdVersion || run.High != v.Spec.EtcdVersion {
		d.Done, d.Reason = false, words.F("{up} of {number} voters are up; they run etcd {release}, and the spec asks for {etcdVersion}", up, n, v.RunningWords(), v.Spec.EtcdVersion)
		d.Again = decision.Later
	}
	if s := members.MakesWay(v); s.ID != 0 {
		d.Done, d.Reason = false, words.F("{up} of {number} voters are up; {voter} waits to make way, since the spec names other hosts", up, n, words.SeatName(s))
	}
	if v.Spec.Hold && n != v.Spec.MemberCount {
		d.Reason = words.F("{up} of {number} voters are up; the spec asks for {memberCount} and is on hold (etcdadm seed {store} --nodes N lifts it)", up, n, v.Spec.MemberCount, v.Store())
	}
	return d
}
