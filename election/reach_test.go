package election_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

type ids = []cluster.HostID

func TestUnanswered(t *testing.T) {
	abc, abcde := ids{"a", "b", "c"}, ids{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		name        string
		voters, own ids
		others      []ids
		want        bool
	}{
		{"it reaches itself alone, and another one all", abc, ids{"a"}, []ids{{"a", "b", "c"}}, true},
		{"it reaches a quorum", abc, ids{"a", "b"}, []ids{abc}, false},
		{"nobody reaches a quorum", abc, ids{"a"}, []ids{{"b"}, {"c"}}, false},
		{"nobody else is in sight", abc, ids{"a"}, nil, false},
		{"an earlier release says nothing", abc, ids{"a"}, []ids{nil}, false},
		{"of two", ids{"a", "b"}, ids{"a"}, []ids{{"a", "b"}}, true},
		{"two of five, and another one three", abcde, ids{"a", "b"}, []ids{{"a", "b"}, {"b", "c", "d"}}, true},
		{"hosts without a voter are no quorum", abc, ids{"a", "d", "e"}, []ids{{"b", "c"}}, true},
		{"it carries no voter, and reaches a quorum", abc, ids{"b", "c", "d"}, []ids{abc}, false},
		{"a voter without a host is reached by nobody", ids{"a", "b", ""}, ids{"", "a"}, []ids{{"a", "b"}}, true},
		{"there are no voters", nil, ids{"a"}, []ids{abc}, false},
	} {
		if got := election.Unanswered(c.voters, c.own, c.others); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestWorse(t *testing.T) {
	order := []string{"", election.UnfitStoreSilent, election.UnfitUnanswered, election.UnfitStore, "its disk is full"}
	for i, a := range order {
		for j, b := range order {
			if got, want := election.Worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("the worse of %q and %q: %q, want %q", a, b, got, want)
			}
			if got := election.Before(a, b); got != (i < j) {
				t.Errorf("%q before %q: %t", a, b, got)
			}
		}
	}
}

// Whoever's calls reach a quorum leads before who is merely heard, and that before who
// acts on another store.
func TestUnansweredGivesWay(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, heard("c", "c"), "leader-changed b", "start-leading")
	x.step(1100*time.Millisecond, election.Fit{Unfit: election.UnfitUnanswered}, "stop-leading", "leader-changed c")
	lacking := heard("c", "c")
	lacking.Ping.Unfit = election.UnfitStore
	x.step(1200*time.Millisecond, lacking, "leader-changed b", "start-leading")
	lacking.Ping.Unfit = election.UnfitStoreSilent
	x.step(1300*time.Millisecond, lacking, "stop-leading", "leader-changed c")
}

// Calls are lost in any pattern that leaves each two hosts in sight of each other by one
// way at least. However it changed before, in the end one host leads that reaches a
// quorum, if any does, and it goes on: nobody trades places.
func TestCallsLostOneWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &oneWay{world: world{hosts: ids{"a", "b", "c", "d", "e"}[:rapid.IntRange(2, 5).Draw(t, "hosts")], up: map[cluster.HostID]*election.State{}}, since: map[cluster.HostID]time.Duration{}}
		w.voters = w.hosts[:rapid.IntRange(1, len(w.hosts)).Draw(t, "voters")]
		for _, h := range w.hosts {
			s := election.New(h, at(0))
			w.up[h] = &s
		}
		for range rapid.IntRange(1, 3).Draw(t, "networks") {
			w.lost = map[[2]cluster.HostID]bool{}
			for i, a := range w.hosts {
				for _, b := range w.hosts[i+1:] {
					switch rapid.IntRange(0, 2).Draw(t, "lost between "+string(a)+" and "+string(b)) {
					case 1:
						w.lost[[2]cluster.HostID{a, b}] = true
					case 2:
						w.lost[[2]cluster.HostID{b, a}] = true
					}
				}
			}
			w.run(time.Duration(rapid.IntRange(5, 60).Draw(t, "seconds")) * time.Second)
		}
		w.run(2 * patience)
		leader := w.leading()
		if len(leader) != 1 {
			t.Fatalf("%v lead", leader)
		}
		able := slices.DeleteFunc(slices.Clone(w.hosts), func(h cluster.HostID) bool { return !w.reachesQuorum(h) })
		if len(able) > 0 && !slices.Contains(able, leader[0]) {
			t.Fatalf("%s leads, and %v reach a quorum of %v (lost: %v)", leader[0], able, w.voters, w.lost)
		}
		for range 3 {
			w.run(patience)
			if now := w.leading(); !slices.Equal(now, leader) {
				t.Fatalf("%v lead after %v (lost: %v)", now, leader, w.lost)
			}
		}
	})
}

// patience is how long a daemon of this world is unanswered before it says so.
const patience = 30 * time.Second

// oneWay is daemons whose calls, and not the answers, are lost.
type oneWay struct {
	world
	voters ids
	lost   map[[2]cluster.HostID]bool
	since  map[cluster.HostID]time.Duration // since when it is unanswered; 0: it is not
	fence  uint64
}

func (w *oneWay) reach(h cluster.HostID) (out ids) {
	for _, o := range w.hosts {
		if o == h || !w.lost[[2]cluster.HostID{h, o}] {
			out = append(out, o)
		}
	}
	return out
}

func (w *oneWay) reachesQuorum(h cluster.HostID) bool {
	return election.Unanswered(w.voters, nil, []ids{w.reach(h)})
}

func (w *oneWay) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += 500 * time.Millisecond {
		for _, h := range w.hosts {
			w.step(h, election.Tick{})
			var others []ids
			for _, o := range w.hosts {
				if o != h {
					others = append(others, w.reach(o))
				}
			}
			well := w.up[h].Leading() && w.reachesQuorum(h)
			switch {
			case well || !election.Unanswered(w.voters, w.reach(h), others):
				w.since[h] = 0
			case w.since[h] == 0:
				w.since[h] = w.now + 1
			}
			excuse := ""
			if since := w.since[h]; since > 0 && w.now-since >= patience {
				excuse = election.UnfitUnanswered
			}
			w.step(h, election.Fit{Unfit: excuse})
			fence := w.up[h].Fence
			if w.up[h].Leading() && fence.Host != h {
				w.fence++
				fence = cluster.Fence{Number: w.fence, Host: h}
			}
			w.step(h, election.Stands{Fence: fence, Well: well})
		}
		w.round()
	}
}
