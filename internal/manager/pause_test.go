package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/plan"
)

// A person's pause is written into the store by whoever leads, holds with the next leader,
// and is what a look shows. A leader that has not read them yet knows that it does not.
func TestPauseIsSharedByLeaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		pauses := func(g plan.Goal, o *cluster.Observation) plan.Decision {
			if g.Kind != plan.Pause {
				return plan.Decision{Rule: "steady", Done: true}
			}
			p := cluster.Pause{Host: g.Host, From: g.Pause.From, Until: g.Pause.From.Add(g.Pause.For), Reason: g.Pause.Reason}
			if _, is := o.PauseOf(g.Host); is {
				return plan.Decision{Rule: "pause", Reason: plan.Say("paused"), Done: true}
			}
			if o.PausesUnread != "" {
				return plan.Decision{Rule: "pause", Reason: plan.Say("{why}", o.PausesUnread)}
			}
			return plan.Decision{Rule: "pause", Reason: plan.Say("pause it"), Action: &plan.Action{Kind: plan.ActPause, Pauses: &plan.PauseChange{Was: o.Paused, Now: []cluster.Pause{p}}}}
		}
		a, b, _ := w.three(func(o *Options) { o.Planner = pauses })
		w.untilLeads(time.Second, "a")
		r, err := b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Pause, Host: "c", Pause: &plan.PauseAsked{For: time.Hour, Reason: "kernel"}}})
		if err != nil || r.Outcome != GoalDone || r.Leader != "a" || len(r.Steps) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		sees := func(n *node) (cluster.Pause, string) {
			o := n.Status().Observation
			if o == nil {
				return cluster.Pause{}, "no look"
			}
			p, _ := o.PauseOf("c")
			return p, o.PausesUnread
		}
		if p, _ := sees(a); p.Reason != "kernel" {
			t.Errorf("who wrote it sees %+v", p)
		}
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if strings.Contains(c.Key, "paused") {
				return memory.Fault{Err: errors.New("connection reset")}
			}
			return memory.Fault{}
		})
		w.crash(a)
		w.untilLeads(time.Minute, "b")
		w.until(time.Minute, "b has looked", func() bool { _, why := sees(b); return why != "no look" })
		if p, why := sees(b); p.Host != "" || why == "" {
			t.Errorf("a leader that could not read them sees %+v, and says %q of why not", p, why)
		}
		w.store.Inject(nil)
		w.until(time.Minute, "b knows of the pause", func() bool { p, why := sees(b); return p.Host == "c" && why == "" })
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			return memory.Fault{Err: errors.New("connection reset")}
		})
		time.Sleep(time.Minute)
		if p, why := sees(b); p.Host != "c" || why != "" {
			t.Errorf("once it has read them a silent store takes nothing away: %+v, %q", p, why)
		}
		w.store.Inject(nil)

		// Nor does an object that is damaged, or lost: the leader says so.
		const key = "control/etcdadm-paused.json"
		word := func() (string, bool) {
			o := b.Status().Observation
			return o.PausesDamaged, o.PausesLost
		}
		put := func(data string) {
			t.Helper()
			if _, err := w.store.Put(t.Context(), key, strings.NewReader(data), ""); err != nil {
				t.Fatal(err)
			}
		}
		put("{garbage")
		w.until(time.Minute, "b tells that it is damaged", func() bool { damaged, _ := word(); return strings.Contains(damaged, "move "+key+" away") })
		if p, why := sees(b); p.Host != "c" || why != "" {
			t.Errorf("a damaged object takes away what was read: %+v, %q", p, why)
		}
		if err := w.store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "b tells that it is lost", func() bool { damaged, lost := word(); return lost && damaged == "" })
		if p, why := sees(b); p.Host != "c" || why != "" {
			t.Errorf("a lost object takes away what was read: %+v, %q", p, why)
		}
		put(`{"paused":[]}`)
		w.until(time.Minute, "nobody is paused", func() bool { p, _ := sees(b); _, lost := word(); return p.Host == "" && !lost })
	})
}
