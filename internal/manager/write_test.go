package manager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// term is a leadership of the node that has just looked.
func (n *node) term() *term {
	t := &term{m: n.Manager, fence: newFencing(n.self, cluster.Fence{}, n.o.Rand), looked: time.Now()}
	t.last = &cluster.Observation{Fence: t.fence.mine}
	return t
}

// replace writes a change of the record as it is in the store.
func (t *term) replace(ctx context.Context, seen look, change func(*plan.IntentChange)) bool {
	c := &plan.IntentChange{Replace: seen.view.Intent.Clone()}
	if change != nil {
		change(c)
	}
	return t.act(ctx, &plan.Action{Kind: plan.ActIntent, Intent: c}, seen)
}

// stored puts a record into the store, and gives a look at it.
func (w *world) stored(n *node, change func(*cluster.Intent)) look {
	w.t.Helper()
	in := intent()
	if change != nil {
		change(in)
	}
	w.store.Inject(nil)
	if err := w.store.Delete(w.t.Context(), "control/etcd-cluster-created"); err != nil {
		w.t.Fatal(err)
	}
	tag, err := n.o.Control.CreateIntent(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return look{at: time.Now(), tag: tag, view: cluster.StoreView{Read: true, Conditional: true, Intent: in, Marker: true}}
}

// inStore is the record in the store.
func (w *world) inStore() *cluster.Intent {
	w.t.Helper()
	in, _, _, err := control.New(w.store, clusterName).ReadIntent(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

func higherThan(f cluster.Fence) cluster.Fence {
	return cluster.Fence{Number: f.Number + 1, Host: "b"}
}

// The record is written on one look, which is not older than five seconds when the store
// takes the write, by a leader that nobody took over from. Each write names its writer.
func TestWritesOnWhatIsTrue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		slow := func(d time.Duration) { // the call hangs before the store takes it
			w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == memory.Put {
					return memory.Fault{Delay: d}
				}
				return memory.Fault{}
			})
		}
		for what, c := range map[string]struct {
			before func(*term, *look)
			want   bool
		}{
			"at once":                   {func(*term, *look) {}, true},
			"four seconds later":        {func(*term, *look) { time.Sleep(4 * time.Second) }, true},
			"six seconds later":         {func(*term, *look) { time.Sleep(6 * time.Second) }, false},
			"on its way for a second":   {func(*term, *look) { time.Sleep(3 * time.Second); slow(time.Second) }, true},
			"on its way for too long":   {func(*term, *look) { time.Sleep(3 * time.Second); slow(3 * time.Second) }, false},
			"its host promised another": {func(tm *term, _ *look) { a.host.promised = higherThan(tm.fence.mine) }, false},
			"its host promised this":    {func(tm *term, _ *look) { a.host.promised = tm.fence.mine }, true},
			"a later one has written":   {func(tm *term, l *look) { l.view.Intent.By = higherThan(tm.fence.mine) }, false},
			"an earlier one has":        {func(_ *term, l *look) { l.view.Intent.By = cluster.Fence{Number: 1, Host: "b"} }, true},
			"one that nobody can be has": {func(_ *term, l *look) {
				l.view.Intent.By = cluster.Fence{Number: ^uint64(0), Host: "b"}
			}, true},
			"under a fence that was picked since": {func(tm *term, _ *look) { tm.fence.pick(a.o.Rand) }, false},
		} {
			a.host.promised = cluster.Fence{}
			seen, tm := w.stored(a, nil), a.term()
			before := seen.view.Intent.Write
			c.before(tm, &seen)
			took := tm.replace(t.Context(), seen, nil)
			in := w.inStore()
			if took != c.want || (in.Write == before+1) != c.want {
				t.Errorf("%s: %t, and write %d after %d is in the store", what, took, in.Write, before)
			}
			if took && in.By != tm.fence.mine {
				t.Errorf("%s: written by %s, want %s", what, in.By, tm.fence.mine)
			}
		}
	})
}

// What is written is over once the leadership has ended, even where the call has a
// context of its own.
func TestWritesOnlyWhileItLeads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		tm := w.add("a").term()
		ctx, end := context.WithCancel(t.Context())
		still := tm.stillTrue(ctx)
		if err := still(); err != nil {
			t.Errorf("while it leads: %v", err)
		}
		if end(); !errors.Is(still(), control.ErrCalledOff) {
			t.Errorf("after it has led: %v", still())
		}
	})
}

