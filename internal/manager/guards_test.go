package manager

import (
	"context"
	"errors"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
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
	} {
		o := &cluster.Observation{Cluster: "c"}
		new(term).take(o, cluster.ObserveRequest{}, answer{host: "b", reply: cluster.ObserveReply{Busy: &c.busy}})
		g, _ := o.HostGap("b")
		if g.Kind != cluster.GapBusy || g.Op != c.want.Op || g.Late != c.want.Late || g.AtWork() != c.work || !strings.HasPrefix(g.Detail, "it carries out ") {
			t.Errorf("%s: %+v", what, g)
		}
	}
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
	m := &Manager{self: "a", o: Options{Network: lostNetwork{}}, peers: map[cluster.HostID]*peerState{"b": {}}}
	r := m.apply(t.Context(), plan.HostOp{Host: "b"}, cluster.Fence{Number: 1, Host: "a"})
	if r.Outcome != cluster.OutcomeUnknown {
		t.Errorf("a lost answer: %+v", r)
	}
	if r := m.apply(t.Context(), plan.HostOp{Host: "c"}, cluster.Fence{Number: 1, Host: "a"}); r.Outcome != cluster.OutcomeRefused {
		t.Errorf("a host that nobody knows: %+v", r)
	}
}
