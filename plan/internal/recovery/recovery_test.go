package recovery

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// What is said before a recovery is asked for is what the leading daemon would say.
func TestAgainst(t *testing.T) {
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}}
	end := func(host cluster.HostID, member cluster.MemberID, index uint64) cluster.LogEnd {
		return cluster.LogEnd{
			Host: host, Generation: 1, Cluster: 7, Member: member, State: cluster.MemberStarted, HasData: true, Intent: in,
			Log: &cluster.Progress{Term: 3, Index: index},
		}
	}
	unread := end("b", 2, 0)
	unread.Log, unread.Reading = nil, &cluster.LogReading{Bytes: 3, Of: 64}
	broken := end("a", 1, 0)
	broken.Log = nil
	for name, c := range map[string]struct {
		hosts   []cluster.LogEnd
		quorum  bool
		odds    []cluster.HostID
		lost    []cluster.HostID
		want    string // empty: it would be queued
		further cluster.HostID
	}{
		"the one that is left":                   {hosts: []cluster.LogEnd{end("a", 1, 90)}, lost: []cluster.HostID{"b", "c"}},
		"two logs are enough":                    {hosts: []cluster.LogEnd{end("a", 1, 90), end("b", 2, 90)}},
		"a quorum":                               {hosts: []cluster.LogEnd{end("a", 1, 90)}, lost: []cluster.HostID{"b", "c"}, quorum: true, want: "has a quorum"},
		"nobody is named as lost":                {hosts: []cluster.LogEnd{end("a", 1, 90)}, want: "bring b, c back"},
		"it is out of sight":                     {hosts: []cluster.LogEnd{end("b", 2, 90)}, want: "host a, the survivor, is unreachable"},
		"it has no data":                         {hosts: []cluster.LogEnd{{Host: "a", Intent: in}, end("b", 2, 90)}, want: "host a holds no data"},
		"its log cannot be read":                 {hosts: []cluster.LogEnd{broken, end("b", 2, 90)}, want: "cannot be read"},
		"another one is further":                 {hosts: []cluster.LogEnd{end("a", 1, 90), end("b", 2, 91)}, want: "host b is further than a", further: "b"},
		"another one is read":                    {hosts: []cluster.LogEnd{end("a", 1, 90), unread}, want: "the log of b is still being read"},
		"further beside one being read":          {hosts: []cluster.LogEnd{end("a", 1, 90), unread, end("c", 3, 91)}, want: "host c is further than a", further: "c"},
		"lost by their member IDs":               {hosts: []cluster.LogEnd{end("a", 1, 90)}, lost: []cluster.HostID{"2", "3"}},
		"one named by its member ID is not lost": {hosts: []cluster.LogEnd{end("a", 1, 90), end("b", 2, 90)}, lost: []cluster.HostID{"2", "3"}, want: "host b is named as lost, and its daemon answers"},
		"one that is read is lost":               {hosts: []cluster.LogEnd{end("a", 1, 90), unread}, lost: []cluster.HostID{"b", "c"}, want: "host b is named as lost, and its daemon answers and has"},
		"one is at odds":                         {hosts: []cluster.LogEnd{end("a", 1, 90)}, odds: []cluster.HostID{"b"}, lost: []cluster.HostID{"b", "c"}, want: "host b is named as lost, but its daemon's address answers without telling how far its log goes: another authority. If that is its daemon, fix what"},
		"another one is at odds":                 {hosts: []cluster.LogEnd{end("a", 1, 90), end("b", 2, 90)}, odds: []cluster.HostID{"c"}},
		"one named as lost is not":               {hosts: []cluster.LogEnd{end("a", 1, 90), end("b", 2, 90)}, lost: []cluster.HostID{"b", "c"}, want: "host b is named as lost, and its daemon answers"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Recovery{Hosts: c.hosts, Unseen: slices.Clone(c.odds), Incompatible: c.odds, Why: map[cluster.HostID]string{"b": "another authority"}, Quorum: c.quorum}
			r.Judge()
			got := r.Against("a", c.lost)
			if got.Why != c.want && (c.want == "" || !strings.Contains(got.Why, c.want)) || got.Further != c.further {
				t.Errorf("it says %+v, want %q", got, c.want)
			}
		})
	}
}
