package manager

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
	"etcdadm.io/plan"
)

// Only facts that came with this very promise count as being under the fence, and only
// from the host that was asked.
func TestTakeOfAnAnswer(t *testing.T) {
	fence := cluster.Fence{Number: 7, Host: "a"}
	state := func(change func(*cluster.HostState)) cluster.ObserveReply {
		s := &cluster.HostState{Host: "b", Cluster: "c", Promised: fence}
		change(s)
		return cluster.ObserveReply{State: s, Stamp: "s"}
	}
	for name, c := range map[string]struct {
		reply      cluster.ObserveReply
		under, gap bool
	}{
		"promised":              {state(func(*cluster.HostState) {}), true, false},
		"a lower promise":       {state(func(s *cluster.HostState) { s.Promised.Number = 6 }), false, false},
		"another's promise":     {state(func(s *cluster.HostState) { s.Promised.Host = "x" }), false, false},
		"no stamp":              {cluster.ObserveReply{State: state(func(*cluster.HostState) {}).State}, false, false},
		"another host":          {state(func(s *cluster.HostState) { s.Host = "d" }), false, true},
		"a host of another one": {state(func(s *cluster.HostState) { s.Cluster = "d" }), false, true},
	} {
		o := &cluster.Observation{Cluster: "c"}
		new(term).take(o, cluster.ObserveRequest{Fence: fence}, answer{host: "b", reply: c.reply})
		if c.gap {
			if len(o.Hosts) != 0 || len(o.Gaps) != 1 {
				t.Errorf("%s: hosts %v, gaps %v", name, o.Hosts, o.Gaps)
			}
		} else if len(o.Hosts) != 1 || o.Hosts[0].UnderFence != c.under {
			t.Errorf("%s: %+v", name, o.Hosts)
		}
	}
}

// What keeps a host busy decides whether it is waited for.
func TestTakeOfABusyHost(t *testing.T) {
	for what, c := range map[string]struct {
		busy cluster.Busy
		want cluster.Gap
		work bool
	}{
		"an op":            {cluster.Busy{Op: cluster.Op{Kind: cluster.OpDefragment}}, cluster.Gap{Op: cluster.OpDefragment}, true},
		"one that is late": {cluster.Busy{Op: cluster.Op{Kind: cluster.OpDefragment}, Why: "x"}, cluster.Gap{Op: cluster.OpDefragment, Late: true}, false},
		"its disk":         {cluster.Busy{Op: cluster.Op{Kind: cluster.OpPromise}}, cluster.Gap{Op: cluster.OpPromise}, false},
		"its start":        {cluster.Busy{Op: cluster.Op{Kind: cluster.OpBoot}}, cluster.Gap{Op: cluster.OpBoot}, false},
		"one that waits":   {cluster.Busy{Op: cluster.Op{Kind: cluster.OpBoot}, Awaits: "for its disk"}, cluster.Gap{Op: cluster.OpBoot, Detail: ": for its disk"}, false},
	} {
		o := &cluster.Observation{Cluster: "c"}
		new(term).take(o, cluster.ObserveRequest{}, answer{host: "b", reply: cluster.ObserveReply{Busy: &c.busy}})
		g, _ := o.HostGap("b")
		if g.Kind != cluster.GapBusy || g.Op != c.want.Op || g.Late != c.want.Late || g.AtWork() != c.work || !strings.HasPrefix(g.Detail, "it carries out ") || !strings.HasSuffix(g.Detail, c.want.Detail) {
			t.Errorf("%s: %+v", what, g)
		}
	}
}

// The leader's own host is waited for like any other: one whose disk stands still
// is not seen, and not gone.
func TestOwnHostDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.add("a", func(o *Options) { o.Local = stalledHost{o.Local} })
		o := &cluster.Observation{Cluster: clusterName}
		at := time.Now()
		(&term{m: n.Manager}).observeHosts(t.Context(), o, cluster.ObserveRequest{})
		if took, most := time.Since(at), n.o.Intervals.ObserveTimeout; took > most {
			t.Errorf("it took %s, and the time is %s", took, most)
		}
		if g, _ := o.HostGap("a"); g.Kind != cluster.GapUnreachable || !g.Heard || !strings.Contains(g.Detail, "stands still") || g.AtWork() {
			t.Errorf("%+v", g)
		}
	})
}

type stalledHost struct{ Local }

