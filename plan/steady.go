package plan

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// steady says that everything is as it should be, or what is not.
func steady(v *view) *Decision {
	n, up := len(v.roster.Voters()), len(v.roster.Up())
	if down := v.downVoters(); len(down) > 0 {
		if d := v.newLead(n); d != nil {
			return d
		}
		if d := v.needSpec(); d != nil && !v.repairs() { // nothing is repaired then, and that has to be told
			b := d.Blockers[0]
			why := "as nobody knows how many members are wanted"
			switch {
			case b.Code == "spec-refused" && !v.obs.Store.Read:
				why = "as " + v.unreadWords()
			case b.Code == "spec-refused":
				why = "as the settings beside the spec, which may name hosts or put it on hold, are not known either"
			}
			v.aside(b.Code, b.Command, "no dead voter is replaced, %s: %s", why, b.Sentence)
		}
		d := wait(false, "member-down", "", "%d of %d voters are up: %s", up, n, strings.Join(down, "; "))
		d.Again = v.awaited()
		return d
	}
	if v.standing != nil {
		return &Decision{Reason: fmt.Sprintf("%d of %d voters are up; the spec is refused, and only dead voters are replaced", up, n)}
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

// startingFor is how long a process that does not answer yet is looked at often.
// Source: members of 3.4 to 3.7 with little data serve within a second.
const startingFor = 3 * time.Second

// awaited is when to look again at voters that are down: soon at one that has
// just been started, because whatever comes next waits for it.
func (v *view) awaited() time.Duration {
	for _, s := range v.roster.Voters() {
		if s.Up || s.Host == nil {
			continue
		}
		if p := s.Host.Process; p.State == cluster.ProcessRunning && p.Uptime > 0 && p.Uptime < startingFor {
			return soon
		}
	}
	return later
}
