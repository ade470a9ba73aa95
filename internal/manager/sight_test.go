package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// Who cannot read the store leaves the lead to who can; where nobody can, the one that
// leads goes on. The leader tells of who sees another store than it does.
func TestWhoCannotReadTheStoreDoesNotLead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		own := memory.New()
		a := w.add("a", func(o *Options) { o.Control = control.New(own, clusterName) })
		b, c := w.add("b"), w.add("c")
		for _, f := range []*control.Folder{a.o.Control, b.o.Control} {
			if _, err := f.CreateIntent(t.Context(), intent()); err != nil {
				t.Fatal(err)
			}
		}
		w.run(a, b, c)
		w.untilLeads(5*time.Second, "a")
		time.Sleep(time.Minute)
		w.untilLeads(time.Millisecond, "a")
		silent := func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} }
		own.Inject(silent)
		took := w.until(blindFor+15*time.Second, "b leads", func() bool { return slices.Equal(w.leaders(), []cluster.HostID{"b"}) })
		if took < blindFor {
			t.Errorf("the lead was left after %s, when nobody knew yet whether others can read", took)
		}
		if s := a.Status(); s.Unfit != election.UnfitStoreSilent {
			t.Errorf("a says %q", s.Unfit)
		}
		w.until(time.Minute, "b sees that a cannot read the store", func() bool {
			o := b.Status().Observation
			return o != nil && o.StoreOdds("a") != "" && o.StoreOdds("c") == "" && !o.Memory.Hosts[0].StoreSince.IsZero()
		})
		w.store.Inject(silent)
		time.Sleep(3 * time.Minute)
		w.untilLeads(time.Millisecond, "b")
		own.Inject(nil)
		w.until(2*time.Minute, "who can read it leads", func() bool { return slices.Equal(w.leaders(), []cluster.HostID{"a"}) })
		w.store.Inject(nil)
		w.until(time.Minute, "all may lead", func() bool { return b.Status().Unfit == "" && c.Status().Unfit == "" })
		w.untilLeads(time.Millisecond, "a")
	})
}

// A spec that nobody can read makes nobody's sight worse than another's: the lead stays.
func TestASpecThatNobodyReadsEndsNoLeadership(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.add("a"), w.add("b"), w.add("c")
		if _, err := a.o.Control.CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		w.run(a, b, c)
		w.untilLeads(5*time.Second, "a")
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if strings.HasSuffix(c.Key, "etcd-cluster-spec") {
				return memory.Fault{Err: errors.New("403")}
			}
			return memory.Fault{}
		})
		for range 300 {
			time.Sleep(time.Second)
			if s := a.Status(); s.Unfit != "" || !slices.Equal(w.leaders(), []cluster.HostID{"a"}) {
				t.Fatalf("%v lead, and a says %q", w.leaders(), s.Unfit)
			}
		}
		a.gossip.mu.Lock()
		s := a.gossip.sight
		a.gossip.mu.Unlock()
		if s == nil || s.Unread == "" {
			t.Errorf("a saw %+v, and the spec cannot be read", s)
		}
	})
}

// Whose store is an empty directory, or another cluster's, leaves the lead as well.
func TestExcuseOfASight(t *testing.T) {
	good, silent, empty, foreign := &cluster.StoreSight{Marker: true}, &cluster.StoreSight{Marker: true, Unread: "no answer"}, &cluster.StoreSight{}, &cluster.StoreSight{Marker: true, Foreign: true}
	for _, c := range []struct {
		name     string
		own, its *cluster.StoreSight
		want     string
	}{
		{"both read it", good, good, ""},
		{"only the other one does", silent, good, election.UnfitStoreSilent},
		{"neither does", silent, silent, ""},
		{"the other one reads another cluster's", silent, foreign, ""},
		{"the other one reads an empty one", silent, empty, ""},
		{"this one reads an empty one", empty, good, election.UnfitStore},
		{"this one reads another cluster's", foreign, good, election.UnfitStore},
		{"there is no cluster yet", empty, empty, ""},
		{"this one has not looked", nil, good, ""},
	} {
		if got := excuse(c.own, c.its); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A daemon that could not try the store out when it started tries again, also where it does
// not lead: else it would be told for ever to see another store than the leader.
func TestWhoFollowsTriesTheStoreOutAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		own := memory.New()
		if _, err := control.New(own, clusterName).CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		a, b := w.add("a"), w.add("b", func(o *Options) { o.Control = control.New(own, clusterName) })
		own.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
		w.run(a, b)
		w.untilLeads(10*time.Second, "a")
		own.Inject(nil)
		w.until(2*time.Minute, "b has tried its store out", func() bool { return b.o.Control.Probed() })
	})
}
