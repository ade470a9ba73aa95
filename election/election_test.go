package election_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
)

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// script runs events against one state and returns the effects in words.
type script struct {
	t *testing.T
	s election.State
}

func (x *script) step(d time.Duration, e election.Event, want ...string) {
	x.t.Helper()
	var effects []election.Effect
	x.s, effects = election.Step(x.s, e, at(d))
	var got []string
	for _, e := range effects {
		got = append(got, strings.TrimSpace(string(e.Kind)+" "+string(e.Leader)))
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("at %s after %T%+v: effects %q, want %q", d, e, e, got, want)
	}
}

func heard(host, leader cluster.HostID) election.Heard {
	return election.Heard{Ping: cluster.Ping{Host: host, Leader: leader}}
}

func TestAlone(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(10*time.Millisecond, election.Seeds{Missing: 0})
	x.step(299*time.Millisecond, election.Tick{})
	x.step(300*time.Millisecond, election.Tick{}, "leader-changed b", "start-leading")
}

func TestSettlesLaterWhileSeedsAreMissing(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(500*time.Millisecond, election.Seeds{Missing: 1})
	if want := at(time.Second); !x.s.Next().Equal(want) {
		t.Fatalf("next %s, want %s", x.s.Next(), want)
	}
	x.step(999*time.Millisecond, election.Tick{})
	x.step(time.Second, election.Tick{}, "leader-changed b", "start-leading")
}

func TestFollowsTheLowestAndTakesOverWhenItIsSilent(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(0, heard("a", "a"))
	x.step(time.Second, election.Tick{}, "leader-changed a")
	x.step(election.PeerTimeout-time.Millisecond, election.Tick{})
	x.step(election.PeerTimeout, election.Tick{}, "leader-changed b", "start-leading")
	// It is back: it led nobody but itself, and does not lead now.
	x.step(election.PeerTimeout+time.Second, heard("c", "b"))
	x.step(election.PeerTimeout+time.Second, heard("a", "a"))
}

// What each of two that lead tells decides who goes on, once they see each other.
func TestOfTwoThatLeadOneGoesOn(t *testing.T) {
	fence := func(n uint64, h cluster.HostID) cluster.Fence { return cluster.Fence{Number: n, Host: h} }
	for _, c := range []struct {
		name        string
		own, others election.Stands // of b and of a
		want        bool            // b goes on
	}{
		{"b sees a quorum, and a was cut off", election.Stands{Fence: fence(2, "b"), Well: true}, election.Stands{Fence: fence(9, "a")}, true},
		{"a sees a quorum, and b does not", election.Stands{Fence: fence(9, "b")}, election.Stands{Fence: fence(2, "a"), Well: true}, false},
		{"a was stopped, and the hosts refuse its fence", election.Stands{Fence: fence(9, "b"), Well: true}, election.Stands{Fence: fence(2, "a"), Well: true}, true},
		{"the hosts refuse the fence of b", election.Stands{Fence: fence(2, "b"), Well: true}, election.Stands{Fence: fence(9, "a"), Well: true}, false},
		{"the host of b obeys a", election.Stands{Fence: fence(9, "a"), Well: true}, election.Stands{Fence: fence(9, "a"), Well: true}, false},
		{"both have just begun", election.Stands{}, election.Stands{}, false},
		{"both were cut off", election.Stands{Fence: fence(9, "b")}, election.Stands{Fence: fence(2, "a")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &script{t: t, s: election.New("b", epoch)}
			x.step(time.Second, election.Tick{}, "leader-changed b", "start-leading")
			x.step(time.Second, c.own)
			p := heard("a", "a")
			p.Ping.Promised, p.Ping.LeadsWell = c.others.Fence, c.others.Well
			var effects []string
			if !c.want {
				effects = []string{"stop-leading", "leader-changed a"}
			}
			x.step(2*time.Second, p, effects...)
			if !c.want && x.s.Well {
				t.Error("it says that it leads well, and does not lead")
			}
		})
	}
}

// Who leads by its ID alone, as a daemon of an earlier release does, and is obeyed by the
// other hosts, leads; the one that they only name gives way.
func TestWhoIsObeyedIsFollowed(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, election.Tick{}, "leader-changed b", "start-leading")
	x.step(time.Second, election.Stands{Fence: cluster.Fence{Number: 9, Host: "a"}})
	c := heard("c", "b")
	c.Ping.Promised = cluster.Fence{Number: 9, Host: "a"}
	x.step(2*time.Second, c)
	a := heard("a", "a")
	a.Ping.Promised = cluster.Fence{Number: 9, Host: "a"}
	x.step(2*time.Second, a, "stop-leading", "leader-changed a")
}