func (stalledHost) Observe(ctx context.Context, _ cluster.ObserveRequest) cluster.ObserveReply {
	<-ctx.Done()
	return cluster.ObserveReply{Busy: &cluster.Busy{Op: cluster.Op{Kind: cluster.OpPromise}, Why: "its disk stands still"}}
}

// The newest intent of ours is kept to be handed to the hosts: never an older one, nor
// one of a store of another cluster.
func TestKeepIntent(t *testing.T) {
	in := func(generation uint64, name string) *cluster.Intent {
		return &cluster.Intent{Name: name, Generation: generation, Nonce: "n", State: cluster.IntentFounded}
	}
	kept := in(2, "c")
	for what, c := range map[string]struct {
		seen *cluster.Intent
		look look
		want uint64
	}{
		"newer":            {in(3, "c"), look{}, 3},
		"older":            {in(1, "c"), look{}, 2},
		"foreign":          {in(3, "c"), look{foreign: true}, 2},
		"of another name":  {in(3, "d"), look{}, 2},
		"not ours to keep": {&cluster.Intent{State: cluster.IntentFounded}, look{}, 2},
	} {
		tm := &term{intent: kept}
		o := &cluster.Observation{Cluster: "c", Store: cluster.StoreView{Read: true, Marker: true, Intent: c.seen}}
		if tm.keepIntent(o, c.look); tm.intent.Generation != c.want {
			t.Errorf("%s: generation %d is kept, want %d", what, tm.intent.Generation, c.want)
		}
	}
	// A founding that the store has, and that nobody follows any more: what was to make way
	// for it has served since.
	aged := in(3, "c")
	aged.State, aged.Source.Kind = cluster.IntentFounding, cluster.SourceBackup
	aged.History = []cluster.PastGeneration{{Generation: 2, Cluster: 5, Voters: [][]cluster.Voter{{{Host: "a", Member: 'a'}}}}}
	tm := &term{intent: kept}
	o := &cluster.Observation{Cluster: "c", At: time.Now(), Store: cluster.StoreView{Read: true, Marker: true, Intent: aged}}
	if tm.keepIntent(o, look{}); tm.intent != kept || o.Intent() != aged {
		t.Errorf("generation %d is kept, in doubt: %q", tm.intent.Generation, o.DoubtOf(aged))
	}
	// One that was followed, and is in doubt by now, is handed on no longer.
	tm.intent = aged
	tm.keepIntent(o, look{})
	if tm.intent != nil {
		t.Errorf("generation %d is handed on", tm.intent.Generation)
	}
	o.Hosts = []cluster.HostReport{{HostState: cluster.HostState{Host: "a", Intent: kept}}}
	tm.intent = aged
	tm.keepIntent(o, look{})
	if tm.intent != kept {
		t.Errorf("%+v is handed on in its place", tm.intent)
	}
}

// One of two foundings of a number is handed to nobody, and one that was handed on before
// is not any more: a person who begins the odd host anew is rid of it.
func TestOneOfTwoFoundingsIsNotHandedOn(t *testing.T) {
	founding := func(nonce string) *cluster.Intent {
		return &cluster.Intent{Name: "c", Generation: 2, Nonce: nonce, State: cluster.IntentFounding, Source: cluster.Source{Kind: cluster.SourceBackup},
			History: []cluster.PastGeneration{{Generation: 1, Cluster: 5, Voters: [][]cluster.Voter{{{Host: "a", Member: 'a'}, {Host: "b", Member: 'b'}}}}}}
	}
	report := func(h cluster.HostID, in *cluster.Intent) cluster.HostReport {
		var r cluster.HostReport
		r.Host, r.Intent = h, in
		return r
	}
	odd, most := founding("odd"), founding("most")
	before := &cluster.Intent{Name: "c", Generation: 1, Nonce: "n", State: cluster.IntentFounded, Cluster: 5}
	seen := func(in *cluster.Intent, hosts ...cluster.HostReport) *cluster.Observation {
		return &cluster.Observation{Cluster: "c", Store: cluster.StoreView{Read: true, Marker: true, Intent: in}, Hosts: hosts}
	}
	for what, o := range map[string]*cluster.Observation{
		"a host has the other": seen(before, report("e", odd), report("a", most), report("b", most)),
		"the store has one":    seen(odd, report("a", most), report("b", most)),
		"the store has both's": seen(most, report("e", odd), report("a", most), report("b", most)),
	} {
		for _, kept := range []*cluster.Intent{nil, odd, most} {
			tm := &term{intent: kept}
			if tm.keepIntent(o, look{}); tm.intent != nil {
				t.Errorf("%s: the founding %s is handed on", what, tm.intent.Nonce)
			}
		}
	}
	tm := &term{intent: odd}
	if tm.keepIntent(seen(before, report("a", most), report("b", most)), look{}); tm.intent != most {
		t.Errorf("without the odd host: %+v is handed on", tm.intent)
	}
}

