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

// What the hosts kept while the store did not answer, and what the store has meanwhile,
// are both in what is written back: a lost host that is forgotten is waited for again,
// and a command that is forgotten is run again.
func TestPrepareWhatWasNotStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		base := intent()
		base.Write, base.Lost, base.CommandsRun = 8, []cluster.HostID{"x", "y"}, []string{"c1", "c2"}
		kept := func() *cluster.Intent {
			in := intent()
			in.Write, in.Lost, in.CommandsRun = 5, []cluster.HostID{"z", "y"}, []string{"c2", "c3"}
			in.Unstored = cluster.Fence{Number: 7, Host: "b"}
			return in
		}
		seen := look{view: cluster.StoreView{Intent: base}}
		in, err := a.prepareIntent(&plan.IntentChange{Replace: kept()}, seen)
		if err != nil || !slices.Equal(in.Lost, []cluster.HostID{"x", "y", "z"}) || !slices.Equal(in.CommandsRun, []string{"c1", "c2", "c3"}) {
			t.Errorf("joined %+v, %v", in, err)
		}
		if in.Write != 9 || !in.Unstored.IsZero() {
			t.Errorf("write %d, unstored %s", in.Write, in.Unstored)
		}
		if len(base.Lost) != 2 || len(base.CommandsRun) != 2 {
			t.Errorf("what was seen was changed: %+v", base)
		}
		// The store has none: what was kept is counted, and nothing is joined.
		if in, err = a.prepareIntent(&plan.IntentChange{Create: kept()}, look{}); err != nil || in.Write != 6 || !in.Unstored.IsZero() || len(in.Lost) != 2 {
			t.Errorf("written back %+v, %v", in, err)
		}
		// What the planner took out of a list that is stored stays out.
		plain := kept()
		plain.Unstored = cluster.Fence{}
		if in, err = a.prepareIntent(&plan.IntentChange{Replace: plain}, seen); err != nil || !slices.Equal(in.Lost, plain.Lost) || in.Write != 9 {
			t.Errorf("replaced %+v, %v", in, err)
		}
		// Nor has another generation any part in it.
		later := kept()
		later.Generation = 2
		if in, err = a.prepareIntent(&plan.IntentChange{Replace: later}, seen); err != nil || !slices.Equal(in.Lost, later.Lost) || in.Write != 6 {
			t.Errorf("of another generation %+v, %v", in, err)
		}
	})
}

// A new generation keeps the token that data were built under, and an adopted one its
// members; founders without an ID each are none.
func TestMintGeneration(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		fresh := func(source string) *cluster.Intent {
			return &cluster.Intent{Name: clusterName, Generation: 2, Token: "built", Source: cluster.Source{Kind: source}, Cluster: 7, Founders: []cluster.Founder{{Host: "a", Member: 5}}}
		}
		in, err := a.prepareIntent(&plan.IntentChange{Replace: fresh(cluster.SourceBackup)}, look{})
		if err != nil || in.Token != "built" || in.Nonce == "" || in.Founders[0].Member != 'a' || in.Cluster != 99 {
			t.Errorf("from a backup: %+v, %v", in, err)
		}
		in, err = a.prepareIntent(&plan.IntentChange{Replace: fresh(cluster.SourceAdopted)}, look{})
		if err != nil || in.Founders[0].Member != 5 || in.Cluster != 7 {
			t.Errorf("adopted: %+v, %v", in, err)
		}
		ids := a.o.MemberIDs
		a.o.MemberIDs = func(token string, founders []cluster.Founder) ([]cluster.MemberID, cluster.ClusterID, error) {
			all, id, err := ids(token, founders)
			return all[:len(all)-1], id, err
		}
		if _, err := a.prepareIntent(&plan.IntentChange{Replace: fresh(cluster.SourceBackup)}, look{}); err == nil {
			t.Error("a founder without an ID was written down")
		}
	})
}

// Only what the store has taken is handed to the hosts as the record: not what it
// refused or may not have, nor an earlier one than is known.
func TestWrittenIntentIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		write := func(kept *cluster.Intent, c *plan.IntentChange, l look) (*cluster.Intent, bool) {
			tm := &term{m: a.Manager, fence: newFencing("a", cluster.Fence{}, a.o.Rand), intent: kept, looked: time.Now()}
			tm.last = &cluster.Observation{Fence: tm.fence.mine}
			took := tm.act(t.Context(), &plan.Action{Kind: plan.ActIntent, Intent: c}, l)
			return tm.intent, took
		}
		if kept, took := write(nil, &plan.IntentChange{Create: intent()}, look{}); !took || kept == nil || kept.Write != 1 {
			t.Fatalf("created: %+v, %t", kept, took)
		}
		_, _, tag, err := a.o.Control.ReadIntent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		change := &plan.IntentChange{Replace: intent()}
		if kept, took := write(nil, change, look{tag: "another"}); took || kept != nil {
			t.Errorf("over what nobody has read: %+v, %t", kept, took)
		}
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put {
				return memory.Fault{Err: errors.New("connection reset")}
			}
			return memory.Fault{}
		})
		if kept, took := write(nil, change, look{tag: tag}); took || kept != nil {
			t.Errorf("a write that failed: %+v, %t", kept, took)
		}
		w.store.Inject(nil)
		later := intent()
		later.Generation = 3
		if kept, took := write(later, change, look{tag: tag}); !took || kept.Generation != 3 {
			t.Errorf("beside a later one: %+v, %t", kept, took)
		}
	})
}

