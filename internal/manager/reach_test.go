package manager

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

// mute has a host's calls to others lost, and leaves theirs to it, and its answers, as
// they are: a firewall that lets nothing out.
func (w *world) mute(from cluster.HostID, mute bool, to ...cluster.HostID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range to {
		delete(w.refused, [2]cluster.HostID{from, h})
		if mute {
			w.refused[[2]cluster.HostID{from, h}] = errors.New("connection timed out")
		}
	}
}

// founded makes daemons of a cluster that serves, one voter each.
func (w *world) founded(hosts ...cluster.HostID) map[cluster.HostID]*node {
	w.t.Helper()
	in, out := intent(), map[cluster.HostID]*node{}
	var names seeds
	for _, h := range hosts {
		names = append(names, string(h))
	}
	for _, h := range hosts {
		n := w.add(h, func(o *Options) { o.Seeds = names })
		out[h] = n
		in.Founders = append(in.Founders, cluster.Founder{Host: h, Disk: n.host.disk, Member: cluster.MemberID(h[0]), URLs: cluster.URLs{Peer: []string{"http://" + string(h) + ":2380"}}})
		in.Voters = append(in.Voters, cluster.Voter{Host: h, Disk: n.host.disk, Member: cluster.MemberID(h[0])})
	}
	if _, err := out[hosts[0]].o.Control.CreateIntent(w.t.Context(), in); err != nil {
		w.t.Fatal(err)
	}
	for _, h := range hosts {
		n := out[h]
		n.host.intent = in
		n.host.local = cluster.LocalMember{State: cluster.MemberStarted, Generation: 1, Member: cluster.MemberID(h[0]), Run: true, Version: version, HasData: true}
		w.start(h)
		w.run(n)
	}
	return out
}

func (w *world) leadsWell(h cluster.HostID) bool {
	if !slices.Equal(w.leaders(), []cluster.HostID{h}) {
		return false
	}
	o := w.nodes[h].Status().Observation
	if o == nil {
		return false
	}
	roster, _ := o.Roster()
	return roster.HasQuorum()
}

// A leader that hears all and whose own calls are lost leaves the lead to one that is
// answered, and to none that is as badly off; and it takes it back from nobody.
func TestWhoIsNotAnsweredLeavesTheLead(t *testing.T) {
	type calls map[cluster.HostID][]cluster.HostID
	for _, c := range []struct {
		name  string
		hosts []cluster.HostID
		lost  calls
		want  cluster.HostID
	}{
		{"of two", []cluster.HostID{"a", "b"}, calls{"a": {"b"}}, "b"},
		{"of three", []cluster.HostID{"a", "b", "c"}, calls{"a": {"b", "c"}}, "b"},
		{"of three, and the next one's are lost as well", []cluster.HostID{"a", "b", "c"}, calls{"a": {"b", "c"}, "b": {"c"}}, "b"},
		{"of three, of which one reaches both", []cluster.HostID{"a", "b", "c"}, calls{"a": {"b", "c"}, "b": {"a", "c"}}, "c"},
		{"of three, each the next one", []cluster.HostID{"a", "b", "c"}, calls{"a": {"b"}, "b": {"c"}, "c": {"a"}}, "a"},
		{"of five, and it reaches a minority", []cluster.HostID{"a", "b", "c", "d", "e"}, calls{"a": {"c", "d", "e"}}, "b"},
		{"of five, and it reaches a quorum", []cluster.HostID{"a", "b", "c", "d", "e"}, calls{"a": {"d", "e"}}, "a"},
		{"of five, of which three are as badly off", []cluster.HostID{"a", "b", "c", "d", "e"}, calls{"a": {"c", "d", "e"}, "b": {"a", "d", "e"}, "c": {"b", "d", "e"}}, "d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.founded(c.hosts...)
				w.until(20*time.Second, "a leads well", func() bool { return w.leadsWell("a") })
				time.Sleep(time.Minute) // all know whom they reach
				w.untilLeads(time.Millisecond, "a")
				for from, to := range c.lost {
					w.mute(from, true, to...)
				}
				if c.want != "a" {
					took := w.until(unansweredFor+answerLasts+40*time.Second, string(c.want)+" leads well", func() bool { return w.leadsWell(c.want) })
					t.Logf("took %s", took)
					// Where the others miss its pings before they make their own, they lead sooner.
					if got := nodes["a"].Status().Unfit; took < unansweredFor && got != "" {
						t.Errorf("the lead was left after %s: %s", took, got)
					}
					w.until(unansweredFor+answerLasts+callEvery, "a says why it does not lead", func() bool { return nodes["a"].Status().Unfit == election.UnfitUnanswered })
					if log := nodes["a"].logs.String(); !strings.Contains(log, "other hosts do not answer the calls of this one") {
						t.Errorf("a does not log why:\n%s", log)
					}
				}
				for range 600 { // and it stays
					time.Sleep(time.Second)
					if !w.leadsWell(c.want) {
						t.Fatalf("%v lead", w.leaders())
					}
				}
				for from, to := range c.lost {
					w.mute(from, false, to...)
				}
				time.Sleep(time.Minute)
				w.untilLeads(time.Millisecond, c.want)
				for _, h := range c.hosts {
					if got := nodes[h].Status().Unfit; got != "" {
						t.Errorf("%s is answered again, and says %q", h, got)
					}
				}
			})
		})
	}
}

