package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/plan"
)

// bubble runs a test in virtual time and ends its daemons.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		test(t, w)
	})
}

func (w *world) three(change ...func(*Options)) (a, b, c *node) {
	a, b, c = w.add("a", change...), w.add("b", change...), w.add("c", change...)
	w.run(a, b, c)
	return a, b, c
}

// The real planner founds a cluster on three hosts, with one store.
func TestFounds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		a, _, _ := w.three(func(o *Options) { o.Planner = plan.Next })
		took := w.until(5*time.Second, "founded and steady", func() bool {
			s := a.Status()
			return s.Decision != nil && s.Decision.Done && s.Decision.Rule == "steady"
		})
		t.Logf("took %s", took)
		if took > 1500*time.Millisecond {
			t.Errorf("founding took %s", took)
		}
		in, _, _, err := control.New(w.store, clusterName).ReadIntent(t.Context())
		if err != nil || in.State != cluster.IntentFounded || len(in.Founders) != 3 || in.Nonce != "a-1" || in.Token != "a-2" || in.Cluster != 99 || in.Write < 2 {
			t.Errorf("intent %+v, %v", in, err)
		}
		for _, n := range w.nodes {
			if starts := get(n.host, func() int { return len(n.host.applied) }); starts != 1 {
				t.Errorf("%s got %d ops", n.self, starts)
			}
			if f := get(n.host, func() []cluster.Fence { return n.host.fences }); len(f) != 1 {
				t.Errorf("%s promised %v", n.self, f)
			}
		}
		w.until(15*time.Second, "status and record in the store", func() bool {
			s, ok, err := a.o.Control.ReadStatus(t.Context())
			r, rerr := a.o.Control.ReadRecord(t.Context())
			return ok && err == nil && s.Rule == "steady" && len(s.Members) == 3 && rerr == nil && r.Revision == 7
		})
	})
}

// Nothing happens for an hour: nothing is said and nothing is written.
func TestSaysThingsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var planned, puts times
		a, b, c := w.three(func(o *Options) {
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: "wait", Reason: plan.Say("waiting for {time}", time.Duration(planned.note())*time.Second), Blockers: []plan.Blocker{{Code: "x", Sentence: plan.Say("something is missing"), Command: "etcdadm fix"}}}
			}
		})
		w.untilLeads(2*time.Second, "a")
		time.Sleep(30 * time.Second)
		before := a.logs.Count() + b.logs.Count() + c.logs.Count()
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put && !strings.HasSuffix(c.Key, "etcdadm-status.json") { // which has a heartbeat
				puts.note()
			}
			return memory.Fault{}
		})
		time.Sleep(time.Hour)
		if n := a.logs.Count() + b.logs.Count() + c.logs.Count() - before; n != 0 {
			t.Errorf("%d lines in an idle hour:\n%s", n, a.logs.String())
		}
		if n := len(puts.all()); n != 0 {
			t.Errorf("%d writes in an idle hour", n)
		}
		if n := strings.Count(a.logs.String(), "etcdadm fix"); n != 1 {
			t.Errorf("the blocker's command was said %d times", n)
		}
		if n := get(c.host, func() int { return c.host.observed }); n > 3600/5 {
			t.Errorf("%d observations in an idle hour", n)
		}
	})
}

func TestAnotherLeads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.three()
		w.untilLeads(time.Second, "a")
		first := get(c.host, func() cluster.Fence { return c.host.promised })
		w.crash(a)
		took := w.until(5*time.Second, "b leads and c promised its fence", func() bool {
			return get(c.host, func() bool { return c.host.promised.Host == "b" })
		})
		t.Logf("killed: another leads after %s", took)
		if f := get(c.host, func() cluster.Fence { return c.host.promised }); !first.Less(f) {
			t.Errorf("fence %s after %s", f, first)
		}
		w.until(time.Second, "a is a gap", func() bool {
			o := b.Status().Observation
			g, ok := o.HostGap("a")
			return ok && g.Kind == cluster.GapUnreachable && len(o.Hosts) == 2
		})
		b.kill()
		if took := w.untilLeads(time.Second, "c"); took > 50*time.Millisecond {
			t.Errorf("a daemon that left was followed by the next after %s", took)
		}
	})
}

// hintedError is one as it comes from a daemon whose certificate, name or clock is not
// what it should be: what a person can do about it stays, and the rest may change.
type hintedError struct{ told time.Time }

func (e hintedError) Error() string { return "the certificate ended, and it is " + e.told.String() }
func (hintedError) Hint() string    { return "renew it" }

// Whoever reads that a host is out of sight reads why, where that is known, and the log
// says it once.
func TestUnreachableForAReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, _ := w.three()
		w.untilLeads(time.Second, "a")
		refuse := func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, other := range []cluster.HostID{"a", "b"} {
				w.refused[[2]cluster.HostID{other, "c"}], w.refused[[2]cluster.HostID{"c", other}] = err, err
			}
		}
		gap := func() string {
			o := a.Status().Observation
			if o == nil {
				return ""
			}
			g, _ := o.HostGap("c")
			return g.Detail
		}
		refuse(hintedError{time.Now()})
		w.until(10*time.Second, "the reason is told", func() bool {
			return strings.Contains(gap(), "no sign of its daemon") && strings.Contains(gap(), "the certificate ended")
		})
		first := gap()
		refuse(hintedError{time.Now()})
		time.Sleep(time.Minute)
		if gap() != first {
			t.Errorf("it changes from look to look: %q, and then %q", first, gap())
		}
		if n := strings.Count(a.logs.String(), "cannot talk with another daemon"); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
		refuse(errors.New("connection refused"))
		w.until(time.Minute, "the reason is no more", func() bool { return gap() != "" && !strings.Contains(gap(), "certificate") })
		refuse(nil)
		w.until(time.Minute, "c is seen again", func() bool { return gap() == "" })
		w.mu.Lock()
		w.cut[pair("a", "c")] = true
		w.mu.Unlock()
		w.until(10*time.Second, "c is out of sight", func() bool { return gap() != "" })
		if strings.Contains(gap(), "certificate") {
			t.Errorf("a reason that is no more: %s", gap())
		}
	})
}

