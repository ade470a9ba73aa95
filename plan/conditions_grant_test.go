package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/step"
)

// TestConditionsOfGrants: when a host may go that was asked for.
func TestConditionsOfGrants(t *testing.T) {
	p := cluster.Pause{ID: "p1", Host: "b", For: time.Hour, Reason: "kernel"}
	asked := then(formedSight, func(o *cluster.Observation) {
		timed := p
		timed.From, timed.Until = o.Clock(), o.Clock().Add(p.For)
		o.Paused = []cluster.Pause{timed}
	})
	granted := func(v *step.View) bool {
		d := pauses.Grant(v)
		return d != nil && d.Action != nil && len(d.Action.Ops) == 1 && d.Action.Ops[0].Op.Kind == cluster.OpPause && d.Action.Ops[0].Host == "b"
	}
	word := func(change func(*cluster.Pause)) func(*cluster.Observation) {
		return func(o *cluster.Observation) { change(&o.Paused[0]) }
	}
	intent := func(change func(*cluster.Intent)) func(*cluster.Observation) {
		return func(o *cluster.Observation) {
			in := o.Store.Intent.Clone()
			change(in)
			o.Store.Intent = in
			for i := range o.Hosts {
				o.Hosts[i].Intent = in
			}
		}
	}
	checkConditions(t, []condition{{"a host is let go", asked, granted, []otherwise{
		{"another voter is down", of("c", unhealthy)},
		{"another host may go", of("c", func(h *cluster.HostReport) { h.Paused = []cluster.Pause{{ID: "p2", Host: "c"}} })},
		{"it was let go", of("b", func(h *cluster.HostReport) { h.Paused = []cluster.Pause{p} })},
		{"a daemon counts with nobody", of("c", func(h *cluster.HostReport) { h.TakesPauses = false })},
		{"it could not take it a moment ago", of("b", func(h *cluster.HostReport) { h.PauseRefused = &cluster.PauseRefused{ID: "p1", Why: "no space"} })},
		{"it was ended", word(func(p *cluster.Pause) { p.Ended = true })},
		{"nobody waits for it", word(func(p *cluster.Pause) { p.ID = "" })},
		{"its time is over", word(func(p *cluster.Pause) { p.Until = p.From.Add(-time.Second) })},
		{"its time has to be written down first", word(func(p *cluster.Pause) { p.Until = time.Time{} })},
		{"its time was written by a clock that is far ahead", word(func(p *cluster.Pause) { p.Until = p.From.Add(3 * time.Hour) })},
		{"a change of voters is under way", intent(func(in *cluster.Intent) { in.Next = in.Voters[:2] })},
		{"an earlier change may still come", intent(func(in *cluster.Intent) { in.Pending = []cluster.VoterChange{{}} })},
		{"other voters are on record", intent(func(in *cluster.Intent) { in.Voters = in.Voters[:2] })},
		{"the store cannot be read", func(o *cluster.Observation) { o.Store.Read = false }},
		{"nobody knows who is paused", pausesUnread},
		{"the list is damaged", func(o *cluster.Observation) { o.PausesDamaged = "not JSON" }},
		{"the list is lost", func(o *cluster.Observation) { o.PausesLost = true }},
		{"it promised nothing", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
	}, []otherwise{
		{"it is down itself", of("b", unhealthy)},
		{"another pause could not be taken", of("b", func(h *cluster.HostReport) { h.PauseRefused = &cluster.PauseRefused{ID: "p2"} })},
		{"another pause of the host is in effect", of("b", func(h *cluster.HostReport) { h.Paused = []cluster.Pause{{ID: "p0", Host: "b"}} })},
		{"there is no spec", noSpec},
	}}})
}
