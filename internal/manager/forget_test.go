package manager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
)

// A host that nothing counts on drops out of view when a person asks for it, and by
// itself after a day; one that answers does not.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.three()
		w.untilLeads(2*time.Second, "a")
		all := func() bool { o := a.Status().Observation; return o != nil && len(o.Hosts) == 3 }
		w.until(15*time.Second, "all are seen", all)
		if err := a.Forget("c"); !errors.Is(err, ErrStillThere) {
			t.Fatalf("a host that answers: %v", err)
		}
		if err := a.Forget("a"); !errors.Is(err, ErrStillThere) {
			t.Fatalf("itself: %v", err)
		}
		gap := func() bool { _, ok := a.Status().Observation.HostGap("c"); return ok }
		w.crash(c)
		w.until(15*time.Second, "c is a gap", gap)
		if err := a.Forget("c"); err != nil {
			t.Fatal(err)
		}
		w.until(15*time.Second, "c is out of view", func() bool { return !gap() })
		w.crash(b)
		gap = func() bool { _, ok := a.Status().Observation.HostGap("b"); return ok }
		w.until(15*time.Second, "b is a gap", gap)
		time.Sleep(cluster.MaxUnseen - time.Hour)
		if !gap() {
			t.Fatal("forgotten too soon")
		}
		rotates := func(r *cluster.Rotation) {
			get(a.host, func() bool { a.host.rotation = r; return true })
		}
		rotates(&cluster.Rotation{Phase: cluster.RotateTrust})
		time.Sleep(2 * time.Hour)
		if !gap() {
			t.Fatal("forgotten while the authorities are rotated, which waits for each host")
		}
		rotates(&cluster.Rotation{Phase: cluster.RotateDone})
		time.Sleep(2 * time.Minute)
		if gap() || !slices.Contains(get(a.host, func() []cluster.HostID { return a.host.forgot }), "b") {
			t.Fatal("not forgotten after a day")
		}
	})
}

// The first fence of a leader is above what each host has promised to whoever it was, this
// one included: to be refused would cost the time that a rival is given.
func TestFirstFenceIsAboveAll(t *testing.T) {
	for _, promised := range []cluster.HostID{"a", "b"} {
		bubble(t, func(t *testing.T, w *world) {
			a, b := w.add("a"), w.add("b")
			earlier := cluster.Fence{Number: 1 << 40, Host: "x"}
			get(w.nodes[promised].host, func() bool {
				h := w.nodes[promised].host
				h.promised, h.used = earlier, time.Now()
				return true
			})
			w.run(a, b)
			w.untilLeads(5*time.Second, "a")
			w.until(time.Second, "both promised", func() bool {
				return get(a.host, func() bool { return earlier.Less(a.host.promised) }) && get(b.host, func() bool { return earlier.Less(b.host.promised) })
			})
		})
	}
	// What this host promised a moment before it leads counts as well.
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		earlier := cluster.Fence{Number: 1 << 40, Host: "x"}
		a.host.promised, a.host.used = earlier, time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); a.leadership(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if f := get(a.host, func() cluster.Fence { return a.host.promised }); !earlier.Less(f) {
			t.Errorf("promised is %s", f)
		}
		cancel()
		<-ended
	})
}

// The promise of one host is damaged: the others' leader neither goes after it
// nor takes it for a rival.
func TestFenceOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, _ := w.three()
		w.untilLeads(2*time.Second, "a")
		w.until(15*time.Second, "all are seen", func() bool { o := a.Status().Observation; return o != nil && len(o.Hosts) == 3 })
		get(b.host, func() bool { b.host.promised = cluster.Fence{Number: cluster.MaxFence + 1, Host: "x"}; return true })
		before := a.Status().Observation.Fence
		time.Sleep(5 * time.Minute)
		o := a.Status().Observation
		g, ok := o.HostGap("b")
		if !ok || g.Kind != cluster.GapRefused || !g.Promised.OutOfReach() || o.Fence != before || len(o.Hosts) != 2 {
			t.Fatalf("gap %+v, fence %s was %s, %d hosts", g, o.Fence, before, len(o.Hosts))
		}
		if top, live := a.Fences(); top != before || len(live) != 2 {
			t.Fatalf("the highest is %s, heard are %v", top, live)
		}
	})
}