// A host whose daemon is heard, and which does not answer what it is asked, is not gone;
// of one that nothing is heard of nobody says that it is there.
func TestHeardAndNotReached(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, _ := w.three()
		w.untilLeads(time.Second, "a")
		gap := func() (g cluster.Gap, ok bool) {
			o := a.Status().Observation
			if o == nil {
				return g, false
			}
			return o.HostGap("c")
		}
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"a", "c"}] = errors.New("connection timed out")
		w.mu.Unlock()
		w.until(time.Minute, "c is heard, and not reached", func() bool { g, ok := gap(); return ok && g.Heard && !g.Incompatible })
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"a", "c"}] = hintedError{time.Now()}
		w.mu.Unlock()
		w.until(time.Minute, "c is at odds", func() bool { g, ok := gap(); return ok && g.Heard && g.Incompatible })
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"a", "c"}] = nil
		w.cut[pair("a", "c")] = true
		w.mu.Unlock()
		w.until(time.Minute, "c is out of sight", func() bool { g, ok := gap(); return ok && !g.Heard && !g.Incompatible })
	})
}

// A daemon that was never talked with, since the two do not understand each other, is in
// what is seen, as long as that is so.
func TestDaemonsAtOddsAreSeen(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		odds := func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused[[2]cluster.HostID{"a", "c"}], w.refused[[2]cluster.HostID{"c", "a"}] = err, err
		}
		odds(hintedError{time.Now()})
		a, _, _ := w.three()
		seen := func() []cluster.Neighbour {
			if o := a.Status().Observation; o != nil {
				return o.Incompatible
			}
			return nil
		}
		w.until(time.Minute, "c is at odds", func() bool {
			is := seen()
			return len(is) == 1 && is[0].Endpoint != "" && strings.Contains(is[0].Why, "the certificate ended")
		})
		odds(nil)
		w.until(time.Minute, "c is understood", func() bool { return a.Status().Observation != nil && len(seen()) == 0 })
	})
}

// The host of a daemon that was never talked with may not be known, and gaps of the store
// have none either: a silent store does not take such a daemon out of what is seen.
func TestDaemonsAtOddsAreSeenWhileTheStoreIsSilent(t *testing.T) {
	a := newWorld(t).add("a")
	a.gossip.targets["c:3996"] = &target{endpoint: "c:3996", refusal: refusal{"its certificate ended", "renew it"}}
	o := &cluster.Observation{Gaps: []cluster.Gap{{Kind: cluster.GapStore, Detail: "connection reset"}}}
	if is := a.gossip.Neighbours(o); len(is) != 1 || is[0].Endpoint != "c:3996" {
		t.Errorf("at odds: %v", is)
	}
	a.gossip.targets["c:3996"].host = "c"
	for what, o := range map[string]*cluster.Observation{
		"a gap":    {Gaps: []cluster.Gap{{Kind: cluster.GapUnreachable, Host: "c"}}},
		"a report": {Hosts: []cluster.HostReport{{HostState: cluster.HostState{Host: "c"}}}},
	} {
		if is := a.gossip.Neighbours(o); len(is) != 0 {
			t.Errorf("beside %s: %v", what, is)
		}
	}
}

// A daemon that is refused by one that talks to it itself says so once, and not at each
// ping that fails between two that come in.
func TestRefusedOneWayIsSaidOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, c := w.three()
		w.untilLeads(time.Second, "a")
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"c", "a"}] = hintedError{time.Now()}
		w.mu.Unlock()
		time.Sleep(time.Minute)
		if n := strings.Count(c.logs.String(), "cannot talk with another daemon"); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"c", "a"}] = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		a.kill()
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.refused[[2]cluster.HostID{"c", "a"}] = hintedError{time.Now()}
		w.mu.Unlock()
		time.Sleep(time.Minute)
		if n := strings.Count(c.logs.String(), "cannot talk with another daemon"); n != 2 {
			t.Errorf("it is logged %d times once it was solved and is so again", n)
		}
	})
}

// A host that does not answer costs a tick its deadline and no more, and
// every other host is in the observation.
func TestSlowHostDoesNotStall(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var ticks times
		a, _, c := w.three(func(o *Options) {
			o.Planner = func(_ plan.Goal, o *cluster.Observation) plan.Decision {
				ticks.note()
				return plan.Decision{Rule: "test", Again: 100 * time.Millisecond}
			}
		})
		w.untilLeads(time.Second, "a")
		c.host.mu.Lock()
		c.host.hang = true
		c.host.mu.Unlock()
		time.Sleep(30 * time.Second)
		o := a.Status().Observation
		if g, ok := o.HostGap("c"); !ok || g.Kind != cluster.GapUnreachable || len(o.Hosts) != 2 {
			t.Errorf("observed %+v", o)
		}
		at := ticks.all()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d > 2200*time.Millisecond {
				t.Errorf("a tick took %s", d)
			}
		}
		if len(at) < 13 {
			t.Errorf("%d ticks in half a minute", len(at))
		}
	})
}

func TestStoreOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		var ticks times
		a, _, _ := w.three(func(o *Options) {
			o.Decided = func(*cluster.Observation, plan.Decision) { ticks.note() }
		})
		in := intent()
		if _, err := a.o.Control.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		w.until(3*time.Second, "the store is seen", func() bool {
			o := a.Status().Observation
			return o != nil && o.Store.Read && o.Store.Intent != nil && o.Spec != nil
		})
		lines := a.logs.Count()
		w.store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
		w.until(15*time.Second, "the store is a gap", func() bool { return !a.Status().Observation.Store.Read })
		n := len(ticks.all())
		time.Sleep(time.Minute)
		o := a.Status().Observation
		if o.Store.Read || o.Store.Intent == nil || o.Spec == nil || o.Store.Intent.Nonce != in.Nonce || !o.Store.Marker {
			t.Errorf("observed %+v", o.Store)
		}
		if len(o.Gaps) != 1 || o.Gaps[0].Kind != cluster.GapStore {
			t.Errorf("gaps %+v", o.Gaps)
		}
		if n := len(ticks.all()) - n; n < 7 || n > 20 {
			t.Errorf("%d ticks in a minute without a store", n)
		}
		w.store.Inject(nil)
		w.put("control/etcd-cluster-spec", `{"memberCount":5,"etcdVersion":"3.6.16"}`)
		if took := w.until(5*time.Second, "the store is back", func() bool {
			o := a.Status().Observation
			return o.Store.Read && o.Spec.MemberCount == 5
		}); took > 4500*time.Millisecond {
			t.Errorf("seen after %s", took)
		}
		if n := a.logs.Count() - lines; n > 4 {
			t.Errorf("%d lines about an outage:\n%s", n, a.logs.String())
		}
	})
}

// What is slow about a store adds up: all of a look has to be over while the hosts still
// take ops that rely on it, or none is ever carried out.
func TestSlowStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		var mu sync.Mutex // guards longest
		var longest time.Duration
		a, _, _ := w.three(func(o *Options) {
			o.Decided = func(o *cluster.Observation, _ plan.Decision) {
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(o.At))
			}
		})
		if _, err := a.o.Control.CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		w.until(3*time.Second, "the store is seen", func() bool {
			o := a.Status().Observation
			return o != nil && o.Store.Read && o.Store.Intent != nil && o.Spec != nil
		})
		if _, err := a.o.Control.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup}); err != nil {
			t.Fatal(err)
		}
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if strings.Contains(c.Key, "spec") {
				return memory.Fault{Delay: 950 * time.Millisecond} // it is two objects
			}
			return memory.Fault{Delay: 1900 * time.Millisecond}
		})
		lines := a.logs.Count()
		time.Sleep(time.Minute)
		o := a.Status().Observation
		if !o.Store.Read || o.Spec == nil || len(o.Commands) != 1 {
			t.Errorf("observed %+v, commands %+v", o.Store, o.Commands)
		}
		if n := a.logs.Count() - lines; n > 1 {
			t.Errorf("%d lines about a store that is slow and answers:\n%s", n, a.logs.String())
		}
		mu.Lock()
		defer mu.Unlock()
		if longest == 0 || longest > cluster.MaxStampAge-900*time.Millisecond {
			t.Errorf("a look took %s, and hosts refuse an op that relies on one older than %s", longest, cluster.MaxStampAge)
		}
	})
}

func intent() *cluster.Intent {
	return &cluster.Intent{Name: clusterName, Generation: 1, Nonce: "n", Token: "t", Write: 1, State: cluster.IntentFounded, Cluster: 99}
}

func TestWakesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, _ := w.three()
		w.untilLeads(time.Second, "a")
		time.Sleep(time.Minute)
		seen := func() int { return get(b.host, func() int { return b.host.observed }) }
		for what, change := range map[string]func(){
			"a peer's change": b.host.change,
			"an own change":   a.host.change,
			"a new host":      func() { w.run(w.add("d")) },
		} {
			before := seen()
			change()
			if took := w.until(time.Second, "looked after "+what, func() bool { return seen() > before }); took > 400*time.Millisecond {
				t.Errorf("looked %s after %s", took, what)
			}
			time.Sleep(10 * time.Second)
		}
		before := seen()
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		w.until(2100*time.Millisecond, "looked after a change of the spec", func() bool { return seen() > before })
	})
}

// Two leaders that cannot see each other share one host. Neither raises its
// fence while the other's is in use, and once one is gone the other goes on.
func TestNoDuel(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.three()
		w.untilLeads(time.Second, "a")
		w.sever("a", "b", true)
		w.until(10*time.Second, "both lead", func() bool { return len(w.leaders()) == 2 })
		time.Sleep(10 * time.Minute)
		if f := get(c.host, func() []cluster.Fence { return c.host.fences }); len(f) != 2 {
			t.Errorf("c promised %v", f)
		}
		o := a.Status().Observation
		if g, ok := o.HostGap("c"); !ok || g.Kind != cluster.GapRefused || !g.Heard {
			t.Errorf("a observed %+v", o.Gaps)
		}
		w.crash(b)
		took := w.until(20*time.Second, "c promised a's fence", func() bool {
			return get(c.host, func() bool { return c.host.promised.Host == "a" })
		})
		t.Logf("took over after %s", took)
		if took < 5*time.Second {
			t.Errorf("the fence was raised %s after the other one was used", took)
		}
	})
}

// The leading daemon is cut off and comes back, or it is stopped and goes on: who
// leads meanwhile goes on leading, and every host obeys it within moments. So it
// is where the one that comes back had led itself, under a higher fence.
func TestWhoLeadsWellGoesOn(t *testing.T) {
	for _, cutOff := range []cluster.HostID{"a", "c"} { // who led, and who did not
		t.Run(string(cutOff), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				a, b, c := w.three()
				founded := intent()
				for _, n := range []*node{a, b, c} {
					urls := cluster.URLs{Peer: []string{"http://" + string(n.self) + ":2380"}}
					founded.Founders = append(founded.Founders, cluster.Founder{Host: n.self, Disk: n.host.disk, Member: cluster.MemberID(n.self[0]), URLs: urls})
					founded.Voters = append(founded.Voters, cluster.Voter{Host: n.self, Disk: n.host.disk, Member: cluster.MemberID(n.self[0])})
				}
				if _, err := a.o.Control.CreateIntent(t.Context(), founded); err != nil {
					t.Fatal(err)
				}
				for _, n := range []*node{a, b, c} {
					n.host.intent = founded
					n.host.local = cluster.LocalMember{State: cluster.MemberStarted, Generation: 1, Member: cluster.MemberID(n.self[0]), Run: true, Version: version, HasData: true}
					w.start(n.self)
				}
				w.untilLeads(time.Second, "a")
				leader := cluster.HostID("a")
				if cutOff == "a" {
					leader = "b"
				}
				for _, h := range []cluster.HostID{"a", "b", "c"} {
					if h != cutOff {
						w.sever(cutOff, h, true)
					}
				}
				w.until(10*time.Second, "both lead", func() bool {
					return slices.Equal(w.leaders(), slices.Sorted(slices.Values([]cluster.HostID{leader, cutOff})))
				})
				time.Sleep(time.Minute)
				for _, h := range []cluster.HostID{"a", "b", "c"} {
					if h != cutOff {
						w.sever(cutOff, h, false)
					}
				}
				took := w.until(8*time.Second, "one leads, and all obey it", func() bool {
					if !slices.Contains(w.leaders(), leader) {
						t.Fatalf("%v lead after the cut has healed, and not %s", w.leaders(), leader)
					}
					o := w.nodes[leader].Status().Observation
					if o == nil || len(w.leaders()) > 1 {
						return false
					}
					roster, _ := o.Roster()
					return len(roster.Up()) == 3
				})
				t.Logf("healed after %s", took)
				time.Sleep(time.Minute)
				w.untilLeads(time.Millisecond, leader)
			})
		})
	}
}