// A look is as old as its beginning: what it tells last was true before.
func TestLookIsAsOldAsItsBeginning(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		tm := a.term()
		began := time.Now()
		w.store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Second} })
		if tm.observe(t.Context()); time.Since(began) < time.Second || !tm.looked.Equal(began) {
			t.Errorf("a look of %s is from %s after its beginning", time.Since(began), tm.looked.Sub(began))
		}
	})
}

// A person's word is read again right before what relies on it: what was taken back, or
// says something else, or cannot be read, is no word.
func TestWordIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const spec = "control/etcd-cluster-spec"
		gone := func(key string) {
			if err := w.store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		unreadable := func(part string) {
			w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == memory.Get && strings.Contains(c.Key, part) {
					return memory.Fault{Err: errors.New("connection reset")}
				}
				return memory.Fault{}
			})
		}
		const name = "2026-11-20T23:17:07Z-000000"
		dir := control.Prefix + name + "/"
		for what, c := range map[string]struct {
			onSpec bool
			own    bool // the daemon has a spec of its own
			then   func()
			want   bool
		}{
			"a command":                      {want: true, then: func() {}},
			"one that was deleted":           {then: func() { gone(dir + "_command.json") }},
			"one that names a lost host now": {then: func() { w.put(dir+"_etcdadm.json", `{"lost":["b"]}`) }},
			"one with a condition now":       {then: func() { w.put(dir+"_etcdadm.json", `{"flags":["unless=x"]}`) }},
			"one of another backup": {then: func() {
				w.put(dir+"_command.json", `{"timestamp":"1","restoreBackup":{"backup":"2026-11-20T00:00:00Z-000002"}}`)
			}},
			"one that cannot be read":      {then: func() { unreadable(dir) }},
			"a spec":                       {onSpec: true, want: true, then: func() {}},
			"one that was changed":         {onSpec: true, then: func() { w.put(spec, `{"memberCount":5,"etcdVersion":"3.6.16"}`) }},
			"one that is gone":             {onSpec: true, then: func() { gone(spec) }},
			"one that cannot be read now":  {onSpec: true, then: func() { unreadable(spec) }},
			"one that this daemon brought": {onSpec: true, own: true, want: true, then: func() { gone(spec) }},
		} {
			w.put(dir+"_command.json", `{"timestamp":"1","restoreBackup":{"backup":"2026-11-20T00:00:00Z-000001"}}`)
			gone(dir + "_etcdadm.json")
			w.put(spec, `{"memberCount":3,"etcdVersion":"3.6.16"}`)
			delete(w.nodes, "a")
			a := w.add("a")
			seen, tm := w.stored(a, nil), a.term()
			queue, err := a.o.Control.Commands(t.Context())
			read, serr := a.o.Control.ReadSpec(t.Context())
			if err != nil || serr != nil || len(queue) != 1 {
				t.Fatalf("%s: %v, %v, %v", what, queue, err, serr)
			}
			said := asCommand(queue[0], nil)
			said.Found = &cluster.Backup{} // which is nothing that a person said
			if c.own {
				a.o.Spec = read.Spec
			}
			c.then()
			took := tm.replace(t.Context(), seen, func(change *plan.IntentChange) {
				if change.Command = &said; c.onSpec {
					change.Command, change.Spec = nil, a.completed(read.Spec)
				}
			})
			w.store.Inject(nil)
			if wrote := w.inStore().Write != seen.view.Intent.Write; took != c.want || wrote != c.want {
				t.Errorf("%s: %t, written %t, want %t", what, took, wrote, c.want)
			}
		}
	})
}

// A generation that is being founded is handed to the hosts only after it was looked at
// once it was written; anything else at once.
func TestFoundingIsHandedOnAfterALook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		for _, state := range []cluster.IntentState{cluster.IntentFounding, cluster.IntentFounded} {
			seen, tm := w.stored(a, nil), a.term()
			took := tm.replace(t.Context(), seen, func(c *plan.IntentChange) { c.Replace.State = state })
			if handed := tm.intent != nil; !took || handed != (state == cluster.IntentFounded) {
				t.Errorf("%s: written %t, handed on %t", state, took, handed)
			}
		}
	})
}