// What a person allowed to be done without the store is kept under the fence of who
// does it, as a write of its own.
func TestKeptWithoutTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		tm := &term{m: a.Manager, fence: &fencing{self: "a", mine: cluster.Fence{Number: 7, Host: "a"}, seen: cluster.Fence{Number: 9, Host: "b"}}, intent: intent(), looked: time.Now()}
		tm.last = &cluster.Observation{Fence: tm.fence.mine}
		given := intent()
		if !tm.act(t.Context(), &plan.Action{Kind: plan.ActIntent, Intent: &plan.IntentChange{Keep: given}}, look{}) {
			t.Fatal("it was not done")
		}
		if tm.intent.Unstored != tm.fence.mine || tm.intent.Write != 2 || given.Write != 1 {
			t.Errorf("kept %+v", tm.intent)
		}
		later := intent()
		later.Generation = 3
		if tm.intent = later; !tm.act(t.Context(), &plan.Action{Kind: plan.ActIntent, Intent: &plan.IntentChange{Keep: given}}, look{}) || tm.intent != later {
			t.Errorf("an earlier one is kept over %+v: %+v", later, tm.intent)
		}
	})
}

// sentNetwork keeps what is sent.
type sentNetwork struct {
	Network
	to   cluster.Contact
	sent cluster.ApplyRequest
}

func (n *sentNetwork) Apply(_ context.Context, to cluster.Contact, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	n.to, n.sent = to, r
	return cluster.ApplyReply{Outcome: cluster.OutcomeDone}, nil
}

// An op goes to its host with all that the host holds it against: the fence of this
// leadership, the disk, the stamp of what was observed, and the guard.
func TestOpCarriesItsConditions(t *testing.T) {
	n := &sentNetwork{}
	at := cluster.Contact{Host: "b", Endpoint: "b:8000"}
	m := &Manager{self: "a", o: Options{Network: n}, gossip: &Gossip{peers: map[cluster.HostID]*peerState{"b": {contact: at}}}}
	op := plan.HostOp{Host: "b", Disk: "d", Stamp: "s", Guard: cluster.Guard{Cluster: 5}, Op: cluster.Op{Kind: cluster.OpStop}}
	fence := cluster.Fence{Number: 7, Host: "a"}
	if r := m.apply(t.Context(), op, fence); r.Outcome != cluster.OutcomeDone || n.to != at {
		t.Errorf("%+v at %+v", r, n.to)
	}
	if s := n.sent; s.Fence != fence || s.Disk != "d" || s.Stamp != "s" || s.Guard.Cluster != 5 || s.Op.Kind != cluster.OpStop {
		t.Errorf("sent %+v", s)
	}
}

// A store that was not tried out yet is no store to lead by, and one that does not
// answer, or cannot be understood, is as it was and not read.
func TestStoreThatIsNotRead(t *testing.T) {
	s := memory.New()
	f := control.New(s, clusterName)
	if _, err := f.CreateIntent(t.Context(), intent()); err != nil {
		t.Fatal(err)
	}
	var l look
	local := &fakeHost{}
	w := NewWatcher(WatchOptions{Control: f, LastSpec: local.Spec, Remember: local.RememberSpec})
	if l.readIntent(t.Context(), w, look{}); l.view.Read || !l.view.Untried || l.view.Conditional || l.view.Intent == nil || len(l.gaps) != 1 || l.failed {
		t.Errorf("before it was tried out: %+v", l)
	}
	if _, err := f.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	l = look{}
	if l.readIntent(t.Context(), w, look{}); !l.view.Read || l.view.Untried || !l.view.Conditional || len(l.gaps) != 0 {
		t.Errorf("tried out: %+v", l)
	}
	s.Inject(func(context.Context, memory.Call) memory.Fault {
		return memory.Fault{Err: errors.New("connection reset")}
	})
	var gone look
	if gone.readIntent(t.Context(), w, l); gone.view.Read || !gone.failed || gone.tag != l.tag || gone.view.Intent != l.view.Intent || !gone.view.Marker || len(gone.gaps) != 1 {
		t.Errorf("it does not answer: %+v", gone)
	}
	spec := look{at: time.Now(), view: cluster.StoreView{Read: true}}
	if spec.readSpec(t.Context(), w, l); spec.view.Read || !spec.failed || spec.view.Specified || len(spec.gaps) != 1 {
		t.Errorf("its spec cannot be read: %+v", spec)
	}
	s.Inject(nil)
	other := memory.New()
	if _, err := other.Put(t.Context(), "control/etcd-cluster-created", strings.NewReader("{"), ""); err != nil {
		t.Fatal(err)
	}
	var odd look
	if odd.readIntent(t.Context(), NewWatcher(WatchOptions{Control: control.New(other, clusterName)}), look{}); odd.view.Read || odd.failed || !odd.view.Marker || len(odd.gaps) != 1 {
		t.Errorf("it cannot be understood: %+v", odd)
	}
}