// A host with a lower name, new or back, takes the lead from nobody who leads.
func TestANewHostTakesTheLeadFromNobody(t *testing.T) {
	w := &world{hosts: []cluster.HostID{"a", "b", "c"}, up: map[cluster.HostID]*election.State{}, cut: map[[2]cluster.HostID]bool{}}
	begin := func(h cluster.HostID) { s := election.New(h, at(w.now)); w.up[h] = &s }
	run := func(want cluster.HostID) {
		t.Helper()
		for end := w.now + 5*time.Second; w.now < end; w.now += 100 * time.Millisecond {
			w.round()
			if s := w.up[want]; s != nil && s.Leading() {
				w.step(want, election.Stands{Fence: cluster.Fence{Number: 5, Host: want}, Well: true})
			}
		}
		if got := w.leading(); !slices.Equal(got, []cluster.HostID{want}) {
			t.Fatalf("%v lead, want %s", got, want)
		}
	}
	begin("b")
	begin("c")
	run("b")
	begin("a")
	run("b")
	w.cut[[2]cluster.HostID{"a", "b"}], w.cut[[2]cluster.HostID{"a", "c"}] = true, true
	for range 60 { // it leads itself, with nothing in sight
		w.now += 100 * time.Millisecond
		w.round()
	}
	if !w.up["a"].Leading() {
		t.Fatal("a does not lead itself while it is cut off")
	}
	w.cut = map[[2]cluster.HostID]bool{}
	run("b")
}

func TestLeaderGoesOnWhileALowerOneSettles(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, election.Tick{}, "leader-changed b", "start-leading")
	x.step(2*time.Second, heard("a", ""))
	x.step(2100*time.Millisecond, heard("c", "b"))
	x.step(2200*time.Millisecond, heard("a", "b"))
}

func TestHandsOver(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, heard("a", "a"), "leader-changed a")
	gone := heard("a", "")
	gone.Ping.Leaving = true
	x.step(1100*time.Millisecond, gone, "leader-changed b", "start-leading")
	x.step(1200*time.Millisecond, heard("c", "b"))
	x.step(1300*time.Millisecond, election.Leave{}, "stop-leading", "leader-changed c")
}

func TestUnfit(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, heard("c", "c"), "leader-changed b", "start-leading")
	x.step(1100*time.Millisecond, election.Fit{Unfit: "disk full"}, "stop-leading", "leader-changed c")
	sick := heard("c", "c")
	sick.Ping.Unfit = "disk full too"
	x.step(1200*time.Millisecond, sick, "leader-changed")
	x.step(1300*time.Millisecond, election.Fit{}, "leader-changed b", "start-leading")
}

// A host whose store lacks the intent leads only when nobody has it.
func TestUnfitStore(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(time.Second, heard("c", "c"), "leader-changed b", "start-leading")
	x.step(1100*time.Millisecond, election.Fit{Unfit: election.UnfitStore}, "stop-leading", "leader-changed c")
	lacking := heard("c", "b")
	lacking.Ping.Unfit = election.UnfitStore
	x.step(1200*time.Millisecond, lacking, "leader-changed b", "start-leading")
}

func TestStepLeavesItsInputAlone(t *testing.T) {
	s, _ := election.Step(election.New("b", epoch), heard("a", ""), at(0))
	before := slices.Clone(s.Peers)
	election.Step(s, heard("a", "a"), at(time.Second))
	election.Step(s, election.Tick{}, at(time.Hour))
	if !slices.Equal(before, s.Peers) {
		t.Fatalf("the state changed to %v", s.Peers)
	}
}

// world is a few daemons that ping each other over links that can be cut.
type world struct {
	now   time.Duration
	hosts []cluster.HostID
	up    map[cluster.HostID]*election.State
	cut   map[[2]cluster.HostID]bool
}

func (w *world) step(h cluster.HostID, e election.Event) {
	s, _ := election.Step(*w.up[h], e, at(w.now))
	w.up[h] = &s
}

func (w *world) ping(h cluster.HostID) cluster.Ping {
	p := cluster.Ping{Host: h}
	w.up[h].Stand(&p)
	return p
}

// round has every daemon ping every other one that it can reach.
func (w *world) round() {
	for _, a := range w.hosts {
		if w.up[a] == nil {
			continue
		}
		w.step(a, election.Tick{})
		for _, b := range w.hosts {
			if a == b || w.up[b] == nil || w.cut[[2]cluster.HostID{a, b}] || w.cut[[2]cluster.HostID{b, a}] {
				continue
			}
			w.step(b, election.Heard{Ping: w.ping(a)})
			w.step(a, election.Heard{Ping: w.ping(b)})
		}
	}
}

