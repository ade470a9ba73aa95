package plan

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Two clusters were founded under one name: whatever shows that, nothing is
// written, run, stopped or set aside.
func TestTwoFoundings(t *testing.T) {
	// later is a second generation that another founding of this name came to.
	later := func(o *cluster.Observation) *cluster.Intent {
		in := o.Store.Intent.Clone()
		in.Generation, in.Nonce, in.Token, in.Cluster, in.Write = 2, "n2", "t2", 0xbeef, 9
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: 0xbad, Closed: true}}
		return in
	}
	for name, twist := range map[string]func(*cluster.Observation){
		"the store has another founding of the same generation, and hosts a newer record": func(o *cluster.Observation) {
			in := o.Store.Intent.Clone()
			in.Nonce, in.Write = "n2", in.Write-1
			o.Store.Intent = in
		},
		"the store has a later generation of another founding": func(o *cluster.Observation) {
			o.Store.Intent = later(o)
		},
		"a host keeps a later generation of another founding": func(o *cluster.Observation) {
			o.Hosts[3].Intent = later(o)
		},
		"the same, and the hosts of the members remember nothing": func(o *cluster.Observation) {
			o.Store.Intent = later(o)
			forgetKept(o)
		},
		"the same, and the members do not answer": func(o *cluster.Observation) {
			o.Store.Intent = later(o)
			forgetKept(o)
			for i := range o.Hosts {
				o.Hosts[i].Status, o.Hosts[i].View, o.Hosts[i].Process = nil, nil, cluster.Process{}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := formed(t).observe()
			twist(o)
			d := Next(decision.Goal{Kind: decision.Converge}, o)
			if d.Action != nil || len(d.Blockers) == 0 || d.Blockers[0].Code != "two-foundings" {
				t.Error(describe(d))
			}
		})
	}
}
