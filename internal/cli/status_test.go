package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// The table goes by host, whoever carries a member, is free or out of sight; the daemons'
// leader and raft's are not called the same; and each blocker shows its code and its page.
func TestStatusIsInOrder(t *testing.T) {
	id := cluster.MemberID(5)
	host := func(name cluster.HostID) cluster.HostReport {
		return cluster.HostReport{HostState: cluster.HostState{Host: name}}
	}
	carries := host("c")
	carries.Status = &cluster.MemberStatus{Member: id, Cluster: 9, Leader: id, Term: 2}
	carries.Local = cluster.LocalMember{Member: id, State: cluster.MemberStarted}
	carries.View = &cluster.MemberView{Cluster: 9, Linearizable: true, Members: []cluster.Member{{ID: id, Name: "c"}}}
	o := &cluster.Observation{Cluster: "etcd", Hosts: []cluster.HostReport{host("b"), carries, host("d")}, Gaps: []cluster.Gap{{Kind: cluster.GapUnreachable, Host: "a", Detail: "no answer"}}}
	d := plan.Decision{Reason: plan.Say("one is down"), Blockers: []plan.Blocker{{Code: "member-down", Sentence: plan.Say("one is down")}, {Code: "store-silent", Sentence: plan.Say("no answer"), Command: "etcdadm status"}, {Code: "disk-full", Sentence: plan.Say("it is full"), Advice: "make room on it"}}}
	var out bytes.Buffer
	var r console.Report
	r.Cluster, r.Leader, r.Observation, r.Decision = "etcd", "b", o, &d
	printReport(&out, r)
	var order []string
	for _, line := range strings.Split(out.String(), "\n") {
		if f := strings.Fields(line); len(f) > 1 && len(f[0]) == 1 && f[0] != "!" {
			order = append(order, f[0])
		}
	}
	if !slices.Equal(order, []string{"a", "b", "c", "d"}) {
		t.Errorf("the hosts are in the order %q:\n%s", order, &out)
	}
	for _, want := range []string{
		"cluster etcd, its daemons led by host b\n", "voter, raft leader",
		"  ! member-down (docs/operations/member-down.md)\n", "  ! store-silent: no answer (docs/operations/store-silent.md)\n    → etcdadm status\n", "  ! disk-full: it is full (docs/operations/disk-full.md)\n    make room on it\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "voter, leads") {
		t.Error("raft's leader is named as the daemons' is")
	}
}

// member list goes by host too.
func TestMembersAreInOrder(t *testing.T) {
	data, err := json.Marshal(listed(cluster.Roster{Seats: []cluster.Seat{{HostID: "b"}, {HostID: "a"}}}))
	if err != nil || strings.Index(string(data), `"host":"a"`) > strings.Index(string(data), `"host":"b"`) {
		t.Errorf("%s, %v", data, err)
	}
}
