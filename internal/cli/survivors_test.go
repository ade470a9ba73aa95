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
		"none in sight": {unseen: []cluster.HostID{"a", "b", "c"}, want: []string{"a, b, c may", "out of sight: another authority"}},
		"nothing left":  {hosts: []console.LogEnd{{Host: "b", Intent: in}}, want: []string{"a backup is the way"}},
		"with a quorum": {hosts: []console.LogEnd{end("a", 1, 3, 90)}, quorum: true, from: "a", want: []string{"nothing has to be recovered"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := survivors{Hosts: c.hosts, Unseen: c.unseen, Why: map[cluster.HostID]string{"a": "another authority"}, Quorum: c.quorum}
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

// What --dry-run says before a recovery is asked for is what the leading daemon would.
func TestRecoverDryRun(t *testing.T) {
	in := &cluster.Intent{Generation: 1, Write: 3, Voters: []cluster.Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}}
	end := func(host cluster.HostID, member cluster.MemberID, index uint64) console.LogEnd {
		return console.LogEnd{
			Host: host, Generation: 1, Cluster: 7, Member: member, State: cluster.MemberStarted, HasData: true, Intent: in,
			Log: &cluster.Progress{Term: 3, Index: index},
		}
	}
	unread := end("b", 2, 0)
	unread.Log, unread.Reading = nil, &cluster.LogReading{Bytes: 3, Of: 64}
	broken := end("a", 1, 0)
	broken.Log = nil
	for name, c := range map[string]struct {
		hosts  []console.LogEnd
		quorum bool
		lost   []cluster.HostID
		want   string // empty: it would be queued
	}{
		"the one that is left":     {hosts: []console.LogEnd{end("a", 1, 90)}, lost: []cluster.HostID{"b", "c"}},
		"two logs are enough":      {hosts: []console.LogEnd{end("a", 1, 90), end("b", 2, 90)}},
		"a quorum":                 {hosts: []console.LogEnd{end("a", 1, 90)}, lost: []cluster.HostID{"b", "c"}, quorum: true, want: "has a quorum"},
		"nobody is named as lost":  {hosts: []console.LogEnd{end("a", 1, 90)}, want: "bring b, c back"},
		"it is out of sight":       {hosts: []console.LogEnd{end("b", 2, 90)}, want: "host a, from whose data the cluster is to be recovered, is out of sight"},
		"it has no data":           {hosts: []console.LogEnd{{Host: "a", Intent: in}, end("b", 2, 90)}, want: "host a holds no data"},
		"its log cannot be read":   {hosts: []console.LogEnd{broken, end("b", 2, 90)}, want: "cannot be read"},
		"another one is further":   {hosts: []console.LogEnd{end("a", 1, 90), end("b", 2, 91)}, want: "host b is further than a: etcdadm recover --from b"},
		"another one is read":      {hosts: []console.LogEnd{end("a", 1, 90), unread}, want: "the log of b is still being read"},
		"one named as lost is not": {hosts: []console.LogEnd{end("a", 1, 90), end("b", 2, 90)}, lost: []cluster.HostID{"b", "c"}, want: "host b is named as lost, and its daemon answers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := survivors{Hosts: c.hosts, Quorum: c.quorum}
			s.judge()
			if got := s.against("a", c.lost); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}