// What the store has noted of commands stays noted in whatever is written over it, be it a
// generation that only hosts remembered.
func TestEndsOfBothSidesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		base, mended := intent(), intent()
		base.CommandsRun, base.Ended = []string{"r1", "r2"}, []cluster.EndedCommand{{Name: "e1"}, {Name: "e2"}}
		mended.CommandsRun, mended.Ended = []string{"r2", "r3"}, []cluster.EndedCommand{{Name: "e2"}, {Name: "e3"}}
		for _, generation := range []uint64{base.Generation, base.Generation + 1} {
			mended.Generation = generation
			in, err := a.prepareIntent(&plan.IntentChange{Replace: mended}, look{view: cluster.StoreView{Intent: base}})
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"r1", "r2", "r3"}; !slices.Equal(in.CommandsRun, want) {
				t.Errorf("generation %d over %d: were run %v, want %v", generation, base.Generation, in.CommandsRun, want)
			}
			if want := []cluster.EndedCommand{{Name: "e1"}, {Name: "e2"}, {Name: "e3"}}; !slices.Equal(in.Ended, want) {
				t.Errorf("generation %d over %d: ended %v, want %v", generation, base.Generation, in.Ended, want)
			}
		}
	})
}

// seenBy is an observation of three voters, so many of them under the fence, and of the
// record as it is in the store.
func seenBy(l look, under int) *cluster.Observation {
	o := &cluster.Observation{Cluster: clusterName, Store: l.view}
	for i, id := range []cluster.HostID{"a", "b", "c"} {
		o.Hosts = append(o.Hosts, cluster.HostReport{HostState: cluster.HostState{Host: id}, UnderFence: i < under})
	}
	return o
}

func byAnother(in *cluster.Intent) {
	in.By = cluster.Fence{Number: 1, Host: "b"}
	for _, id := range []cluster.HostID{"a", "b", "c"} {
		in.Voters = append(in.Voters, cluster.Voter{Host: id, Member: cluster.MemberID(id[0])})
	}
}

// A new leader writes its fence into the record of another one, and changes nothing else
// in it: what that one has under way is refused from then on. Only one that so many voters
// follow that no other can have more does, and only where there is nothing to be mended.
func TestClaim(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		later := func(l look) *cluster.Intent {
			in := l.view.Intent.Clone()
			in.Write++
			return in
		}
		for what, c := range map[string]struct {
			under  int
			before func(*term, *cluster.Observation, *look)
			want   bool
		}{
			"of all voters":   {3, nil, true},
			"of two of three": {2, nil, true},
			"of one of three": {1, nil, false},
			"of one, and a command gives up another": {1, func(_ *term, o *cluster.Observation, _ *look) {
				o.Commands = []cluster.Command{{Name: "n", Lost: []cluster.HostID{"c"}}}
			}, true},
			"of one, and one that speaks for another": {1, func(_ *term, o *cluster.Observation, l *look) {
				l.view.Intent.Voters[2].PeerURLs = []string{"http://c:2380"}
				o.Hosts[2].Host, o.Hosts[2].UnderFence, o.Hosts[2].URLs.Peer = "z", true, []string{"http://c:2380"}
			}, true},
			"of one, and what gives up another has ended": {1, func(_ *term, o *cluster.Observation, _ *look) {
				o.Commands = []cluster.Command{{Name: "n", Lost: []cluster.HostID{"c"}, Ended: "rejected"}}
			}, false},
			"of one founder": {1, func(_ *term, _ *cluster.Observation, l *look) {
				l.view.Intent.Founders = nil
				for _, v := range l.view.Intent.Voters {
					l.view.Intent.Founders = append(l.view.Intent.Founders, cluster.Founder{Host: v.Host})
				}
				l.view.Intent.Voters = nil
			}, false},
			"its own":                      {3, func(tm *term, _ *cluster.Observation, l *look) { l.view.Intent.By = tm.fence.mine }, false},
			"where a host has a later one": {3, func(_ *term, o *cluster.Observation, l *look) { o.Hosts[1].Intent = later(*l) }, false},
			"that was not read":            {3, func(_ *term, _ *cluster.Observation, l *look) { l.view.Read = false }, false},
			"without conditional writes":   {3, func(_ *term, _ *cluster.Observation, l *look) { l.view.Conditional = false }, false},
			"of a later leader":            {3, func(tm *term, _ *cluster.Observation, l *look) { l.view.Intent.By = higherThan(tm.fence.mine) }, false},
			"whose own host promised another": {3, func(tm *term, _ *cluster.Observation, _ *look) {
				a.host.promised = higherThan(tm.fence.mine)
			}, false},
			"that was written since": {3, func(_ *term, _ *cluster.Observation, l *look) { l.tag = "another" }, false},
			"seen long ago":          {3, func(tm *term, _ *cluster.Observation, _ *look) { tm.looked = tm.looked.Add(-6 * time.Second) }, false},
		} {
			a.host.promised = cluster.Fence{}
			seen, tm := w.stored(a, byAnother), a.term()
			o := seenBy(seen, c.under)
			if c.before != nil {
				c.before(tm, o, &seen)
			}
			o.Store = seen.view
			tried := tm.claim(t.Context(), o, seen)
			in := w.inStore()
			if claimed := in.By == tm.fence.mine; claimed != c.want || in.Write != 1 || c.want && !tried {
				t.Errorf("%s: by %s in write %d, tried %t, want it claimed %t", what, in.By, in.Write, tried, c.want)
			}
		}
	})
}

