package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
)

// members is an observation of members of hosts a, b, …; the first leads raft.
func members(n int) *cluster.Observation {
	o := &cluster.Observation{Cluster: "c", Store: cluster.StoreView{Intent: &cluster.Intent{Cluster: 7, State: cluster.IntentFounded}}}
	view := &cluster.MemberView{Cluster: 7, Linearizable: true}
	for i := range n {
		id := cluster.HostID('a' + rune(i))
		view.Members = append(view.Members, cluster.Member{ID: cluster.MemberID(i + 1), Name: string(id), PeerURLs: []string{"https://" + string(id) + ":2380"}})
	}
	for i := range n {
		id := cluster.HostID('a' + rune(i))
		h := cluster.HostReport{UnderFence: true}
		h.Host, h.URLs.Peer, h.View = id, []string{"https://" + string(id) + ":2380"}, view
		h.Local = cluster.LocalMember{State: cluster.MemberStarted, Cluster: 7, Member: cluster.MemberID(i + 1)}
		h.Process.State = cluster.ProcessRunning
		h.Status = &cluster.MemberStatus{Member: cluster.MemberID(i + 1), Cluster: 7, Leader: 1, Term: 2, Healthy: true}
		o.Hosts = append(o.Hosts, h)
	}
	return o
}

func TestRestartOrder(t *testing.T) {
	for _, c := range []struct {
		o     *cluster.Observation
		named string
		want  string
	}{
		{members(3), "", "bca"}, {members(3), "ab", "ba"}, {members(3), "c", "c"}, {members(1), "", "a"},
		{members(3), "x", ""}, {members(3), "bb", ""}, {&cluster.Observation{}, "", ""},
	} {
		var named []cluster.HostID
		for _, r := range c.named {
			named = append(named, cluster.HostID(r))
		}
		got, err := RestartOrder(c.o, named)
		order := ""
		for _, id := range got {
			order += string(id)
		}
		if order != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%d members, %q: %q, %v; want %q", len(c.o.Hosts), c.named, order, err, c.want)
		}
	}
	o := members(3)
	o.Hosts[1].URLs.Peer, o.Hosts = nil, slices.Delete(o.Hosts, 2, 3) // nobody knows where the third one runs
	for i := range o.Hosts {
		o.Hosts[i].View.Members[2].Name = ""
	}
	if got, err := RestartOrder(o, nil); err == nil {
		t.Errorf("of an unknown host: %v", got)
	}
}

// The next one waits for the one before, and a failure ends it.
func TestRollStopsAtTheFirstThatFails(t *testing.T) {
	broken := errors.New("broken")
	for failing, want := range map[string]string{"": "[a b c]", "b": "[a b]", "a": "[a]"} {
		var asked []cluster.HostID
		take := func(how manager.GoalOutcome, err error) func(context.Context, cluster.HostID) (manager.GoalResult, error) {
			return func(_ context.Context, h cluster.HostID) (manager.GoalResult, error) {
				asked = append(asked, h)
				if string(h) == failing {
					return manager.GoalResult{Outcome: how}, err
				}
				return manager.GoalResult{Outcome: manager.GoalDone}, nil
			}
		}
		for _, how := range []manager.GoalOutcome{manager.GoalRefused, manager.GoalExpired} {
			asked = nil
			if all, err := Roll(t.Context(), []cluster.HostID{"a", "b", "c"}, take(how, nil)); err != nil || fmt.Sprint(asked) != want || len(all) != len(asked) {
				t.Errorf("%s of %q: %v, %v, %v", how, failing, asked, all, err)
			}
		}
		asked = nil
		if _, err := Roll(t.Context(), []cluster.HostID{"a", "b", "c"}, take("", broken)); errors.Is(err, broken) != (failing != "") || fmt.Sprint(asked) != want {
			t.Errorf("an error of %q: %v, %v", failing, asked, err)
		}
	}
}