// Where nobody is answered by a quorum, whoever leads goes on.
func TestWhereNobodyIsAnsweredTheLeadStays(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.founded("a", "b", "c", "d", "e")
		w.until(20*time.Second, "a leads well", func() bool { return w.leadsWell("a") })
		time.Sleep(time.Minute)
		// Each reaches the next one only, and is heard by it.
		order := []cluster.HostID{"a", "b", "c", "d", "e"}
		for i, from := range order {
			for j, to := range order {
				if j != i && j != (i+1)%len(order) {
					w.mute(from, true, to)
				}
			}
		}
		time.Sleep(10 * time.Second) // who is in nobody's sight leads itself, as ever
		for range 300 {
			time.Sleep(time.Second)
			for _, n := range w.nodes {
				if got := n.Status().Unfit; got != "" {
					t.Fatalf("%s says %q, and nobody reaches a quorum", n.self, got)
				}
			}
		}
	})
}

// A daemon that is called all the time calls the others itself all the same, so that it
// knows whether it is answered before it leads.
func TestWhoOnlyListensCallsAsWell(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founded("a", "b", "c")
		w.untilLeads(20*time.Second, "a")
		for range 300 {
			time.Sleep(time.Second)
			for id, n := range nodes {
				if got := n.gossip.say("", "").Reaches; len(got) != 3 {
					t.Fatalf("%s reaches %v", id, got)
				}
			}
		}
	})
}

// The time counts without a break: not over a minute in which calls were answered, not
// while the leader finds a quorum, and not over a pause of the daemon.
func TestUnansweredWithoutABreak(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founded("a", "b")
		w.until(20*time.Second, "a leads well", func() bool { return w.leadsWell("a") })
		for range 10 {
			w.mute("a", true, "b")
			for i := range 60 {
				time.Sleep(time.Second)
				if i == 40 {
					w.mute("a", false, "b")
				}
				if got := nodes["a"].Status().Unfit; got != "" {
					t.Fatalf("a says %q", got)
				}
			}
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		b := cluster.Ping{Cluster: clusterName, Host: "b", Endpoint: endpoint("b"), Reaches: []cluster.HostID{"a", "b"}}
		judge := func(change func()) string {
			a.gossip.hear(b)
			a.gossip.mu.Lock()
			defer a.gossip.mu.Unlock()
			a.gossip.voters, a.gossip.hearing.deaf, a.gossip.wellLed = []cluster.HostID{"a", "b"}, time.Time{}, false
			a.gossip.unansweredSince = time.Now().Add(-unansweredFor)
			a.gossip.election.Leader = "a"
			change()
			return a.gossip.unansweredLocked(time.Now())
		}
		if got := judge(func() {}); got != election.UnfitUnanswered {
			t.Errorf("unanswered for long enough: %q", got)
		}
		for what, change := range map[string]func(){
			"it was stopped":                   func() { a.gossip.hearing.deaf = time.Now().Add(time.Second) },
			"its looks are answered":           func() { a.gossip.wellLed = true },
			"it is answered":                   func() { a.gossip.peers["b"].answered = time.Now() },
			"the other one leaves":             func() { a.gossip.peers["b"].last.Leaving = true },
			"the other one has a worse reason": func() { a.gossip.peers["b"].last.Unfit = "its disk is full" },
		} {
			if got := judge(change); got != "" || !a.gossip.unansweredSince.IsZero() {
				t.Errorf("%s: %q", what, got)
			}
			a.gossip.peers["b"].answered = time.Time{}
		}
	})
}