func (w *world) leading() []cluster.HostID {
	var out []cluster.HostID
	for _, h := range w.hosts {
		if s := w.up[h]; s != nil && s.Leading() {
			out = append(out, h)
		}
	}
	return out
}

// Whatever happened, once the daemons are in sight of each other they agree
// on one leader within five seconds, and it is one of the fittest; and then it
// stays.
func TestAgreement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{hosts: []cluster.HostID{"a", "b", "c", "d"}, up: map[cluster.HostID]*election.State{}, cut: map[[2]cluster.HostID]bool{}}
		host := rapid.SampledFrom(w.hosts)
		begin := func(h cluster.HostID) {
			s := election.New(h, at(w.now))
			w.up[h] = &s
		}
		begin(host.Draw(t, "first"))
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			h := host.Draw(t, "host")
			switch what := rapid.IntRange(0, 8).Draw(t, "what"); {
			case what == 0:
				begin(h)
			case what == 1:
				delete(w.up, h)
			case what == 2:
				w.cut[[2]cluster.HostID{h, host.Draw(t, "to")}] = true
			case what == 3:
				w.cut = map[[2]cluster.HostID]bool{}
			case w.up[h] == nil:
			case what == 4:
				w.step(h, election.Fit{Unfit: rapid.SampledFrom([]string{"", "sick", election.UnfitDisk, election.UnfitStoreSilent, election.UnfitUnanswered, election.UnfitStore}).Draw(t, "unfit")})
				w.step(h, election.Stands{Fence: cluster.Fence{Number: rapid.Uint64Range(0, 9).Draw(t, "fence"), Host: host.Draw(t, "of")}, Well: rapid.Bool().Draw(t, "well")})
			case what == 5:
				w.step(h, election.Seeds{Missing: rapid.IntRange(-1, 3).Draw(t, "missing")})
			case what == 6 && rapid.IntRange(0, 3).Draw(t, "really") == 0:
				w.step(h, election.Leave{})
			default:
				w.round()
			}
			w.now += time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond
		}
		w.cut = map[[2]cluster.HostID]bool{}
		for end := w.now + 5*time.Second; w.now < end; w.now += 100 * time.Millisecond {
			w.round()
		}
		agreed := w.agree(t)
		for end := w.now + 5*time.Second; w.now < end; w.now += 100 * time.Millisecond {
			w.round()
			if got := w.agree(t); got != agreed {
				t.Fatalf("%q leads after %q", got, agreed)
			}
		}
	})
}

// agree is whom all follow, and who leads alone.
func (w *world) agree(t *rapid.T) cluster.HostID {
	may := w.mayLead()
	var leader cluster.HostID
	for _, h := range w.hosts {
		if s := w.up[h]; s != nil {
			leader = s.Leader
		}
	}
	for _, h := range w.hosts {
		if s := w.up[h]; s != nil && s.Leader != leader {
			t.Fatalf("%s follows %q, another %q", h, s.Leader, leader)
		}
	}
	if len(may) == 0 && leader != "" || len(may) > 0 && !slices.Contains(may, leader) {
		t.Fatalf("%q leads, of %q", leader, may)
	}
	if got := w.leading(); leader == "" && len(got) != 0 || leader != "" && !slices.Equal(got, []cluster.HostID{leader}) {
		t.Fatalf("%v lead, want %q", got, leader)
	}
	return leader
}

