package cli

import (
	"encoding/json"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// A program asks status for one field; what is not seen is not healthy.
func TestStatusSaysHealthyInOneField(t *testing.T) {
	healthy := func(change func(o *cluster.Observation)) bool {
		o := seenCluster()
		view := &cluster.MemberView{Cluster: 7, Linearizable: true}
		for i := range o.Hosts {
			h := &o.Hosts[i]
			view.Members = append(view.Members, cluster.Member{ID: h.Status.Member, Name: string(h.Host), PeerURLs: h.URLs.Peer})
		}
		for i := range o.Hosts {
			h := &o.Hosts[i]
			h.UnderFence, h.View = true, view
			h.Local = cluster.LocalMember{State: cluster.MemberStarted, Member: h.Status.Member, Cluster: 7, Generation: 3, Run: true, HasData: true}
		}
		change(o)
		a := &answering{report: console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: o}}
		code, out, errs := runEtcdadm("status", "-o", "json", "--endpoint="+a.serve(t, "test", "a"), "--cluster-name=test")
		var told struct {
			Healthy     *bool
			Observation *cluster.Observation
		}
		if err := json.Unmarshal([]byte(out), &told); code != ExitOK || err != nil || told.Healthy == nil || told.Observation == nil {
			t.Fatalf("%d %v %s\n%s", code, err, errs, out)
		}
		return *told.Healthy
	}
	if !healthy(func(*cluster.Observation) {}) {
		t.Fatal("three of three are up, and it is not healthy")
	}
	for what, change := range map[string]func(o *cluster.Observation){
		"a voter is down":             func(o *cluster.Observation) { o.Hosts[1].Status.Healthy = false },
		"more are wanted":             func(o *cluster.Observation) { o.Spec.MemberCount = 5 },
		"ordinary clients are not in": func(o *cluster.Observation) { o.Store.Intent.Quarantined = true },
		"an alarm is raised": func(o *cluster.Observation) {
			o.Hosts[0].Status.Alarms = []string{"NOSPACE 1"}
		},
		"no quorum told": func(o *cluster.Observation) {
			for i := range o.Hosts {
				v := *o.Hosts[i].View
				v.Linearizable = false
				o.Hosts[i].View = &v
			}
		},
	} {
		if healthy(change) {
			t.Errorf("it is healthy although %s", what)
		}
	}
	if (console.Report{}).Healthy() {
		t.Error("what nobody sees is healthy")
	}
}