// A store that does not take the claim is not asked again in every look, and what needs
// no record goes on meanwhile.
func TestClaimThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		store := &readOnly{Store: w.store}
		a := w.add("a", func(o *Options) { o.Control = control.New(store, clusterName) })
		seen, tm := w.stored(a, byAnother), a.term()
		store.now.Store(true)
		o := seenBy(seen, 3)
		claim := func() bool { tm.looked = time.Now(); return tm.claim(t.Context(), o, seen) }
		if !claim() || claim() {
			t.Error("it is tried in every look")
		}
		if time.Sleep(claimAgain); !claim() || len(a.report.unwritten) != 1 {
			t.Errorf("it is never tried again, or not told: %v", a.report.unwritten)
		}
		wrote := seen
		wrote.view.Intent = seen.view.Intent.Clone()
		wrote.view.Intent.By = tm.fence.mine // with a change
		if tm.claim(t.Context(), o, wrote) || len(a.report.unwritten) != 0 {
			t.Errorf("nobody asks for it any more, and it is told: %v", a.report.unwritten)
		}
		store.now.Store(false)
		if time.Sleep(claimAgain); !claim() || w.inStore().By != tm.fence.mine || len(a.report.unwritten) != 0 {
			t.Errorf("by %s; not taken: %v", w.inStore().By, a.report.unwritten)
		}
	})
}

// The claim comes before anything is decided.
func TestClaimComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var first []cluster.Fence
		a := w.add("a", func(o *Options) {
			o.Seeds = seeds{"a"}
			o.Planner = func(_ plan.Goal, o *cluster.Observation) plan.Decision {
				first = append(first, o.Store.Intent.By)
				return plan.Decision{Rule: "test", Reason: plan.Say("nothing to do"), Done: true}
			}
		})
		w.stored(a, func(in *cluster.Intent) {
			in.By = cluster.Fence{Number: 1, Host: "b"}
			in.Voters = []cluster.Voter{{Host: "a", Member: 'a'}}
		})
		if _, err := a.o.Control.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.run(a)
		w.until(time.Minute, "something was decided", func() bool { o := a.Status().Observation; return o != nil })
		if by := first[0]; by.Host != "a" || w.inStore().By != by {
			t.Errorf("decided on the record of %s, and that of %s is in the store", by, w.inStore().By)
		}
	})
}

// The fence of who wrote the record refuses a lower one as a host would: a leadership that
// has just begun picks a higher one at once; one that has begun waits until the record was
// left alone for long. A daemon whose word is not enough for the record does neither.
func TestRivalInTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		begin := func(settled bool) (*term, look) {
			seen, tm := w.stored(a, byAnother), a.term()
			seen.view.Intent.By = higherThan(tm.fence.mine)
			tm.settled = settled
			return tm, seen
		}
		tm, seen := begin(false)
		by := seen.view.Intent.By
		if !tm.rival(seenBy(seen, 3), seen) || !by.Less(tm.fence.mine) {
			t.Errorf("at its beginning: fence %s after %s", tm.fence.mine, by)
		}
		if tm.rival(seenBy(seen, 3), seen) || len(tm.refused) != 0 {
			t.Errorf("a lower one is none: %v", tm.refused)
		}
		tm, seen = begin(false)
		if mine := tm.fence.mine; tm.rival(seenBy(seen, 1), seen) || tm.fence.mine != mine || len(tm.refused) != 0 {
			t.Errorf("of one voter of three: fence %s after %s, %v", tm.fence.mine, mine, tm.refused)
		}
		tm, seen = begin(true)
		mine := tm.fence.mine
		look := func(want time.Duration) {
			t.Helper()
			tm.refused = nil
			if tm.rival(seenBy(seen, 3), seen) || tm.fence.mine != mine || len(tm.refused) != 1 {
				t.Fatalf("fence %s after %s, %v", tm.fence.mine, mine, tm.refused)
			}
			if r := tm.refused[0]; r.Promised != seen.view.Intent.By || r.Age != want {
				t.Errorf("refused for %s since %s, want %s", r.Promised, r.Age, want)
			}
		}
		look(0)
		time.Sleep(9 * time.Second)
		look(9 * time.Second)
		seen.view.Intent.Write++ // it still writes
		look(0)
		time.Sleep(2 * time.Second)
		look(2 * time.Second)
		seen.view.Intent.By.Number++
		look(0)
		time.Sleep(2 * time.Second)
		seen.view.Intent.Generation++
		look(0)
	})
}

