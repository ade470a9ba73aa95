package plan

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// BenchmarkSteps is how many steps a second the pure model takes on one core: a
// look at the world, what is folded into memory, the decision, and the action
// carried out. It counts the processor's time, garbage collection
// included, so that a busy machine says the same.
func BenchmarkSteps(b *testing.B) {
	b.ReportAllocs()
	// One small world is a heap of few MiB, of which Go would collect the garbage
	// hundreds of times a second: half of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	steps, before := 0, cpuTime()
	for steps < b.N {
		w := newWorld()
		for _, id := range []cluster.HostID{"a", "b", "c"} {
			w.addHost(id, cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16"))
		}
		w.spec = &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.5.35")}
		count := func(*cluster.Observation, decision.Decision, error) { steps++ }
		for _, v := range []string{"3.5.35", "3.6.16"} {
			w.spec.EtcdVersion = cluster.MustVersion(v)
			if d, err := w.run(decision.Goal{Kind: decision.Converge}, mostActions, false, count); err != nil || !d.Done {
				b.Fatalf("%s: %v", describe(d), err)
			}
		}
		w.wipe(w.host("c"), "")
		if d, err := w.run(decision.Goal{Kind: decision.Converge}, mostActions, false, count); err != nil || !d.Done {
			b.Fatalf("%s: %v", describe(d), err)
		}
	}
	b.ReportMetric(float64(steps)/(cpuTime()-before).Seconds(), "steps/cpu-s")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