// A store lacks what the hosts remember if it was read, and has an earlier generation
// or the same one under another nonce.
func TestLacks(t *testing.T) {
	in := &cluster.Intent{Name: "c", Generation: 2, Nonce: "n"}
	has := func(generation uint64, nonce string) look {
		return look{view: cluster.StoreView{Read: true, Intent: &cluster.Intent{Name: "c", Generation: generation, Nonce: nonce}}}
	}
	unread := has(1, "n")
	unread.view.Read = false
	for what, c := range map[string]struct {
		look look
		want bool
	}{
		"it": {has(2, "n"), false}, "later": {has(3, "x"), false}, "earlier": {has(1, "n"), true}, "another": {has(2, "x"), true},
		"unread": {unread, false}, "none": {look{view: cluster.StoreView{Read: true}}, true},
	} {
		if got := c.look.lacks(in); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A command that ended, and is still in the queue, is known to have ended; one that
// says something that is not known is not run.
func TestCommandsThatAreNotRun(t *testing.T) {
	c := control.Command{Name: "n", Restore: &control.RestoreBackup{Backup: "b", Flags: []string{"unless=x"}}}
	got := asCommand(c, []control.Ended{{Name: "m", Result: "failed"}, {Name: "n", Result: "done"}})
	if got.Ended != "done" || got.Malformed == "" {
		t.Errorf("%+v", got)
	}
	if other := asCommand(c, []control.Ended{{Name: "m", Result: "failed"}}); other.Ended != "" {
		t.Errorf("another's end: %+v", other)
	}
}

// lostNetwork loses the answers of ops.
type lostNetwork struct{ Network }

func (lostNetwork) Apply(context.Context, cluster.Contact, cluster.ApplyRequest) (cluster.ApplyReply, error) {
	return cluster.ApplyReply{}, errors.New("connection reset")
}

// An op whose answer was lost may have taken effect, and is not taken for done.
func TestLostAnswerOfAnOp(t *testing.T) {
	m := &Manager{self: "a", o: Options{Network: lostNetwork{}}, said: say.NewOnce(slog.Default()), gossip: &Gossip{peers: map[cluster.HostID]*peerState{"b": {}}}}
	r := m.apply(t.Context(), plan.HostOp{Host: "b"}, cluster.Fence{Number: 1, Host: "a"})
	if r.Outcome != cluster.OutcomeUnknown {
		t.Errorf("a lost answer: %+v", r)
	}
	if r := m.apply(t.Context(), plan.HostOp{Host: "c"}, cluster.Fence{Number: 1, Host: "a"}); r.Outcome != cluster.OutcomeRefused {
		t.Errorf("a host that nobody knows: %+v", r)
	}
}

// What a cluster was seen to have reached is held against that cluster only, and a
// person's words come with what the person saw.
func TestWhatIsReadIsOfThisCluster(t *testing.T) {
	r := control.Record{Revision: 9, Clusters: []control.ClusterRecord{{Cluster: 1, Term: 1, Index: 10}, {Cluster: 2, Term: 5, Index: 50}}}
	for cl, want := range map[cluster.ClusterID]cluster.Progress{
		1: {Revision: 9, Term: 1, Index: 10}, 2: {Revision: 9, Term: 5, Index: 50}, 3: {Revision: 9}, 0: {Revision: 9},
	} {
		if got := recordedOf(r, &cluster.Intent{Cluster: cl}); got != want {
			t.Errorf("of cluster %d: %+v, want %+v", cl, got, want)
		}
	}
	if got := recordedOf(r, nil); got != (cluster.Progress{Revision: 9}) {
		t.Errorf("of none: %+v", got)
	}
	seen := &cluster.Seen{}
	c := asCommand(control.Command{Name: "n", Wish: &control.Wish{Kind: cluster.CommandUndo, Host: "a", Dir: "d", Seen: seen, Lost: []cluster.HostID{"b"}}}, nil)
	if c.Seen != seen || c.Host != "a" || c.Dir != "d" || len(c.Lost) != 1 {
		t.Errorf("%+v", c)
	}
}

// A host that the static configuration names is not forgotten, and a daemon that does
// not lead begins no leadership.
func TestNamedHostIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a", func(o *Options) {
			o.Spec = &cluster.Spec{MemberCount: 3, EtcdVersion: version, Hosts: []cluster.HostID{"a", "b", "c"}}
		})
		if err := a.Forget("b"); !errors.Is(err, ErrStillThere) || len(a.host.forgot) != 0 {
			t.Errorf("it was forgotten: %v", err)
		}
		if err := a.Forget("x"); err != nil || len(a.host.forgot) != 1 {
			t.Errorf("another was not: %v", err)
		}
		if ctx, _ := a.gossip.Lead(t.Context()); ctx != nil {
			t.Error("it leads, and nobody elected it")
		}
	})
}

