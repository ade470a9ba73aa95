package plan

import (
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// TestEveryFactOfAStepCounts is TestEveryFactCounts for steps that come up on the
// way of the small worlds: each is looked for, and then one fact after the other
// is taken away that it needs.
func TestEveryFactOfAStepCounts(t *testing.T) {
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
	follower := func(change func(h *cluster.HostReport)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			for i := range o.Hosts {
				if h := &o.Hosts[i]; h.Status != nil && h.Status.Member != h.Status.Leader {
					change(h)
					return
				}
			}
		}
	}
	every := func(change func(h *cluster.HostReport)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			for i := range o.Hosts {
				change(&o.Hosts[i])
			}
		}
	}
	member := func(change func(st *cluster.MemberStatus)) func(o *cluster.Observation) {
		return every(func(h *cluster.HostReport) {
			if h.Status != nil {
				change(h.Status)
			}
		})
	}
	just := func(o *cluster.Observation) { // as of this look
		o.Memory.Members = slices.Clone(o.Memory.Members)
		for i := range o.Memory.Members {
			o.Memory.Members[i].HealthySince = o.At
		}
	}
	for _, c := range []struct {
		name  string
		world func(t *testing.T) *world
		step  func(d decision.Decision) bool
		facts []fact
	}{
		{"record of an adopted cluster", small("adopting"), writes(func(in *cluster.Intent) bool { return in.Source.Kind == cluster.SourceAdopted }), []fact{
			{"one token", host("b", func(h *cluster.HostReport) { h.Local.Token = "another" })},
			{"one cluster", host("b", func(h *cluster.HostReport) { h.Local.Cluster = 0 })},
			{"a promise of each host", host("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"that each was taken over", host("b", func(h *cluster.HostReport) { h.Local.State = cluster.MemberRemoved })},
			{"that none is a learner", every(func(h *cluster.HostReport) { h.View.Members[1].Learner = true })},
			{"that no member is removed", every(func(h *cluster.HostReport) { h.View.Members = h.View.Members[:2] })},
			{"the marker", func(o *cluster.Observation) { o.Store.Marker, o.Store.Intent = false, nil }},
			{"the store", func(o *cluster.Observation) { o.Store.Read = false }},
			{"raft's word", hearsay},
		}},
		{"record that a founding serves", small("founding"), writes(func(in *cluster.Intent) bool { return in.State == cluster.IntentFounded }), []fact{
			{"a quorum", member(func(st *cluster.MemberStatus) { st.Healthy = false })},
			{"the store", func(o *cluster.Observation) { o.Store.Read = false }},
			{"raft's word", hearsay},
		}},
		{"restart with the next release", small("upgrading"), restarts, []fact{
			{"that the others have been up for a while", just},
			{"that the others keep up", member(func(st *cluster.MemberStatus) {
				if st.Member == st.Leader {
					st.Index += 2 * sight.NearEntries
					st.Applied = st.Index
				}
			})},
			{"that the others are up", member(func(st *cluster.MemberStatus) { st.Healthy = st.Member == st.Leader })},
			{"that they have agreed on a line", member(func(st *cluster.MemberStatus) { st.ClusterVersion = cluster.Version{} })},
			{"the release", every(func(h *cluster.HostReport) { h.Releases = h.Releases[:1] })},
		}},
		{"restart with the release before", small("downgrading"), restarts, []fact{
			{"that the others have been up for a while", just},
			{"that they have agreed on that line", member(func(st *cluster.MemberStatus) { st.ClusterVersion = cluster.MustVersion("3.6.0") })},
			{"that its data has that format", member(func(st *cluster.MemberStatus) { st.StorageVersion = cluster.MustVersion("3.6.0") })},
		}},
		{"certificates", small("tls"), asked(cluster.OpRestart), []fact{
			{"that the others have been up for a while", just},
			{"that the others are up", member(func(st *cluster.MemberStatus) { st.Healthy = st.Member == st.Leader })},
			{"a promise of each host", follower(func(h *cluster.HostReport) { h.UnderFence = false })},
		}},
		{"list with TLS", small("tls"), asked(cluster.OpUpdateURL), []fact{
			{"that the others have been up for a while", just},
			{"certificates of all", follower(func(h *cluster.HostReport) { h.Process.Differs = []string{sight.PeerAuthority} })},
			{"that all want it", follower(func(h *cluster.HostReport) { h.URLs.Peer = slices.Clone(h.Local.URLs.Peer) })},
		}},
		{"removal of a wiped voter", small("replacing"), asked(cluster.OpRemove), []fact{
			{"its host's promise", host("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"that its host runs nothing", host("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"that its host holds nothing of others", host("b", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"that nobody else runs it", host("b", func(h *cluster.HostReport) { h.Predecessor = &cluster.Predecessor{Held: true, Waits: "it runs"} })},
			{"raft's word", hearsay},
		}},
		{"close of a generation", small("restoring"), writes(func(in *cluster.Intent) bool {
			return in.State == cluster.IntentFounding && len(in.History) > 0 && in.History[0].Closed
		}), []fact{
			{"promises to this leader", every(func(h *cluster.HostReport) { h.UnderFence = h.Host == "a" })},
			{"promises of this generation", every(func(h *cluster.HostReport) {
				if h.Host != "a" {
					h.LowestGeneration, h.Intent = 1, nil
				}
			})},
			{"that members have stopped", every(func(h *cluster.HostReport) {
				if h.Host != "a" {
					h.Process.State = cluster.ProcessRunning
				}
			})},
			{"the word of hosts that refuse", func(o *cluster.Observation) { // another one at their address speaks for nobody that answers
				for i := range o.Hosts {
					h := &o.Hosts[i]
					if h.Host == "a" {
						continue
					}
					o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapRefused, Host: h.Host, Detail: "it promised another"})
					h.Host, h.Local = "x"+h.Host, cluster.LocalMember{}
				}
				o.Sort()
			}},
			{"the store", func(o *cluster.Observation) { o.Store.Read = false }},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ripe(t, c.world(t), c.step)
			for _, f := range c.facts {
				o := ripe(t, c.world(t), c.step)
				f.take(o)
				if d := Next(decision.Goal{Kind: decision.Converge}, o); c.step(d) {
					t.Errorf("done without %s: %s", f.name, describe(d))
				}
			}
		})
	}
}

// small is a small world by its name.
func small(name string) func(t *testing.T) *world {
	return func(t *testing.T) *world {
		for _, c := range smallWorlds {
			if c.name == name {
				return c.make(t)
			}
		}
		t.Fatalf("there is no small world %q", name)
		return nil
	}
}

// ripe goes on until a step is the next one, and gives what it is decided from.
func ripe(t *testing.T, w *world, step func(decision.Decision) bool) *cluster.Observation {
	t.Helper()
	for range 300 {
		o := w.observe()
		d := Next(decision.Goal{Kind: decision.Converge}, o)
		if step(d) {
			return o
		}
		if d.Action != nil {
			if err := w.act(d.Action); err != nil {
				t.Fatal(err)
			}
		}
		w.advance(max(d.Again, decision.Soon))
	}
	t.Fatal("it does not come to that step")
	return nil
}

func asked(k cluster.OpKind) func(decision.Decision) bool {
	return func(d decision.Decision) bool { return asksFor(d, k) }
}

func restarts(d decision.Decision) bool {
	return asksFor(d, cluster.OpRestart) && d.Action.Ops[0].Op.Changes
}

func writes(what func(*cluster.Intent) bool) func(decision.Decision) bool {
	return func(d decision.Decision) bool {
		return d.Action != nil && d.Action.Kind == decision.ActIntent && d.Action.Intent.Replace != nil && what(d.Action.Intent.Replace)
	}
}

// TestGenerationIsAboveEveryPromise: a host that refuses generations below some
// number could have no part in one of a lower number.
func TestGenerationIsAboveEveryPromise(t *testing.T) {
	begins := func(d decision.Decision) bool {
		in := change(d)
		return in != nil && in.Nonce == "" && in.Source.FromData()
	}
	o := ripe(t, small("restoring")(t), begins)
	h, _ := o.Host("c")
	h.LowestGeneration = 7
	d := Next(decision.Goal{Kind: decision.Converge}, o)
	if in := change(d); in != nil && in.Nonce == "" && in.Generation < 7 {
		t.Errorf("generation %d is begun, and host c refuses what is below 7", in.Generation)
	}
}

func change(d decision.Decision) *cluster.Intent {
	if d.Action == nil || d.Action.Intent == nil {
		return nil
	}
	return d.Action.Intent.Replace
}

// TestStoppedMemberThatWasRemovedStays: what was stopped for a recovery which
// nobody asks for any more is not started again where a quorum removed it since.
func TestStoppedMemberThatWasRemovedStays(t *testing.T) {
	w := formed(t)
	c := w.host("c")
	c.Local.Run = false
	if d := Next(decision.Goal{Kind: decision.Converge}, w.observe()); !asksFor(d, cluster.OpRestart) {
		t.Fatal(describe(d))
	}
	w.clusters[0].members = w.clusters[0].members[:2]
	if d := Next(decision.Goal{Kind: decision.Converge}, w.observe()); asksFor(d, cluster.OpRestart) {
		t.Error(describe(d))
	}
}
