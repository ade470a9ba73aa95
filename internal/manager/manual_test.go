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

// A person's word that self-management is off is written into the store by whoever leads, and
// holds with the next leader. One that has not read it yet knows that it does not, and
// neither a silent store nor a lost or damaged object turns it on.
func TestManualIsSharedByLeaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		manages := func(g plan.Goal, o *cluster.Observation) plan.Decision {
			if g.Kind != plan.AutoManage {
				return plan.Decision{Rule: "steady", Done: true}
			}
			var now *cluster.Manual
			if !g.Manage.On {
				now = &cluster.Manual{Since: g.Manage.From, By: g.Manage.By}
			}
			if (o.Manual == nil) == g.Manage.On && o.ManualUnknown == "" {
				return plan.Decision{Rule: "auto-manage", Reason: plan.Say("so it is"), Done: true}
			}
			return plan.Decision{Rule: "auto-manage", Reason: plan.Say("write it"), Action: &plan.Action{Kind: plan.ActManual, Manual: &plan.ManualChange{Was: o.Manual, Now: now}}}
		}
		a, b, _ := w.three(func(o *Options) { o.Planner = manages })
		w.untilLeads(time.Second, "a")
		switched := func(at *node, on bool) {
			t.Helper()
			r, err := at.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.AutoManage, Manage: &plan.ManageAsked{On: on, By: "root@shell"}}})
			if err != nil || r.Outcome != GoalDone || len(r.Steps) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		switched(b, false)
		sees := func(n *node) (off bool, why string) {
			o := n.Status().Observation
			if o == nil {
				return false, "no look"
			}
			return o.Manual != nil && o.Manual.By == "root@shell", o.ManualUnknown
		}
		if off, why := sees(a); !off || why != "" {
			t.Errorf("who wrote it sees that it is off: %t, %q", off, why)
		}
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if strings.Contains(c.Key, "manual") {
				return memory.Fault{Err: errors.New("connection reset")}
			}
			return memory.Fault{}
		})
		w.crash(a)
		w.untilLeads(time.Minute, "b")
		w.until(time.Minute, "b has looked", func() bool { _, why := sees(b); return why != "no look" })
		if off, why := sees(b); off || why == "" {
			t.Errorf("a leader that could not read it sees that it is off: %t, and says %q of why not", off, why)
		}
		w.store.Inject(nil)
		w.until(time.Minute, "b knows", func() bool { off, why := sees(b); return off && why == "" })
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			return memory.Fault{Err: errors.New("connection reset")}
		})
		time.Sleep(time.Minute)
		if off, why := sees(b); !off || why != "" {
			t.Errorf("once it has read it a silent store takes nothing away: %t, %q", off, why)
		}
		w.store.Inject(nil)
		const key = "control/etcdadm-manual.json"
		put := func(data string) {
			t.Helper()
			if _, err := w.store.Put(t.Context(), key, strings.NewReader(data), ""); err != nil {
				t.Fatal(err)
			}
		}
		put("{garbage")
		w.until(time.Minute, "b tells that it is damaged", func() bool { off, why := sees(b); return off && strings.Contains(why, "move "+key+" away") })
		if err := w.store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "b tells that it is lost", func() bool { off, why := sees(b); return off && strings.Contains(why, "gone from the store") })
		switched(b, true)
		if off, why := sees(b); off || why != "" {
			t.Errorf("turned on, it is off: %t, %q", off, why)
		}
	})
}
