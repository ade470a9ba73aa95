package cli

import (
	"bytes"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
)

func TestSurvivors(t *testing.T) {
	voters := []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: voters}
	end := func(host cluster.HostID, member cluster.MemberID, term, index uint64) console.LogEnd {
		return console.LogEnd{
			Host: host, Generation: 1, Cluster: 7, Member: member, State: cluster.MemberStarted, HasData: true, Intent: in,
			Log: &cluster.Progress{Term: term, Index: index}, Highest: cluster.Progress{Revision: 40, Term: term, Index: 900}, // of an earlier cluster, perhaps
		}
	}
	unread := func(host cluster.HostID, member cluster.MemberID, far *cluster.LogReading) console.LogEnd {
		e := end(host, member, 0, 0)
		e.Log, e.Reading = nil, far
		return e
	}
	record := control.Record{Revision: 50, Clusters: []control.ClusterRecord{{Cluster: 7, Term: 3, Index: 90}}}
	for name, c := range map[string]struct {
		hosts  []console.LogEnd
		unseen []cluster.HostID
		quorum bool
		none   bool // no record
		from   cluster.HostID
		want   []string
	}{
		"two lost": {
			hosts: []console.LogEnd{end("b", 2, 3, 90)}, unseen: []cluster.HostID{"a"}, from: "b",
			want: []string{"etcdadm recover --from b --lost a --lost c --yes", "What only a, c had", "revision 50"},
		},
		"a later term goes before a higher index": {
			hosts: []console.LogEnd{end("a", 1, 3, 200), end("b", 2, 4, 91)}, from: "b",
			want: []string{"--from b --lost c --yes"},
		},
		"behind the record": {
			hosts: []console.LogEnd{end("b", 2, 3, 80)}, from: "b", want: []string{"IT LOSES WRITES", "index 90"},
		},
		"without a record": {
			hosts: []console.LogEnd{end("b", 2, 3, 80)}, none: true, from: "b", want: []string{"no record to hold it against", "a, c had and acknowledged"},
		},
		"all there": {
			hosts: []console.LogEnd{end("a", 1, 3, 90), end("b", 2, 3, 95), end("c", 3, 3, 95)}, from: "b", want: []string{"nothing that was acknowledged is lost"},
		},
		"a wiped one": {
			hosts: []console.LogEnd{end("a", 1, 3, 90), {Host: "b", Intent: in}}, from: "a", want: []string{"What only b, c had"},
		},
		"one is being read": {
			hosts: []console.LogEnd{end("a", 1, 3, 90), unread("c", 3, &cluster.LogReading{Bytes: 3 << 20, Of: 64 << 20})}, unseen: []cluster.HostID{"b"},
			want: []string{"its log is being read: 3 of 64 MiB", "ask again"},
		},
		"one cannot be read": {
			hosts: []console.LogEnd{end("a", 1, 3, 90), end("b", 2, 3, 90), unread("c", 3, nil)}, from: "a",
			want: []string{"its log cannot be read", "What only c had", "--from a --lost c --yes"},
		},
		"nothing left":  {hosts: []console.LogEnd{{Host: "b", Intent: in}}, want: []string{"a backup is the way"}},
		"with a quorum": {hosts: []console.LogEnd{end("a", 1, 3, 90)}, quorum: true, from: "a", want: []string{"nothing has to be recovered"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := survivors{Hosts: c.hosts, Unseen: c.unseen, Quorum: c.quorum}
			s.judge()
			if !c.none {
				s.hold(record)
			}
			var out bytes.Buffer
			s.print(&out)
			if s.Furthest != c.from {
				t.Errorf("furthest %q, want %q", s.Furthest, c.from)
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%q is not in:\n%s", w, out.String())
				}
			}
			if c.quorum == strings.Contains(out.String(), "--yes") && c.from != "" {
				t.Errorf("with a quorum no command, else one:\n%s", out.String())
			}
		})
	}
}