// mayLead are the fittest hosts.
func (w *world) mayLead() []cluster.HostID {
	for _, excuse := range []string{"", election.UnfitDisk, election.UnfitStoreSilent, election.UnfitUnanswered, election.UnfitStore} {
		var out []cluster.HostID
		for _, h := range w.hosts {
			if s := w.up[h]; s != nil && !s.Leaving && s.Unfit == excuse {
				out = append(out, h)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Three daemons that start within the settle time lead one and the same from
// the beginning: nobody leads for a moment in between.
func TestStartingTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{hosts: []cluster.HostID{"a", "b", "c"}, up: map[cluster.HostID]*election.State{}}
		starts := map[cluster.HostID]time.Duration{}
		for _, h := range w.hosts {
			starts[h] = time.Duration(rapid.IntRange(0, 250).Draw(t, "start "+string(h))) * time.Millisecond
		}
		for ; w.now < 3*time.Second; w.now += 10 * time.Millisecond {
			for _, h := range w.hosts {
				if starts[h] == w.now.Round(10*time.Millisecond) || w.up[h] == nil && starts[h] <= w.now {
					s := election.New(h, at(w.now))
					w.up[h] = &s
					w.step(h, election.Seeds{Missing: 0})
				}
			}
			if w.now%(100*time.Millisecond) < 20*time.Millisecond {
				w.round()
			}
			if got := w.leading(); len(got) > 0 && !slices.Equal(got, []cluster.HostID{"a"}) {
				t.Fatalf("at %s %v lead (starts %v)", w.now, got, starts)
			}
		}
		if got := w.leading(); !slices.Equal(got, []cluster.HostID{"a"}) {
			t.Fatalf("%v lead in the end", got)
		}
	})
}

// The daemon that leads is killed: another leads within five seconds.
func TestKilledLeader(t *testing.T) {
	w := &world{hosts: []cluster.HostID{"a", "b", "c"}, up: map[cluster.HostID]*election.State{}}
	for _, h := range w.hosts {
		s := election.New(h, at(0))
		w.up[h] = &s
	}
	for ; w.now < 10*time.Second; w.now += time.Second { // the idle cadence
		w.round()
	}
	delete(w.up, "a")
	killed := w.now
	for len(w.leading()) == 0 {
		w.round()
		w.now += 100 * time.Millisecond
		if w.now > killed+5*time.Second {
			t.Fatal("nobody leads after five seconds")
		}
	}
	if got := w.leading(); !slices.Equal(got, []cluster.HostID{"b"}) {
		t.Fatalf("%v lead", got)
	}
}

// Until the time that a state names, the passing of time changes nothing; and the
// time that it names has not passed, else whoever waits for it never waits again.
func TestNextIsWhenTimeAloneChangesSomething(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now time.Duration
		s := election.New("b", at(0))
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond
			var e election.Event = election.Tick{}
			unfit := rapid.SampledFrom([]string{"", "sick", election.UnfitDisk, election.UnfitStoreSilent, election.UnfitUnanswered, election.UnfitStore})
			names := rapid.SampledFrom([]cluster.HostID{"", "a", "b", "c", "d"})
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				e = election.Seeds{Missing: rapid.IntRange(-1, 1).Draw(t, "missing")}
			case 3:
				e = election.Fit{Unfit: unfit.Draw(t, "own")}
			case 1, 2:
				e = election.Heard{Ping: cluster.Ping{
					Host:   rapid.SampledFrom([]cluster.HostID{"a", "c", "d"}).Draw(t, "host"),
					Unfit:  unfit.Draw(t, "unfit"),
					Leader: names.Draw(t, "leader"), LeadsWell: rapid.Bool().Draw(t, "well"),
					Leaving: rapid.Bool().Draw(t, "leaving"),
				}}
			}
			s, _ = election.Step(s, e, at(now))
			next := s.Next()
			if !next.IsZero() && !next.After(at(now)) {
				t.Fatalf("at %s it waits for %s, which has passed: %+v", now, next.Sub(epoch), s)
			}
			last := at(now + time.Hour)
			if !next.IsZero() {
				last = next.Add(-time.Nanosecond)
			}
			if then, _ := election.Step(s, election.Tick{}, last); then.Leader != s.Leader || then.Settled != s.Settled {
				t.Fatalf("from %s on it waits for %s, and before that it follows %q (settled %t): %+v", now, next.Sub(epoch), then.Leader, then.Settled, s)
			}
		}
	})
}

// Nobody's silence is waited for who leaves already.
func TestWaitsForNobodyWhoChangesNothing(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	gone := heard("c", "")
	gone.Ping.Leaving = true
	x.step(0, gone)
	x.step(time.Second, election.Tick{}, "leader-changed b", "start-leading")
	if next := x.s.Next(); !next.IsZero() {
		t.Errorf("it waits until %s for one that leaves", next)
	}
}

// A peer is live for as long as it may be silent, and one that nobody heard is not.
func TestLive(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(0, heard("c", ""))
	for _, c := range []struct {
		host cluster.HostID
		at   time.Duration
		want bool
	}{{"c", 0, true}, {"c", election.PeerTimeout - 1, true}, {"c", election.PeerTimeout, false}, {"a", 0, false}, {"d", 0, false}} {
		if got := x.s.Live(c.host, at(c.at)); got != c.want {
			t.Errorf("%s is live after %s: %t", c.host, c.at, got)
		}
	}
}

// A daemon that hears itself, by an address that it was told of, has no peer by that.
func TestHearsItself(t *testing.T) {
	x := &script{t: t, s: election.New("b", epoch)}
	x.step(0, heard("b", "b"))
	x.step(0, heard("", "b"))
	if len(x.s.Peers) != 0 {
		t.Errorf("its peers are %+v", x.s.Peers)
	}
}