// A step against the spec is taken when the spec is on hold, and not before: who leads
// next would undo it. Without the store it is taken where the person said so.
func TestHoldComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		w.put("control/etcd-cluster-spec", `{"memberCount":3,"etcdVersion":"3.6.16"}`)
		held := func() bool {
			read, err := a.o.Control.ReadSpec(t.Context())
			return err == nil && read.Spec != nil && read.Spec.Hold
		}
		step := func(g plan.Goal) (*term, error) {
			tm := &term{m: a.Manager, request: &request{asked: GoalRequest{Goal: g}}}
			return tm, tm.holdFirst(t.Context())
		}
		if tm, err := step(plan.Goal{}); err != nil || tm.request.held || held() {
			t.Errorf("nobody asked for a hold: %v", err)
		}
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			return memory.Fault{Err: errors.New("connection reset")}
		})
		if tm, err := step(plan.Goal{Hold: true}); err == nil || tm.request.held {
			t.Error("the step goes on although the hold could not be written")
		}
		if tm, err := step(plan.Goal{Hold: true, NoStore: true}); err != nil || !tm.request.held {
			t.Errorf("without the store: %v", err)
		}
		w.store.Inject(nil)
		if tm, err := step(plan.Goal{Hold: true}); err != nil || !tm.request.held || !held() {
			t.Errorf("the spec is not on hold: %v", err)
		}
		// The loop asks for it before it acts.
		var on []bool
		b := w.add("b", func(o *Options) {
			o.Planner = func(g plan.Goal, o *cluster.Observation) plan.Decision {
				if h, ok := o.Host("b"); ok && g.Hold {
					return plan.Decision{Rule: "test", Action: &plan.Action{Kind: plan.ActHosts, Ops: []plan.HostOp{{Host: "b", Disk: h.Disk, Stamp: h.Stamp, Op: cluster.Op{Kind: cluster.OpStop}}}}}
				}
				return plan.Decision{Rule: "test", Done: true}
			}
		})
		if err := a.o.Control.Settings().Hold(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		b.host.apply = func(context.Context, cluster.ApplyRequest) cluster.ApplyReply {
			on = append(on, held())
			return cluster.ApplyReply{Outcome: cluster.OutcomeDone}
		}
		w.run(b)
		w.untilLeads(20*time.Second, "b")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _ = b.Goal(ctx, GoalRequest{Goal: plan.Goal{Kind: plan.Converge, Hold: true}, Within: 3 * time.Second})
		b.host.mu.Lock()
		defer b.host.mu.Unlock()
		if len(on) == 0 || !on[0] {
			t.Errorf("at each step the spec was on hold: %v", on)
		}
	})
}

// What a daemon was told goes for a spec that leaves it open, and for no other, and is
// not written into the spec that was read.
func TestSpecIsCompleted(t *testing.T) {
	m := &Manager{o: Options{DeadAfter: time.Hour, AutoRecoverAfter: time.Minute}}
	open := &cluster.Spec{MemberCount: 3}
	if c := m.completed(open); c.DeadAfter != time.Hour || c.AutoRecoverAfter != time.Minute || c.MemberCount != 3 || open.DeadAfter != 0 {
		t.Errorf("%+v of %+v", c, open)
	}
	if c := m.completed(&cluster.Spec{DeadAfter: 2 * time.Hour, AutoRecoverAfter: time.Second}); c.DeadAfter != 2*time.Hour || c.AutoRecoverAfter != time.Second {
		t.Errorf("%+v", c)
	}
	if m.completed(nil) != nil {
		t.Error("of no spec one was made")
	}
	if (Options{}).withDefaults().Planner == nil {
		t.Error("without a planner nothing decides")
	}
}

