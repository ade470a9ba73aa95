package plan

import (
	"testing"

	"etcdadm.io/cluster"
)

// BenchmarkSteps is how many steps a second the pure model takes on one core: a
// look at the world, what is folded into memory, the decision, and the action
// carried out. A step of it is what the simulator's random worlds and the
// exhaustive ones are made of.
func BenchmarkSteps(b *testing.B) {
	b.ReportAllocs()
	steps := 0
	for steps < b.N {
		w := newWorld()
		for _, id := range []cluster.HostID{"a", "b", "c"} {
			w.addHost(id, cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16"))
		}
		w.spec = &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.5.35")}
		count := func(*cluster.Observation, Decision, error) { steps++ }
		for _, v := range []string{"3.5.35", "3.6.16"} {
			w.spec.EtcdVersion = cluster.MustVersion(v)
			if d, err := w.run(Goal{Kind: Converge}, mostActions, false, count); err != nil || !d.Done {
				b.Fatalf("%s: %v", describe(d), err)
			}
		}
		w.wipe(w.host("c"), "")
		if d, err := w.run(Goal{Kind: Converge}, mostActions, false, count); err != nil || !d.Done {
			b.Fatalf("%s: %v", describe(d), err)
		}
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