// The host whose own store lacks the intent that the others keep does not
// lead, until it is there; when nobody has it, one leads after all.
func TestStoreThatLacksTheIntent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		own := memory.New()
		a := w.add("a", func(o *Options) { o.Control = control.New(own, clusterName) })
		b, c := w.add("b"), w.add("c")
		b.host.intent, c.host.intent = intent(), intent()
		if _, err := b.o.Control.CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		w.run(a, b, c)
		w.untilLeads(5*time.Second, "b")
		if s := a.Status(); s.Unfit == "" {
			t.Error("a does not say why it does not lead")
		}
		time.Sleep(time.Minute)
		w.untilLeads(time.Millisecond, "b")
		if _, err := control.New(own, clusterName).CreateIntent(t.Context(), intent()); err != nil {
			t.Fatal(err)
		}
		w.until(5*time.Second, "a may lead again", func() bool { return a.Status().Unfit == "" })
		w.untilLeads(time.Millisecond, "b")
		for _, s := range []*memory.Store{own, w.store} {
			if err := s.Delete(t.Context(), "control/etcd-cluster-created"); err != nil {
				t.Fatal(err)
			}
		}
		w.until(time.Minute, "all lack it and one leads", func() bool {
			return a.Status().Unfit != "" && b.Status().Unfit != "" && c.Status().Unfit != "" && len(w.leaders()) == 1
		})
	})
}

func TestPingRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		for _, p := range []cluster.Ping{
			{Cluster: "events", Host: "b"}, {Cluster: clusterName}, {Cluster: clusterName, Host: "a", Disk: "another"},
		} {
			if _, err := a.Ping(t.Context(), p); !errors.Is(err, ErrNotOurs) {
				t.Errorf("%+v gave %v", p, err)
			}
		}
		if !strings.Contains(a.logs.String(), "another daemon has this host's ID") {
			t.Error("the twin was not told of")
		}
		if _, err := a.Ping(t.Context(), cluster.Ping{Cluster: clusterName, Host: "a", Disk: "disk-a"}); err != nil {
			t.Error("its own ping:", err)
		}
	})
}

func TestClockSkew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		told := func() int { return strings.Count(a.logs.String(), "clocks differ") }
		skewed := func(by time.Duration) {
			p := cluster.Ping{Cluster: clusterName, Host: "b", Endpoint: endpoint("b"), Clock: time.Now().Add(by)}
			a.gossip.hear(p)
			a.gossip.skew(p, time.Now().Add(-100*time.Millisecond), 100*time.Millisecond)
		}
		skewed(9 * time.Second)
		if told() != 0 {
			t.Error("told too early")
		}
		skewed(-time.Hour)
		skewed(-time.Hour - time.Second)
		if told() != 1 {
			t.Errorf("told %d times", told())
		}
	})
}

func TestAskPeers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b, c := w.add("b"), w.add("c")
		b.host.memory["a"] = cluster.Ping{Disk: "disk-a", Epoch: 7}
		w.run(b, c)
		a := w.add("a")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		w.run(a)
		pings := a.AskPeers(ctx, nil)
		if len(pings) != 2 || pings[0].Remembered != 7 || pings[0].RememberedDisk != "disk-a" {
			t.Errorf("got %+v", pings)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("asking took %s", took)
		}
		if asked := get(b.host, func() []cluster.DiskID { return b.host.askedOf }); !slices.Contains(asked, "disk-a") {
			t.Errorf("it told of the disk that it knew last, and not of the one that asks: %v", asked)
		}
		late := cluster.Ping{Cluster: clusterName, Host: "b", Endpoint: endpoint("b"), Disk: "disk-b", RememberedDisk: "before", Remembered: 1}
		if _, err := a.Ping(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if pings := a.AskPeers(ctx, nil); len(pings) != 2 || pings[0].RememberedDisk != "disk-a" {
			t.Errorf("what b told of another disk hides what it told of this one: %+v", pings)
		}
		w.crash(b)
		d := w.add("d", func(o *Options) { o.Seeds = seeds{"b"} })
		w.run(d)
		if got := d.AskPeers(ctx, nil); len(got) != 0 || ctx.Err() == nil {
			t.Errorf("silence gave %+v", got)
		}
	})
}

// refusing answers each ping by a refusal with the other host's beat.
type refusing struct {
	link
	beat cluster.Ping
}

func (r refusing) Ping(context.Context, string, cluster.Ping) (cluster.Ping, error) {
	return r.beat, errors.New("the records are two")
}