// A leader that was overtaken in the record raises its fence once that was left alone, and
// leads on.
func TestRivalThatStopsIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a", func(o *Options) { o.Seeds = seeds{"a"} })
		w.stored(a, func(in *cluster.Intent) { in.Voters = []cluster.Voter{{Host: "a", Member: 'a'}} })
		w.run(a)
		claimed := func() bool { return w.inStore().By.Host == "a" }
		w.until(time.Minute, "it has claimed the record, and leads", func() bool { return claimed() && a.Status().Observation != nil })
		in := w.inStore()
		rival := cluster.Fence{Number: in.By.Number + 7, Host: "b"}
		in.By, in.Write = rival, in.Write+1
		_, _, tag, err := a.o.Control.ReadIntent(t.Context())
		if err == nil {
			_, err = control.New(w.store, clusterName).ReplaceIntent(t.Context(), tag, in)
		}
		if err != nil {
			t.Fatal(err)
		}
		took := w.until(time.Minute, "it has claimed the record again", claimed)
		if took < higherUnused || !rival.Less(w.inStore().By) {
			t.Errorf("after %s by %s", took, w.inStore().By)
		}
	})
}

// A queue that cannot be listed is as it was, and said to be not listed; so it is where
// nobody can read how commands ended. Once it can, it is known.
func TestQueueThatIsNotListed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		if _, err := a.o.Control.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.o.Control.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup}); err != nil {
			t.Fatal(err)
		}
		fail := func(op memory.Op, part string) {
			w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == op && strings.Contains(c.Key, part) {
					return memory.Fault{Err: errors.New("access denied")}
				}
				return memory.Fault{}
			})
		}
		tm := a.term()
		sees := func(what, want string) {
			t.Helper()
			time.Sleep(queueEvery)
			o, _ := tm.observe(t.Context())
			if !o.Store.Read || len(o.Commands) != 1 || (o.Unlisted == "") != (want == "") || !strings.Contains(o.Unlisted, want) {
				t.Errorf("%s: read %t, %d commands, not listed: %q", what, o.Store.Read, len(o.Commands), o.Unlisted)
			}
		}
		sees("all is well", "")
		fail(memory.List, "")
		sees("no list", "access denied")
		w.store.Inject(nil)
		sees("all is well again", "")
		fail(memory.Get, "ended")
		sees("no ends", "access denied")
		w.store.Inject(nil)
		sees("all is well again", "")
	})
}

// One command that the store does not give is known by its name, and is not said to be
// malformed: nothing is known against it.
func TestUnreadCommand(t *testing.T) {
	c := (&Manager{}).watch.lookUp(t.Context(), asCommand(control.Command{Name: "n", Unread: errors.New("connection reset")}, nil), queue{})
	if c.Name != "n" || c.Unread != "connection reset" || c.Malformed != "" {
		t.Errorf("%+v", c)
	}
}

