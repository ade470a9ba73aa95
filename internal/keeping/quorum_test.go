package keeping

import (
	"context"
	"slices"
	"testing"

	"etcdadm.io/cluster"
)

// ports are the hosts whose peer ports answer, by their URLs.
type ports []string

func (p ports) Reach(_ context.Context, urls []string) (open, answers bool) {
	is := slices.ContainsFunc(urls, func(u string) bool { return slices.Contains(p, u) })
	return is, is
}

// A member that answers nothing has no quorum for certain where too few peer ports answer. What is not known is an error.
func TestHasQuorum(t *testing.T) {
	in := &cluster.Intent{Voters: []cluster.Voter{{Host: "a", PeerURLs: []string{"a"}}, {Host: "b", PeerURLs: []string{"b"}}, {Host: "c", PeerURLs: []string{"c"}}}}
	runs := cluster.Process{State: cluster.ProcessRunning}
	for name, x := range map[string]struct {
		state       cluster.HostState
		open        ports
		has, failed bool
	}{
		"it reads through raft":             {cluster.HostState{Status: &cluster.MemberStatus{Healthy: true}, Process: runs}, nil, true, false},
		"it answers, and does not":          {cluster.HostState{Status: &cluster.MemberStatus{}, Process: runs}, ports{"b", "c"}, false, false},
		"no process":                        {cluster.HostState{Intent: in}, ports{"b", "c"}, false, false},
		"nothing answers":                   {cluster.HostState{Process: runs, Intent: in}, ports{"a"}, false, false},
		"one of two others answers":         {cluster.HostState{Process: runs, Intent: in}, ports{"b"}, false, true},
		"nothing answers, voters not known": {cluster.HostState{Process: runs}, nil, false, true},
		"held, and nobody else is in reach": {cluster.HostState{Process: cluster.Process{State: cluster.ProcessSilent}, Intent: in}, nil, false, false},
		"it died, and others are in reach":  {cluster.HostState{Process: cluster.Process{State: cluster.ProcessBackoff}, Intent: in}, ports{"b", "c"}, false, false},
	} {
		x.state.Host = "a"
		x.state.Local.Token = "u"
		has, err := HasQuorum(t.Context(), &x.state, &cluster.Intent{Token: "t"}, x.open)
		if has != x.has || (err != nil) != x.failed {
			t.Errorf("%s: %v, %v", name, has, err)
		}
		if has, err := HasQuorum(t.Context(), &x.state, &cluster.Intent{Token: "u"}, x.open); has || err != nil {
			t.Errorf("%s, as a member of another record's generation: %v, %v", name, has, err)
		}
	}
}