// Who is refused for its record hears what is remembered of its disk, and is remembered itself, whoever of the two pings. It is no peer.
func TestRefusalTellsTheBeat(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		beat := func(of cluster.HostID, remembered uint64) cluster.Ping {
			return cluster.Ping{
				Cluster: clusterName, Host: of, Endpoint: endpoint(of), Disk: "disk-" + cluster.DiskID(of), Epoch: 5,
				RememberedDisk: "disk-a", Remembered: remembered, Unfit: "no", View: []cluster.Contact{{Host: "z", Endpoint: endpoint("z")}},
			}.Beat("the records are two")
		}
		a := w.add("a", func(o *Options) { o.Seeds, o.Network = seeds{"b"}, refusing{o.Network.(link), beat("b", 7)} })
		w.run(a)
		a.host.Remember([]cluster.Ping{{Host: "c", Disk: "disk-c", Epoch: 8}})
		answer, err := a.Ping(t.Context(), beat("c", 9))
		if err != nil || answer.RememberedDisk != "disk-c" || answer.Remembered != 8 {
			t.Errorf("it answers %+v (%v)", answer, err)
		}
		for of, remembered := range map[cluster.HostID]uint64{"b": 7, "c": 9} {
			w.until(time.Second, "what host "+string(of)+" remembers is heard", func() bool {
				return get(a.host, func() bool { return a.host.memory[of].Remembered == remembered })
			})
		}
		if known := a.gossip.Known(); len(known) > 0 {
			t.Errorf("it knows %+v", known)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if a.AskPeers(ctx, nil); ctx.Err() == nil {
			t.Error("a refusal is taken for all that there is to hear")
		}
	})
}

// A host that nobody names, because discovery finds nobody, asks those whom it
// remembers itself; and it learns of them only once its state was read.
func TestAskPeersThatAreRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := w.add("b", func(o *Options) { o.Seeds = seeds{} })
		b.host.memory["a"] = cluster.Ping{Disk: "disk-a", Epoch: 7}
		w.run(b)
		a := w.add("a", func(o *Options) { o.Seeds = seeds{} })
		w.run(a)
		w.until(time.Second, "discovery has found nobody", func() bool { return a.seededNow() })
		a.host.mu.Lock()
		a.host.peers = []record.Peer{{Host: "b", Disk: "disk-b", Address: endpoint("b"), Epoch: 3}}
		a.host.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if pings := a.AskPeers(ctx, nil); len(pings) != 1 || pings[0].Remembered != 7 {
			t.Errorf("got %+v", pings)
		}
	})
}

// A host whose disk has no address of anybody waits for those that it knows to carry members: they call it.
func TestAskPeersThatCallLate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a", func(o *Options) { o.Seeds = seeds{} })
		w.run(a)
		w.until(time.Second, "discovery has found nobody", func() bool { return a.seededNow() })
		b := w.add("b", func(o *Options) { o.Seeds = seeds{"a"} })
		b.host.memory["a"] = cluster.Ping{Disk: "disk-a", Epoch: 7}
		time.AfterFunc(time.Second, func() { w.run(b) })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if pings := a.AskPeers(ctx, []cluster.HostID{"a", "b"}); len(pings) != 1 || pings[0].Remembered != 7 {
			t.Errorf("got %+v", pings)
		}
	})
}

// A name service goes on to name an address that a host has left. It is not waited for to the end where somebody heard the host leave it,
// and only there.
func TestAskPeersPastALeftAddress(t *testing.T) {
	const late = 300 * time.Millisecond
	for name, c := range map[string]struct {
		named   addresses     // of a, which is at y now, and was at a before
		moves   bool          // b was at b, and is at x now
		refuses bool          // … and does not answer
		deaf    bool          // b and c did not listen
		began   bool          // … or began after it left, and know of its address from their disks alone
		opens   time.Duration // when a's own network lets calls through
		comes   string        // who begins at an address that was left
		from    time.Duration
		to      time.Duration
		told    int
	}{
		"all answer":                      {named: addresses{"b", "c"}, to: late, told: 2},
		"its own":                         {named: addresses{"a", "b", "c"}, from: leftFor, to: leftFor + late, told: 2},
		"one that nobody knows":           {named: addresses{"a", "b", "c", "q"}, from: 2 * time.Second, to: 2 * time.Second, told: 2},
		"another host's":                  {named: addresses{"b", "c", "x"}, moves: true, from: leftFor, to: leftFor + late, told: 2},
		"of a host that does not answer":  {named: addresses{"b", "c"}, moves: true, refuses: true, from: 2 * time.Second, to: 2 * time.Second, told: 1},
		"told by who did not listen":      {named: addresses{"a", "b", "c"}, deaf: true, from: 2 * time.Second, to: 2 * time.Second, told: 2},
		"told by who has just begun":      {named: addresses{"a", "b", "c"}, began: true, from: 2 * time.Second, to: 2 * time.Second, told: 2},
		"somebody is there, and is heard": {named: addresses{"a", "b", "c"}, comes: "a", from: late, to: leftFor, told: 3},
		"… and so on a late network":      {named: addresses{"a", "b", "c"}, comes: "a", opens: time.Second, from: time.Second + late, to: time.Second + leftFor, told: 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				moved := func(to, from cluster.HostID) *node {
					return w.add(to, func(o *Options) { o.Contact.Host, o.Place, o.Seeds = from, "boot/"+string(from), c.named })
				}
				with := func(o *Options) { o.Seeds, o.Place = addresses{"a", "b", "c"}, "boot/"+string(o.Contact.Host) }
				a, b, third := w.three(with)
				spoke := func(n *node, at cluster.HostID) func() bool {
					return func() bool {
						n.gossip.mu.Lock()
						defer n.gossip.mu.Unlock()
						to := n.gossip.targets[endpoint(at)]
						return to != nil && to.answered
					}
				}
				w.until(time.Minute, "b speaks with a", spoke(b, "a"))
				w.until(time.Minute, "c speaks with a", spoke(third, "a"))
				w.until(time.Minute, "c speaks with b", spoke(third, "b"))
				w.crash(a)
				if c.moves {
					w.crash(b)
					b = moved("x", "b")
					w.run(b)
					w.until(time.Minute, "c speaks with b at x", spoke(third, "x"))
				}
				if c.refuses {
					w.sever("x", "y", true)
				}
				if c.deaf {
					for _, n := range []*node{b, third} {
						n.gossip.mu.Lock()
						n.gossip.hearing.deaf = time.Now().Add(time.Minute)
						n.gossip.mu.Unlock()
					}
				}
				if c.began {
					for _, id := range []cluster.HostID{"b", "c"} {
						w.crash(w.nodes[id])
						w.mu.Lock()
						w.dead[id] = false
						w.mu.Unlock()
						n := w.add(id, with)
						n.host.peers = []record.Peer{{Host: "a", Disk: a.host.disk, Address: endpoint("a"), Epoch: 1}}
						w.run(n)
					}
				}
				now := moved("y", "a")
				now.host.disk, now.host.asks = a.host.disk, true
				if c.opens > 0 {
					for _, id := range []cluster.HostID{"a", "b", "c"} {
						w.sever("y", id, true)
						time.AfterFunc(c.opens, func() { w.sever("y", id, false) })
					}
				}
				w.run(now)
				if c.comes != "" {
					d := w.add("d", func(o *Options) { o.Contact.Endpoint, o.Seeds = endpoint("a"), addresses{} })
					time.AfterFunc(c.opens+late, func() {
						w.mu.Lock()
						w.nodes["a"], w.dead["a"] = d, false
						w.mu.Unlock()
						w.run(d)
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				began := time.Now()
				pings := now.AskPeers(ctx, []cluster.HostID{"a", "c"})
				if took := time.Since(began); took < c.from || took > c.to || len(pings) != c.told {
					t.Errorf("asking took %s, not from %s to %s, and told %+v", took, c.from, c.to, pings)
				}
			})
		})
	}
}