// A daemon that did not listen for a while asks the others itself: that it has not heard
// from them is no sign of theirs.
func TestDeafDaemonAsks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.add("a"), w.add("b")
		b.done = make(chan struct{}) // it answers, and does not lead
		close(b.done)
		a.gossip.hear(cluster.Ping{Cluster: clusterName, Host: "b", Disk: "disk-b", Endpoint: endpoint("b"), Epoch: 1})
		tm := a.term()
		sees := func(what string, want bool) {
			t.Helper()
			o, _ := tm.observe(t.Context())
			if _, there := o.Host("b"); there != want {
				t.Errorf("%s: host b is in sight: %t, want %t; %v", what, there, want, o.Gaps)
			}
		}
		sees("heard a moment ago", true)
		time.Sleep(time.Minute)
		a.gossip.round() // in time, as far as it knows
		sees("silent for a minute", false)
		a.gossip.mu.Lock()
		a.gossip.hearing.roundDue = time.Now().Add(-2 * deafAfter)
		a.gossip.mu.Unlock()
		sees("the next round is late", true)
		a.gossip.round()
		sees("a round after that, nobody had time to answer", true)
		w.dead["b"] = true
		if o, _ := tm.observe(t.Context()); true {
			if g, ok := o.HostGap("b"); !ok || g.Kind != cluster.GapUnreachable || g.Heard {
				t.Errorf("one that is gone is not heard: %+v", g)
			}
		}
		w.dead["b"] = false
		for range 10 {
			time.Sleep(time.Second)
			a.gossip.round()
			a.gossip.mu.Lock()
			a.gossip.hearing.roundDue = time.Now().Add(2 * time.Second)
			a.gossip.mu.Unlock()
		}
		sees("it has listened for long again", false)
	})
}

// logged keeps whether the end of the log was asked for.
type logged struct {
	*fakeHost
	log bool
}

func (l *logged) Observe(ctx context.Context, r cluster.ObserveRequest) cluster.ObserveReply {
	l.log = r.Log
	return l.fakeHost.Observe(ctx, r)
}

// While a recovery is being founded the hosts are asked how far their logs go: one of them
// may have come back with more.
func TestAsksForLogsWhileARecoveryIsFounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		local := &logged{}
		a := w.add("a", func(o *Options) { local.fakeHost = o.Local.(*fakeHost); o.Local = local })
		tm := a.term()
		for _, kind := range []string{cluster.SourceBackup, cluster.SourceSurvivor} {
			tm.intent = intent()
			tm.intent.State, tm.intent.Source.Kind = cluster.IntentFounding, kind
			if tm.observe(t.Context()); local.log != (kind == cluster.SourceSurvivor) {
				t.Errorf("founding from a %s: asked for logs: %t", kind, local.log)
			}
		}
	})
}

// A host whose store does not have a founding that a single host remembers is no worse a
// leader for that.
func TestLacksNoFoundingInDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		seen := w.stored(a, byAnother)
		o := seenBy(seen, 3)
		founding := seen.view.Intent.Clone()
		founding.Generation, founding.Nonce, founding.State = 2, "m", cluster.IntentFounding
		founding.History = []cluster.PastGeneration{{Generation: 1, Voters: [][]cluster.Voter{founding.Voters}}}
		o.Hosts[2].Intent = founding
		if a.watch.Remembered(o, seen); a.watch.lacking != nil {
			t.Errorf("it is said to lack %+v", a.watch.lacking)
		}
		founding.State = cluster.IntentFounded
		if a.watch.Remembered(o, seen); a.watch.lacking == nil {
			t.Error("it is not said to lack a generation that was founded")
		}
	})
}

// A write that was called off tells nothing of the store.
func TestCalledOffIsNotRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		a.report.Wrote("intent", "cannot write", control.ErrCalledOff)
		if len(a.report.unwritten) != 0 {
			t.Errorf("not taken: %v", a.report.unwritten)
		}
		a.report.Wrote("intent", "cannot write", &control.NotTakenError{Err: errors.New("read-only file system")})
		a.report.Wrote("intent", "cannot write", control.ErrCalledOff)
		if len(a.report.unwritten) != 1 {
			t.Error("a write that was not sent is taken for one that was")
		}
	})
}

// A look that shows a queue which cannot be listed, or a command that cannot be read,
// shows something new.
func TestWhatIsNotReadIsNews(t *testing.T) {
	listed := queue{commands: []cluster.Command{{Name: "n"}}}
	for what, other := range map[string]queue{
		"not listed": {commands: listed.commands, unlisted: "denied"},
		"not read":   {commands: []cluster.Command{{Name: "n", Unread: "denied"}}},
	} {
		if listed.same(other) || other.same(listed) {
			t.Errorf("%s: as before", what)
		}
	}
	if reset, denied := (queue{unlisted: "reset"}), (queue{unlisted: "denied"}); !reset.same(denied) {
		t.Error("other words for it are news")
	}
}
