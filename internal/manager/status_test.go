package manager

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/plan"
)

// What is decided is in the store at once, and after a write that failed as soon as
// one does not.
func TestStatusIsWrittenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var rule atomic.Value
		rule.Store("first")
		a, _, _ := w.three(func(o *Options) {
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: rule.Load().(string), Reason: plan.Say("x"), Done: true}
			}
		})
		written := func() string {
			s, _, err := a.o.Control.ReadStatus(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Rule
		}
		w.untilLeads(2*time.Second, "a")
		time.Sleep(time.Minute)
		rule.Store("second")
		a.host.change()
		w.until(time.Second, "the second decision is in the store", func() bool { return written() == "second" })
		time.Sleep(time.Minute)

		var puts atomic.Int64
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put && strings.Contains(c.Key, "status") && puts.Add(1) == 1 {
				return memory.Fault{Err: errors.New("the store is away")}
			}
			return memory.Fault{}
		})
		rule.Store("third")
		a.host.change()
		w.until(6*time.Second, "the third decision is in the store", func() bool { return written() == "third" })
		if n := puts.Load(); n != 2 {
			t.Errorf("it took %d writes", n)
		}
		last, _, err := a.o.Control.ReadStatus(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Nothing changes, and who reads it is to know that somebody leads: at most five minutes later, and not before.
		puts.Store(1)
		time.Sleep(4 * time.Minute)
		if n := puts.Load(); n != 1 {
			t.Errorf("%d writes with nothing to say", n-1)
		}
		w.until(2*time.Minute, "it is written again", func() bool {
			s, _, err := a.o.Control.ReadStatus(t.Context())
			return err == nil && s.At.After(last.At) && s.Rule == "third"
		})
	})
}

// A member's host that does not answer is told with for how long that counts: not for the time of a pause.
func TestStatusTellsHowLongAHostIsSilent(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	a := cluster.HostReport{}
	a.Host, a.Local.Member = "a", 1
	a.View = &cluster.MemberView{Cluster: 7, Linearizable: true, Members: []cluster.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}}}
	o := &cluster.Observation{At: now, Hosts: []cluster.HostReport{a}, Memory: cluster.Memory{
		Members: []cluster.MemberMemory{{Member: 1}, {Member: 2, HostlessSince: now.Add(-time.Hour)}, {Member: 3, HostlessSince: now.Add(-time.Minute)}},
		Excused: []cluster.Excused{{Host: "b", From: now.Add(-10 * time.Second)}},
	}}
	want := map[cluster.HostID]time.Duration{"a": 0, "b": 10 * time.Second, "c": time.Minute}
	members := storeStatus(Status{Observation: o, Decision: &plan.Decision{}}).Members
	for _, m := range members {
		if m.Silent != want[m.Host] {
			t.Errorf("%s is silent for %s, want %s", m.Host, m.Silent, want[m.Host])
		}
	}
	if len(members) != 3 {
		t.Errorf("%d members are told of", len(members))
	}
}

// A change that follows another one soon is told soon, though a store of this kind is written to seldom. Changes without an end are
// told one for each interval.
func TestStatusFollowsAFewChangesSoon(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var rule atomic.Int64
		a, _, _ := w.three(func(o *Options) {
			o.Intervals.Status = 10 * time.Second
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: strconv.FormatInt(rule.Load(), 10), Reason: plan.Say("x"), Done: true}
			}
		})
		change := func() string {
			next := strconv.FormatInt(rule.Add(1), 10)
			a.host.change()
			return next
		}
		w.untilLeads(2*time.Second, "a")
		time.Sleep(2 * time.Minute)
		for range 3 {
			next := change()
			w.until(3*time.Second, "change "+next+" is in the store", func() bool {
				s, _, err := a.o.Control.ReadStatus(t.Context())
				return err == nil && s.Rule == next
			})
		}
		var puts atomic.Int64
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put && strings.Contains(c.Key, "status") {
				puts.Add(1)
			}
			return memory.Fault{}
		})
		for range 120 {
			change()
			time.Sleep(time.Second)
		}
		if n := puts.Load(); n < 10 || n > 15 {
			t.Errorf("%d writes in two minutes", n)
		}
	})
}

// Who writes a spec reads soon that the leader goes by it, also where the same is decided. A
// look that finds it has asked the hosts by the one before.
func TestSpecIsToldAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var unheard atomic.Int64
		a, _, _ := w.three(func(o *Options) {
			o.Planner = func(_ plan.Goal, o *cluster.Observation) plan.Decision {
				if o.SpecUnheard {
					unheard.Add(1)
				}
				return plan.Decision{Rule: "x", Reason: plan.Say("x"), Done: true, Settled: !o.SpecUnheard}
			}
		})
		w.untilLeads(2*time.Second, "a")
		spec := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16"), Options: map[string]string{"max-txn-ops": "1"}}
		for _, ops := range []string{"1024", "2048"} {
			time.Sleep(time.Minute)
			spec.Options = map[string]string{"max-txn-ops": ops}
			if err := a.o.Control.WriteSpec(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			before := unheard.Load()
			a.host.change()
			w.until(time.Second, "a look finds another spec than the hosts were asked by", func() bool { return unheard.Load() > before })
			w.until(30*time.Second, "the spec is told", func() bool {
				s, _, err := a.o.Control.ReadStatus(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				is, known := s.ActsOn(spec)
				return is && known && s.Settled != nil && *s.Settled
			})
		}
	})
}