// An address where somebody else is by now was not left, whoever was there; nor was one of a host of which there may be two.
func TestLeftByNobodyElse(t *testing.T) {
	now := time.Now()
	at := func(h cluster.HostID, endpoint string) *peerState {
		return &peerState{contact: cluster.Contact{Host: h, Endpoint: endpoint}, told: true}
	}
	g := NewGossip(GossipOptions{Contact: cluster.Contact{Host: "a", Endpoint: "a"}})
	g.peers = map[cluster.HostID]*peerState{"b": at("b", "b2"), "c": at("c", "c2"), "d": at("d", "c1")}
	g.targets = map[string]*target{}
	for endpoint, host := range map[string]cluster.HostID{"b1": "b", "b2": "b", "c1": "c", "c2": "c", "q": "", "z": "z"} {
		g.targets[endpoint] = &target{endpoint: endpoint, host: host, answered: true}
	}
	g.targets["b0"] = &target{endpoint: "b0", host: "b"} // by what another one said
	if got := g.leftBy(); !slices.Equal(got, []cluster.Contact{{Host: "b", Endpoint: "b1"}}) {
		t.Errorf("they have left %+v", got)
	}
	g.toldOfLocked([]cluster.Contact{{Host: "b", Endpoint: "b1"}}, now.Add(-leftFor))
	g.toldOfLocked([]cluster.Contact{{Host: "b", Endpoint: "b1"}}, now)
	waited := &target{endpoint: "b1", since: now.Add(-leftFor)}
	if !g.isLeftLocked(waited, now) {
		t.Error("an address that b has left is waited for")
	}
	if waited.host = "d"; g.isLeftLocked(waited, now) {
		t.Error("an address where d is said to be counts as left")
	}
	waited.host, g.peers["b"].other, g.peers["b"].disputed = "", "b1", now
	if g.isLeftLocked(waited, now) {
		t.Error("an address of one of two daemons counts as left")
	}
	if got := g.leftBy(); len(got) > 0 {
		t.Errorf("one of two has left %+v", got)
	}
}

// A ping that did not know whom it reached tells nothing of what its sender
// remembers, and does not put off the ping that asks for it.
func TestAskPeersNotBeforeTheyTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := w.add("b", func(o *Options) { o.Seeds = seeds{} })
		b.host.memory["a"] = cluster.Ping{Disk: "disk-a", Epoch: 7}
		w.run(b)
		a := w.add("a", func(o *Options) { o.Seeds = seeds{"b"} })
		w.sever("a", "b", true)
		w.run(a)
		w.until(time.Second, "discovery has named b", func() bool { return a.seededNow() })
		unaddressed := b.gossip.say("", "") // on its way since before the cut
		if _, err := a.Ping(t.Context(), unaddressed); err != nil || unaddressed.RememberedDisk != "" {
			t.Fatalf("%+v, %v", unaddressed, err)
		}
		w.sever("a", "b", false)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if pings := a.AskPeers(ctx, nil); len(pings) != 1 || pings[0].Remembered != 7 {
			t.Errorf("got %+v", pings)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("asking took %s", took)
		}
	})
}

// Two daemons with one host ID and one disk, as from a copied data directory:
// the host is a gap to others, neither of the two leads, and when one of them
// is gone the other is a host again.
func TestTwins(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, _ := w.three()
		twin := w.add("z", func(o *Options) { o.Contact.Host = "a" })
		twin.host.disk = a.host.disk
		w.untilLeads(2*time.Second, "a")
		time.Sleep(time.Minute)
		w.run(twin)
		w.until(15*time.Second, "b leads instead of either", func() bool {
			_, first, _ := a.gossip.Leader()
			_, second, _ := twin.gossip.Leader()
			_, other, _ := b.gossip.Leader()
			return !first && !second && other
		})
		for range 600 {
			time.Sleep(time.Second)
			o := b.Status().Observation
			g, ok := o.HostGap("a")
			if !ok || !strings.Contains(g.Detail, endpoint("a")) || !strings.Contains(g.Detail, endpoint("z")) {
				t.Fatalf("b observed hosts %v, gaps %+v", len(o.Hosts), o.Gaps)
			}
			if _, leads, _ := a.gossip.Leader(); leads {
				t.Fatal("a leads beside its twin")
			}
			if _, leads, _ := twin.gossip.Leader(); leads {
				t.Fatal("the twin leads")
			}
		}
		if n := strings.Count(a.logs.String(), "another daemon has this host's ID"); n != 1 {
			t.Errorf("said %d times", n)
		}
		w.mu.Lock()
		w.dead["z"] = true
		w.mu.Unlock()
		twin.kill()
		<-twin.done
		w.until(20*time.Second, "a is seen again, and may lead", func() bool {
			o := b.Status().Observation
			return a.Status().Unfit == "" && o != nil && len(o.Hosts) == 3
		})
	})
}

