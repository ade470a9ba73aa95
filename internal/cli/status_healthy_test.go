package cli

import (
	"encoding/json"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// healthyReport is what the leading daemon of three voters tells, all of which are up.
func healthyReport() console.Report {
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
	return console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: o, Decision: &plan.Decision{Rule: "steady", Done: true}}
}

// notLinearizable: no read went through raft.
func notLinearizable(o *cluster.Observation) {
	for i := range o.Hosts {
		v := *o.Hosts[i].View
		v.Linearizable = false
		o.Hosts[i].View = &v
	}
}

func sick(o *cluster.Observation, hosts ...int) {
	for _, i := range hosts {
		o.Hosts[i].Status.Healthy = false
	}
}

// A program asks status for one field, or for its exit code; what is not seen is not healthy.
func TestStatusSaysHealthInOneFieldAndCode(t *testing.T) {
	blocked := func(b plan.Blocker) func(*console.Report) {
		b.Code, b.Sentence = "x", plan.Say("y")
		return func(r *console.Report) { r.Decision.Blockers = []plan.Blocker{b} }
	}
	of := func(change func(o *cluster.Observation)) func(*console.Report) {
		return func(r *console.Report) { change(r.Observation) }
	}
	for what, c := range map[string]struct {
		change  func(*console.Report)
		health  console.Health
		healthy bool
		code    int
	}{
		"three of three are up":       {func(*console.Report) {}, console.Well, true, ExitOK},
		"a note that ends by itself":  {blocked(plan.Blocker{}), console.Well, true, ExitOK},
		"a command lifts it":          {blocked(plan.Blocker{Command: "etcdadm config unset x"}), console.Degraded, true, ExitDegraded},
		"a person has to do it":       {blocked(plan.Blocker{Advice: "make room"}), console.Degraded, true, ExitDegraded},
		"a voter is down":             {of(func(o *cluster.Observation) { sick(o, 1) }), console.Degraded, false, ExitDegraded},
		"more are wanted":             {of(func(o *cluster.Observation) { o.Spec.MemberCount = 5 }), console.Degraded, false, ExitDegraded},
		"an alarm is raised":          {of(func(o *cluster.Observation) { o.Hosts[0].Status.Alarms = []string{"NOSPACE 1"} }), console.Degraded, false, ExitDegraded},
		"no quorum told":              {of(notLinearizable), console.Degraded, false, ExitDegraded},
		"two of three are down":       {of(func(o *cluster.Observation) { sick(o, 1, 2); notLinearizable(o) }), console.NoQuorum, false, ExitNoQuorum},
		"raft answers, two were late": {of(func(o *cluster.Observation) { sick(o, 1, 2) }), console.Degraded, false, ExitDegraded},
		"ordinary clients are not in": {of(func(o *cluster.Observation) { o.Store.Intent.Quarantined = true }), console.NoQuorum, false, ExitNoQuorum},
		"no cluster was founded":      {of(func(o *cluster.Observation) { o.Store.Intent = nil }), console.NoQuorum, false, ExitNoQuorum},
		"no member list":              {of(func(o *cluster.Observation) { o.Hosts = nil }), console.NoQuorum, false, ExitNoQuorum},
		"who leads does not answer":   {func(r *console.Report) { r.Observation, r.Decision, r.Leading = nil, nil, false }, console.Unknown, false, ExitNotLeader},
	} {
		a := &answering{report: healthyReport()}
		c.change(&a.report)
		code, out, errs := runEtcdadm("status", "-o", "json", "--endpoint="+a.serve(t, "test", "a"), "--cluster-name=test")
		var told struct {
			Healthy *bool
			Health  console.Health
		}
		if err := json.Unmarshal([]byte(out), &told); err != nil || told.Healthy == nil || errs != "" {
			t.Fatalf("%s: %d %v %s\n%s", what, code, err, errs, out)
		}
		if code != c.code || told.Health != c.health || *told.Healthy != c.healthy {
			t.Errorf("%s: exit code %d, health %s, healthy %t; want %d, %s, %t", what, code, told.Health, *told.Healthy, c.code, c.health, c.healthy)
		}
	}
	if (console.Report{}).Healthy() {
		t.Error("what nobody sees is healthy")
	}
}
