package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// TestEveryFactCounts takes a world in which a rule acts, and one fact after
// the other away: then the rule must not do that any more. It stands for the
// mutations that drop a condition.
func TestEveryFactCounts(t *testing.T) {
	type fact struct {
		name string
		take func(o *cluster.Observation)
	}
	host := func(id cluster.HostID, change func(h *cluster.HostReport)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			h, _ := o.Host(id)
			change(h)
		}
	}
	for _, c := range []struct {
		name  string
		world func(t *testing.T) *world
		op    cluster.OpKind
		facts []fact
	}{
		{"promote", learnerCaughtUp, cluster.OpPromote, []fact{
			{"its host's promise", host("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its health", host("d", func(h *cluster.HostReport) { h.Status.Healthy = false })},
			{"its process", host("d", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessSilent })},
			{"its own word that it is a learner", host("d", func(h *cluster.HostReport) { h.Status.Learner = false })},
			{"its place in the log", host("d", func(h *cluster.HostReport) { h.Status.Applied = 0 })},
			{"the written change", func(o *cluster.Observation) { o.Store.Intent.Next = nil; forgetKept(o) }},
			{"the store", func(o *cluster.Observation) { o.Store.Read = false }},
			{"raft's word", hearsay},
		}},
		{"start of a joiner", learnerAdded, cluster.OpStart, []fact{
			{"its promise", host("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its preparation", host("d", func(h *cluster.HostReport) { h.Local.State = cluster.MemberNone })},
			{"the member is not older than it", host("d", func(h *cluster.HostReport) { h.Local.Known = append(h.Local.Known, 0xc101) })},
			{"its cluster", host("d", func(h *cluster.HostReport) { h.Local.Cluster = 9 })},
			{"its generation", host("d", func(h *cluster.HostReport) { h.Local.Generation = 9 })},
			{"that it refuses nothing", host("d", func(h *cluster.HostReport) { h.LowestGeneration = 9 })},
			{"that its disk is empty", host("d", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"a release", host("d", func(h *cluster.HostReport) { h.Releases = nil })},
		}},
		{"add", hostPrepared, cluster.OpAddLearner, []fact{
			{"its promise", host("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its preparation", host("d", func(h *cluster.HostReport) { h.Local = cluster.LocalMember{} })},
			{"a preparation for exactly these members", host("d", func(h *cluster.HostReport) { h.Local.Known = h.Local.Known[1:] })},
			{"a preparation in this generation", host("d", func(h *cluster.HostReport) { h.Local.Generation = 9 })},
			{"its fitness", host("d", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"enough voters for etcd", host("c", func(h *cluster.HostReport) { h.Status.Healthy = false })},
			{"raft's word", hearsay},
		}},
		{"set aside", memberRemoved, cluster.OpSetAside, []fact{
			{"its promise", host("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"an earlier promise", func(o *cluster.Observation) { remember(o, "c").FenceSince = o.At }},
			{"a promise of this fence", func(o *cluster.Observation) { remember(o, "c").Fence = cluster.Fence{Number: 9, Host: "x"} }},
			{"its generation, a lower one that is not closed", func(o *cluster.Observation) {
				h, _ := o.Host("c")
				h.Local.Generation = 0
				o.Store.Intent.History = []cluster.PastGeneration{{Generation: 0}}
				forgetKept(o)
			}},
			{"its generation, a higher one", host("c", func(h *cluster.HostReport) { h.Local.Generation = 2 })},
			{"its cluster", host("c", func(h *cluster.HostReport) { h.Local.Cluster = 9 })},
			{"raft's word", hearsay},
		}},
		{"removal of the dead", voterDead, cluster.OpRemove, []fact{
			{"the silence", func(o *cluster.Observation) { o.Memory.Members = nil }},
			{"the time of silence", func(o *cluster.Observation) {
				for i := range o.Memory.Members {
					o.Memory.Members[i].SilentSince = o.At.Add(-time.Minute)
				}
			}},
			{"a quorum", host("b", func(h *cluster.HostReport) { h.Status.Healthy = false })},
			{"a host for its successor", host("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"the written change", func(o *cluster.Observation) { o.Store.Intent.Next = nil; forgetKept(o) }},
			{"the spec without a hold", func(o *cluster.Observation) { o.Spec.Hold = true }},
		}},
		{"restart without a leader", quorumLost, cluster.OpRestart, []fact{
			{"its promise", host("a", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its process", host("a", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessBackoff })},
			{"its generation", host("a", func(h *cluster.HostReport) { h.Local.Generation = 0 })},
			{"the time", func(o *cluster.Observation) { o.Memory.Members = nil }},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.world(t).observe()
			if !asksFor(Next(decision.Goal{Kind: decision.Converge}, o), c.op) {
				t.Fatalf("not asked for at all: %s", describe(Next(decision.Goal{Kind: decision.Converge}, o)))
			}
			for _, f := range c.facts {
				o := c.world(t).observe()
				f.take(o)
				d := Next(decision.Goal{Kind: decision.Converge}, o)
				if asksFor(d, c.op) {
					t.Errorf("asked for without %s: %s", f.name, describe(d))
				}
			}
		})
	}
}

func asksFor(d decision.Decision, k cluster.OpKind) bool {
	return d.Action != nil && d.Action.Kind == decision.ActHosts && d.Action.Ops[0].Op.Kind == k
}

func hearsay(o *cluster.Observation) {
	for i := range o.Hosts {
		if v := o.Hosts[i].View; v != nil {
			v.Linearizable = false
		}
	}
}

// forgetKept leaves the store's intent the only one.
func forgetKept(o *cluster.Observation) {
	for i := range o.Hosts {
		o.Hosts[i].Intent = nil
	}
}

func remember(o *cluster.Observation, id cluster.HostID) *cluster.HostMemory {
	for i := range o.Memory.Hosts {
		if o.Memory.Hosts[i].Host == id {
			return &o.Memory.Hosts[i]
		}
	}
	return nil
}

// formed is a cluster of a, b and c, with d to spare.
func formed(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.spec = &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}
	for _, id := range []cluster.HostID{"a", "b", "c", "d"} {
		w.addHost(id, cluster.MustVersion("3.6.16"))
	}
	w.steps(t, mostActions)
	return w
}

func (w *world) steps(t *testing.T, n int) {
	t.Helper()
	if _, err := w.run(decision.Goal{Kind: decision.Converge}, n, false, func(*cluster.Observation, decision.Decision, error) {}); err != nil {
		t.Fatal(err)
	}
}

func growing(t *testing.T, n int) *world {
	t.Helper()
	w := formed(t)
	w.spec.MemberCount = 5
	w.steps(t, n)
	return w
}

func hostPrepared(t *testing.T) *world { return growing(t, 1) }
func learnerAdded(t *testing.T) *world { return growing(t, 2) }
func learnerCaughtUp(t *testing.T) *world {
	w := growing(t, 4)
	w.advance(decision.Soon)
	return w
}

func memberRemoved(t *testing.T) *world {
	w := formed(t)
	c := w.clusters[0]
	c.members = c.members[:2]
	w.steps(t, 1) // settle
	return w
}

func voterDead(t *testing.T) *world {
	w := formed(t)
	w.host("c").down = true
	w.advance(3 * time.Minute)
	w.steps(t, 1) // written down
	return w
}

func quorumLost(t *testing.T) *world {
	w := formed(t)
	w.host("b").down, w.host("c").down = true, true
	w.advance(3 * time.Minute)
	return w
}

// TestNobodyRemovesItself: with no raft leader in sight any voter could make
// the call, but not the one that goes.
func TestNobodyRemovesItself(t *testing.T) {
	w := formed(t)
	w.spec.MemberCount, w.spec.Hosts = 1, []cluster.HostID{"b", "c"}
	w.steps(t, 2) // hand over, write down
	o := w.observe()
	for i := range o.Hosts {
		if st := o.Hosts[i].Status; st != nil {
			st.Leader = 0
		}
	}
	d := Next(decision.Goal{Kind: decision.Converge}, o)
	if d.Action == nil {
		t.Fatal(describe(d))
	}
	for _, broken := range brokenLaws(decision.Goal{Kind: decision.Converge}, o, d) {
		t.Error(broken)
	}
	for _, op := range d.Action.Ops {
		h, _ := o.Host(op.Host)
		if op.Op.Kind == cluster.OpRemove && op.Op.Member == h.Local.Member {
			t.Error(describe(d))
		}
	}
}