// A step that is taken over and over is slowed down, and no other for it; a wake-up
// does not wait for all of that.
func TestPace(t *testing.T) {
	var p pace
	same := &plan.Action{Kind: plan.ActHosts, Ops: []plan.HostOp{{Host: "a", Op: cluster.Op{Kind: cluster.OpStart}}}}
	other := &plan.Action{Kind: plan.ActHosts, Ops: []plan.HostOp{{Host: "b", Op: cluster.Op{Kind: cluster.OpStart}}}}
	for range paceFree {
		if wait := p.after(same, true); wait != 0 {
			t.Errorf("at first it waits %s", wait)
		}
	}
	var wait time.Duration
	for range 2 * paceSteady {
		wait = p.after(same, true)
	}
	if wait != paceMost {
		t.Errorf("in the end it waits %s", wait)
	}
	if hold := p.hold(time.Now()); hold <= 0 || hold > time.Second {
		t.Errorf("a wake-up waits %s", hold)
	}
	if wait := p.after(other, true); wait != 0 {
		t.Errorf("another step waits %s", wait)
	}
}

// How a command ended is kept with what it was about, and not with what another was.
func TestEndOfACommandSaysWhatItWas(t *testing.T) {
	folder := control.New(memory.New(), "c")
	m := &Manager{o: Options{Control: folder, Intervals: Intervals{WriteTimeout: time.Minute}}, log: slog.Default(), said: say.NewOnce(slog.Default()), watch: &Watcher{}}
	tm := &term{m: m, last: &cluster.Observation{Commands: []cluster.Command{
		{Name: "n", Kind: cluster.CommandRestore, Backup: "b"},
		{Name: "o", Kind: cluster.CommandUndo, Host: "h", Dir: "d"},
		{Name: "p", Kind: cluster.CommandBackup},
	}}}
	for command, name := range map[string]string{"": "periodic", "p": "taken"} {
		var h cluster.HostReport
		h.Taken = &cluster.Taken{Command: command, Backup: &cluster.Backup{Name: name}}
		tm.last.Hosts = append(tm.last.Hosts, h)
	}
	for _, name := range []string{"n", "p"} {
		if !tm.endCommand(t.Context(), &plan.CommandEnd{Name: name, Result: "done", Reason: "r"}) {
			t.Fatal("it was not ended")
		}
	}
	all, err := folder.EndedCommands(t.Context())
	if err != nil || len(all) != 2 || all[1].Backup != "taken" || all[0].Kind != cluster.CommandRestore || all[0].Backup != "b" || all[0].Host != "" || all[0].Dir != "" || all[0].Reason != "r" {
		t.Errorf("%+v, %v", all, err)
	}
}

// Who joins is told of a cluster that something else founded, and of no other: what
// is left of that in the store says nothing of one that is ours.
func TestJoiningIsOfAnAdoption(t *testing.T) {
	folder := control.New(memory.New(), "c")
	if err := folder.PutJoining(t.Context(), "", &control.Joining{Cluster: 9}); err != nil {
		t.Fatal(err)
	}
	joining := func() bool {
		var l look
		l.readIntent(t.Context(), &Watcher{WatchOptions: WatchOptions{Control: folder}}, look{})
		return l.view.Joining
	}
	if joining() {
		t.Error("nothing was founded")
	}
	in := &cluster.Intent{Name: "c", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 9}
	if _, err := folder.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if joining() {
		t.Error("the cluster is ours")
	}
}

// Where it cannot be read who joins, somebody may: the store does not count as read, so that nothing is made over its marker.
func TestJoiningIsNotKnown(t *testing.T) {
	store := memory.New()
	folder := control.New(store, "c")
	if err := folder.MarkForeign(t.Context(), cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	look := func() (l look) {
		l.readIntent(t.Context(), &Watcher{WatchOptions: WatchOptions{Control: folder}}, l)
		return l
	}
	if l := look(); !l.view.Read || l.view.Joining {
		t.Errorf("nobody joins: %+v", l.view)
	}
	store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if strings.Contains(c.Key, "joining") {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	})
	if l := look(); l.view.Read || !l.view.Joining || len(l.gaps) != 1 {
		t.Errorf("it is not known who joins: %+v, %v", l.view, l.gaps)
	}
}