// A host that comes back at another address at once is looked at again soon: at its first word where its new daemon has the lock that
// the one before had, and else once that one would have been heard.
func TestMovedHost(t *testing.T) {
	for _, c := range []struct {
		was, is string
		within  time.Duration
	}{
		{"boot/1:2", "boot/1:2", 2 * time.Second},
		{"boot/1:2", "other/1:2", disputedFor + 2*time.Second}, // of which one round of pings
		{"", "", disputedFor + 2*time.Second},
	} {
		bubble(t, func(t *testing.T, w *world) {
			a, _, former := w.three(func(o *Options) { o.Place = c.was })
			w.untilLeads(2*time.Second, "a")
			time.Sleep(time.Minute)
			w.crash(former)
			moved := w.add("z", func(o *Options) { o.Contact.Host, o.Place = "c", c.is })
			moved.host.id, moved.host.disk = "c", former.host.disk
			w.run(moved)
			took := w.until(10*time.Second, "c is seen at its new address", func() bool {
				o := a.Status().Observation
				_, ok := o.Host("c")
				return ok && get(moved.host, func() int { return moved.host.observed }) > 0
			})
			if took > c.within {
				t.Errorf("from %q to %q: seen after %s", c.was, c.is, took)
			}
		})
	}
}

// Daemons that say the same of their place, as after a machine was copied while it ran, are several from the first one's next word on.
func TestTwinsInOnePlace(t *testing.T) {
	for _, copies := range [][]cluster.HostID{{"z"}, {"x", "y", "z"}} {
		bubble(t, func(t *testing.T, w *world) {
			_, b, c := w.three(func(o *Options) { o.Place = "boot/1:2" })
			w.untilLeads(2*time.Second, "a")
			time.Sleep(time.Minute)
			for _, name := range copies {
				twin := w.add(name, func(o *Options) { o.Contact.Host, o.Place = "c", "boot/1:2" })
				twin.host.id, twin.host.disk = "c", c.host.disk
				w.run(twin)
				time.Sleep(700 * time.Millisecond)
			}
			two := func() bool {
				return slices.ContainsFunc(b.gossip.Known(), func(k known) bool { return k.contact.Host == "c" && k.other != "" })
			}
			w.until(10*time.Second, "b knows that there are several", two)
			looked := get(b.host, func() int { return b.host.observed })
			for range 120 {
				time.Sleep(time.Second)
				if !two() {
					t.Fatal("b takes one of them for the host")
				}
			}
			if looks := get(b.host, func() int { return b.host.observed }) - looked; looks > 40 {
				t.Errorf("the leader looked %d times in two minutes", looks)
			}
		})
	}
}

func (n *node) seededNow() bool {
	n.gossip.mu.Lock()
	defer n.gossip.mu.Unlock()
	return n.gossip.seeded
}

func TestNewRefusesWhatIsMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no options were accepted")
	}
}

// What the planner leaves open is minted; what it does not is counted.
func TestPrepareIntent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		fresh := &cluster.Intent{Name: clusterName, Generation: 2, Founders: []cluster.Founder{{Host: "a"}, {Host: "b"}}}
		in, err := a.prepareIntent(&plan.IntentChange{Replace: fresh}, look{view: cluster.StoreView{Intent: intent()}})
		if err != nil || in.Nonce == "" || in.Token == "" || in.Nonce == in.Token || in.Write != 1 || in.Timestamp == 0 || in.Founders[1].Member != 'b' || in.Cluster != 99 {
			t.Errorf("minted %+v, %v", in, err)
		}
		if fresh.Nonce != "" || fresh.Founders[0].Member != 0 {
			t.Error("the planner's value was changed")
		}
		base := intent()
		base.Write = 8
		if in, err = a.prepareIntent(&plan.IntentChange{Replace: intent()}, look{view: cluster.StoreView{Intent: base}}); err != nil || in.Write != 9 {
			t.Errorf("counted %+v, %v", in, err)
		}
		if in, err = a.prepareIntent(&plan.IntentChange{Create: base}, look{}); err != nil || in.Write != 8 || in.Nonce != "n" {
			t.Errorf("written back %+v, %v", in, err)
		}
		if _, err := a.prepareIntent(&plan.IntentChange{}, look{}); err == nil {
			t.Error("an empty change was accepted")
		}
	})
}

// Two daemons under one host ID, or one that was killed before it wrote its
// fence down, do not come to the same fence.
func TestFencesAreTheirOwn(t *testing.T) {
	seen := cluster.Fence{Number: 4, Host: "c"}
	had := map[cluster.Fence]bool{}
	for range 20 {
		f := newFencing("a", seen, Options{}.withDefaults().Rand)
		if !seen.Less(f.mine) || had[f.mine] {
			t.Fatalf("picked %s after %v", f.mine, had)
		}
		had[f.mine] = true
	}
}

