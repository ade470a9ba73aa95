package manager

import (
	"context"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
)

// What is left of a refused spec is observed, with the daemon's own time, until the
// store gives a spec that is taken, or does not answer; a spec that is taken stays in
// force when it is refused again.
func TestStanding(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.put("control/etcd-cluster-spec", `{"memberCount":4,"etcdVersion":"3.6.16"}`)
		a, _, _ := w.three(func(o *Options) { o.DeadAfter = 7 * time.Minute })
		if _, err := a.o.Control.CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		seen := func() *cluster.Observation {
			if o := a.Status().Observation; o != nil {
				return o
			}
			return &cluster.Observation{}
		}
		w.until(10*time.Second, "what is left is seen", func() bool {
			s := seen().Standing
			return s != nil && !s.Hold && s.DeadAfter == 7*time.Minute
		})
		w.put("control/etcd-cluster-spec-etcdadm.json", `{"hold":true,"hosts":["a"],"deadAfter":"1m","options":{"x":"y"}}`)
		want := &cluster.Standing{Hold: true, Hosts: []cluster.HostID{"a"}, DeadAfter: time.Minute, Options: map[string]string{"x": "y"}}
		w.until(10*time.Second, "the settings are seen", func() bool { return seen().Standing.Equal(want) })
		w.until(10*time.Second, "the hosts are told", func() bool {
			a.host.mu.Lock()
			defer a.host.mu.Unlock()
			return a.host.told != nil && a.host.told.Options["x"] == "y"
		})
		w.put("control/etcd-cluster-spec-etcdadm.json", `{"hold":"perhaps"}`)
		w.until(10*time.Second, "nothing is left", func() bool { return seen().Standing == nil && len(seen().Gaps) == 1 })
		w.put("control/etcd-cluster-spec-etcdadm.json", `{}`)
		w.until(10*time.Second, "something is left again", func() bool { return seen().Standing != nil })
		w.store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
		w.until(15*time.Second, "a silent store leaves nothing", func() bool { return !seen().Store.Read && seen().Standing == nil })
		w.store.Inject(nil)
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		w.until(10*time.Second, "a spec is taken", func() bool { return seen().Spec != nil && seen().Standing == nil })
		w.put("control/etcd-cluster-spec", `{"memberCount":4,"etcdVersion":"3.6.16"}`)
		w.until(10*time.Second, "it is refused", func() bool { return len(seen().Gaps) == 1 })
		if o := seen(); o.Spec == nil || o.Spec.MemberCount != 3 || o.Standing != nil {
			t.Errorf("the last one that was taken is %+v, and left is %+v", o.Spec, o.Standing)
		}
	})
}