// The fence rule by itself.
func TestFencing(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	half := func(d time.Duration) time.Duration {
		if d == fenceSpread {
			return 0
		}
		return d / 2
	}
	f := newFencing("a", cluster.Fence{Number: 4, Host: "c"}, half)
	if want := (cluster.Fence{Number: 5, Host: "a"}); f.mine != want {
		t.Fatalf("picked %s", f.mine)
	}
	higher := cluster.Fence{Number: 9, Host: "b"}
	by := func(ages ...time.Duration) (out []cluster.Refused) {
		for _, age := range ages {
			out = append(out, cluster.Refused{Promised: higher, Age: age})
		}
		return out
	}
	nobody := func(cluster.HostID) bool { return false }
	if d := f.refused(by(time.Hour, 9*time.Second), nobody, now, half); d != duelLook || f.mine.Number != 5 {
		t.Fatalf("while it is used: %s, %s", d, f.mine)
	}
	if d := f.refused(by(9*time.Second, time.Hour), nobody, now, half); d != duelLook || f.mine.Number != 5 || !f.raise.IsZero() {
		t.Fatalf("while it is used on another host: %s, %s", d, f.mine)
	}
	if d := f.refused(by(time.Hour, 10*time.Second), nobody, now, half); d != duelLook || f.mine.Number != 5 {
		t.Fatalf("without waiting: %s, %s", d, f.mine)
	}
	if d := f.refused(by(time.Hour, 12*time.Second), nobody, now.Add(2*time.Second), half); d != 500*time.Millisecond {
		t.Fatalf("wait %s", d)
	}
	if f.refused(by(0), nobody, now.Add(2400*time.Millisecond), half); !f.raise.IsZero() {
		t.Fatal("it was used meanwhile, and the wait goes on")
	}
	f.refused(by(11*time.Second), nobody, now, half)
	if d := f.refused(by(14*time.Second), nobody, now.Add(2500*time.Millisecond), half); d <= 0 || f.mine != (cluster.Fence{Number: 10, Host: "a"}) {
		t.Fatalf("raised to %s", f.mine)
	}
	if d := f.refused(nil, nobody, now, half); d != 0 {
		t.Fatalf("nobody refuses: %s", d)
	}
	higher = cluster.Fence{Number: 20, Host: "b"}
	two := append(by(0), cluster.Refused{Promised: cluster.Fence{Number: 19, Host: "c"}})
	if d := f.refused(two, func(h cluster.HostID) bool { return h == "b" }, now, half); d != duelLook || f.mine.Number != 10 {
		t.Fatalf("one of two whose fences are in use follows: %s, %s", d, f.mine)
	}
	if d := f.refused(two, func(cluster.HostID) bool { return true }, now, half); d != time.Nanosecond || f.mine.Number != 21 {
		t.Fatalf("both of them follow this leader: %s, %s", d, f.mine)
	}
	higher = cluster.Fence{Number: 30, Host: "a"}
	if d := f.refused(by(0), func(cluster.HostID) bool { return true }, now, half); d != duelLook {
		t.Fatalf("a fence of this host that this leader has not brought: %s, %s", d, f.mine)
	}
}

// A leader that was paused, or whose clock was set, has not seen anything
// "since" before that.
func TestMemoryHolds(t *testing.T) {
	for _, test := range []struct {
		wall, monotonic time.Duration
		want            bool
	}{
		{10 * time.Second, 10 * time.Second, true},
		{10*time.Second + 500*time.Millisecond, 10 * time.Second, true},
		{2 * time.Minute, 2 * time.Minute, false},
		{time.Hour, 10 * time.Second, false}, // the clock jumped, or the machine slept
		{-time.Hour, 10 * time.Second, false},
	} {
		if got := memoryHolds(test.wall, test.monotonic); got != test.want {
			t.Errorf("wall %s, monotonic %s: %t", test.wall, test.monotonic, got)
		}
	}
}

// A paused leader starts to remember anew.
func TestMemoryAfterAPause(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, c := w.three()
		w.until(5*time.Second, "a saw all", func() bool { o := a.Status().Observation; return o != nil && len(o.Hosts) == 3 })
		w.crash(c)
		since := func() time.Time {
			h, _ := a.Status().Observation.Memory.Host("c")
			return h.GapSince
		}
		w.until(20*time.Second, "c is remembered as silent", func() bool { return !since().IsZero() })
		first := since()
		stuck := make(chan struct{})
		a.host.mu.Lock()
		a.host.stuck = stuck
		a.host.mu.Unlock()
		time.Sleep(3 * time.Minute)
		a.host.mu.Lock()
		a.host.stuck = nil
		a.host.mu.Unlock()
		close(stuck)
		w.until(20*time.Second, "it remembers anew", func() bool { return since().After(first) || since().IsZero() })
	})
}

// A voter's host that this daemon never heard of is a gap, not an absence,
// and the others are asked whether they reach its member.
func TestNeverHeardOfIsAGap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.add("a"), w.add("b")
		in := intent()
		for _, id := range []cluster.HostID{"a", "b", "c"} {
			in.Voters = append(in.Voters, cluster.Voter{Host: id, Member: cluster.MemberID(id[0])})
			in.Founders = append(in.Founders, cluster.Founder{Host: id, Member: cluster.MemberID(id[0]), URLs: cluster.URLs{Peer: []string{"http://" + string(id) + ":2380"}}})
		}
		for _, n := range []*node{a, b} {
			n.host.intent = in
			n.host.local = cluster.LocalMember{State: cluster.MemberStarted, Member: cluster.MemberID(n.self[0])}
			w.start(n.self)
		}
		w.run(a, b)
		other := b
		w.until(2*time.Second, "one has looked", func() bool {
			if b.Status().Observation != nil {
				a, other = b, a
			}
			return len(w.leaders()) == 1 && a.Status().Observation != nil
		})
		o := a.Status().Observation
		if g, ok := o.HostGap("c"); !ok || g.Kind != cluster.GapUnreachable || !slices.IsSortedFunc(o.Gaps, func(a, b cluster.Gap) int { return strings.Compare(string(a.Host), string(b.Host)) }) {
			t.Errorf("gaps of the first look %+v", o.Gaps)
		}
		w.until(10*time.Second, "the other host was asked to reach c's member", func() bool {
			return get(other.host, func() bool { return len(other.host.reached) == 1 && other.host.reached[0].ID == 'c' })
		})
	})
}
