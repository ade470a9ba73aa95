package cluster

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// twoGenerations is a cluster of a, b and c that serves, and a generation that is being
// founded from a backup to take its place.
func twoGenerations() (o *Observation, in *Intent) {
	voters := []Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}
	in = &Intent{
		Name: "x", Generation: 2, Nonce: "n2", Token: "t2", Cluster: 20, Write: 1, State: IntentFounding, Timestamp: epoch.Add(-time.Minute).UnixNano(),
		Source: Source{Kind: SourceBackup}, History: []PastGeneration{{Generation: 1, Cluster: 10, Voters: [][]Voter{voters}}},
	}
	o = &Observation{At: epoch, Store: StoreView{Read: true, Intent: &Intent{Name: "x", Generation: 1, Nonce: "n1", Token: "t1", Cluster: 10, Write: 7, State: IntentFounded, Voters: voters}}}
	for _, v := range voters {
		h := HostReport{HostState: HostState{Host: v.Host, Intent: o.Store.Intent, View: &MemberView{Cluster: 10, Linearizable: true}}, UnderFence: true}
		h.Local.Generation, h.Local.Cluster = 1, 10
		o.Hosts = append(o.Hosts, h)
	}
	return o, in
}

// TestDoubtOfAFounding: which generation that is being founded may take the place of one
// that may serve.
func TestDoubtOfAFounding(t *testing.T) {
	type sight struct {
		o  *Observation
		in *Intent
	}
	refuse := func(hosts ...int) func(s sight) {
		return func(s sight) {
			for _, i := range hosts {
				s.o.Hosts[i].LowestGeneration = 2
			}
		}
	}
	silent := func(s sight) {
		for i := range s.o.Hosts {
			s.o.Hosts[i].View = nil
		}
	}
	hearsay := func(s sight) {
		for i := range s.o.Hosts {
			s.o.Hosts[i].View.Linearizable = false
		}
	}
	stored := func(s sight) { s.o.Store.Intent = s.in }
	aged := func(s sight) { s.in.Timestamp = epoch.Add(-ConsentLasts - time.Second).UnixNano() }
	survivor := func(s sight) { s.in.Source.Kind = SourceSurvivor }
	closed := func(s sight) { s.in.History[0].Closed = true }
	earlier := func(cl ClusterID, closed bool) func(s sight) {
		return func(s sight) {
			s.in.History = append([]PastGeneration{{Cluster: cl, Closed: closed, Voters: [][]Voter{{{Host: "x", Member: 9}}}}}, s.in.History...)
		}
	}
	reads := func(cl ClusterID) func(s sight) {
		return func(s sight) {
			for i := range s.o.Hosts {
				s.o.Hosts[i].View.Cluster = cl
			}
		}
	}
	for what, c := range map[string]struct {
		change []func(s sight)
		want   FoundingDoubt
	}{
		"a host alone has it":                         {nil, FoundingUnstored},
		"and nothing serves at the moment":            {[]func(s sight){silent}, FoundingUnstored},
		"the store does not answer":                   {[]func(s sight){func(s sight) { s.o.Store.Read = false }}, FoundingUnknown},
		"the store has one of its number":             {[]func(s sight){func(s sight) { other := s.in.Clone(); other.Nonce = "m"; s.o.Store.Intent = other }}, FoundingUnstored},
		"it is founded":                               {[]func(s sight){func(s sight) { s.in.State = IntentFounded }}, ""},
		"one of three makes way":                      {[]func(s sight){refuse(2)}, FoundingUnstored},
		"two of three make way":                       {[]func(s sight){refuse(0, 2)}, ""},
		"two make way, and the store does not answer": {[]func(s sight){refuse(0, 2), func(s sight) { s.o.Store.Read = false }}, ""},
		"two of three keep it":                        {[]func(s sight){func(s sight) { s.o.Hosts[0].Intent, s.o.Hosts[1].Intent = s.in, s.in }}, ""},
		"two make way, and not those of a set to be": {[]func(s sight){refuse(0, 2), func(s sight) {
			s.in.History[0].Voters = append(s.in.History[0].Voters, []Voter{{Host: "x"}, {Host: "y"}})
		}}, FoundingUnstored},
		"two make way, and not an open one before":        {[]func(s sight){refuse(0, 2), earlier(5, false)}, FoundingUnstored},
		"two make way, and one before is closed":          {[]func(s sight){refuse(0, 2), earlier(5, true)}, ""},
		"a word closed the one before":                    {[]func(s sight){closed}, FoundingUnstored},
		"a voter without a host makes no way":             {[]func(s sight){refuse(0, 1, 2), func(s sight) { s.in.History[0].Voters = [][]Voter{{{Member: 1}}} }}, FoundingUnstored},
		"the store has it":                                {[]func(s sight){stored}, ""},
		"for ten minutes":                                 {[]func(s sight){stored, func(s sight) { s.in.Timestamp = epoch.Add(-ConsentLasts).UnixNano() }}, ""},
		"for longer":                                      {[]func(s sight){stored, aged}, FoundingAged},
		"for longer, and nothing serves at the moment":    {[]func(s sight){stored, aged, silent}, FoundingAged},
		"for longer, and nothing can serve":               {[]func(s sight){stored, aged, silent, refuse(0, 1)}, ""},
		"for longer, and what may serve was closed":       {[]func(s sight){stored, aged, silent, closed}, ""},
		"for longer, and what was closed serves":          {[]func(s sight){stored, aged, closed}, FoundingAged},
		"for longer, and is made from nothing":            {[]func(s sight){stored, aged, func(s sight) { s.in.Source.Kind = SourceNothing }}, ""},
		"it is a recovery of what serves":                 {[]func(s sight){stored, survivor}, FoundingNeedless},
		"it is a recovery of what is closed and serves":   {[]func(s sight){stored, survivor, closed}, FoundingNeedless},
		"it is a recovery, and nothing serves":            {[]func(s sight){stored, survivor, silent}, ""},
		"it is a recovery, and a list may be old":         {[]func(s sight){stored, survivor, hearsay}, ""},
		"it is a recovery, and something else serves":     {[]func(s sight){stored, survivor, reads(77)}, ""},
		"it is a recovery, and one long closed serves":    {[]func(s sight){stored, survivor, earlier(5, true), reads(5)}, ""},
		"it is a recovery, and one before that is open":   {[]func(s sight){stored, survivor, earlier(5, false), reads(5)}, FoundingNeedless},
		"it is a recovery of one whose name is not known": {[]func(s sight){stored, survivor, func(s sight) { s.in.History[0].Cluster = 0 }, reads(0)}, ""},
	} {
		o, in := twoGenerations()
		o.Hosts[2].Intent = in
		for _, change := range c.change {
			change(sight{o, in})
		}
		if got := o.DoubtOf(in); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	o, _ := twoGenerations()
	for _, in := range []*Intent{nil, {State: IntentFounding}, o.Store.Intent} {
		if d := o.DoubtOf(in); d != "" {
			t.Errorf("%+v is in doubt: %q", in, d)
		}
	}
}

// TestFollowed: what hosts alone remember of a founding is not the record; what the store
// has is, even where nobody is told of it.
func TestFollowed(t *testing.T) {
	o, in := twoGenerations()
	below := o.Store.Intent
	o.Hosts[0].Intent, o.Hosts[2].Intent = below, in
	if o.Intent() != below || o.Followed() != below {
		t.Errorf("a host alone has it: %+v, followed %+v", o.Intent(), o.Followed())
	}
	o.Store.Read = false
	if o.Intent() != below {
		t.Errorf("the store does not answer: %+v", o.Intent())
	}
	o.Store.Read, o.Store.Intent = true, in
	if o.Intent() != in || o.Followed() != in {
		t.Errorf("the store has it: %+v, followed %+v", o.Intent(), o.Followed())
	}
	in.Timestamp = epoch.Add(-time.Hour).UnixNano()
	if o.Intent() != in || o.Followed() != below {
		t.Errorf("the store has it for long: %+v, followed %+v", o.Intent(), o.Followed())
	}
	later := below.Clone()
	later.Write++
	o.Store.Intent, o.Hosts[1].Intent, o.Hosts[2].Intent = below, later, nil
	if o.Intent() != later || o.Followed() != later {
		t.Errorf("a host has a later write: %+v, followed %+v", o.Intent(), o.Followed())
	}
}

// TestUnfollowed: each founding that is remembered and not followed is told of once, with
// all that remember it.
func TestUnfollowed(t *testing.T) {
	o, in := twoGenerations()
	if u := o.Unfollowed(); len(u) != 0 {
		t.Errorf("there is none: %+v", u)
	}
	third := in.Clone()
	third.Generation, third.Nonce = 3, "n3"
	o.Hosts = append(o.Hosts, HostReport{HostState: HostState{Host: "d", Intent: in}}, HostReport{HostState: HostState{Host: "e", Intent: in}}, HostReport{HostState: HostState{Host: "f", Intent: third}})
	u := o.Unfollowed()
	if len(u) != 2 || u[0].Intent != in || u[0].Doubt != FoundingUnstored || !slices.Equal(u[0].Hosts, []HostID{"d", "e"}) || u[1].Intent != third || !slices.Equal(u[1].Hosts, []HostID{"f"}) {
		t.Errorf("%+v", u)
	}
	o.Store.Intent = in
	if u = o.Unfollowed(); len(u) != 1 || u[0].Intent != third {
		t.Errorf("the store has one of them: %+v", u)
	}
	in.Timestamp = epoch.Add(-time.Hour).UnixNano()
	if u = o.Unfollowed(); len(u) != 1 || u[0].Intent != third {
		t.Errorf("the store has one of them for long: %+v", u)
	}
}

// TestServes: a cluster of the record that reads through raft has a quorum.
func TestServes(t *testing.T) {
	o, in := twoGenerations()
	present := o.Store.Intent
	if !o.Serves(present) || !o.Serves(in) || o.Serves(nil) {
		t.Error("what serves is not seen")
	}
	present.State = IntentFounding
	if o.Serves(present) {
		t.Error("what is being founded serves")
	}
	present.State = IntentFounded
	for i := range o.Hosts {
		o.Hosts[i].View.Linearizable = false
	}
	if o.Serves(present) || o.Serves(in) {
		t.Error("a list that may be old is taken for a read")
	}
	for i := range o.Hosts {
		o.Hosts[i].View = &MemberView{Cluster: 77, Linearizable: true}
	}
	if o.Serves(present) || o.Serves(in) {
		t.Error("another cluster serves")
	}
}

// TestWhatWasRunOrEnded: what any record in sight says of a command counts, be it the
// store's or one that a single host keeps, followed or not.
func TestWhatWasRunOrEnded(t *testing.T) {
	for _, where := range []string{"nowhere", "store", "host", "no store"} {
		o, in := twoGenerations()
		noted := in.Clone()
		noted.CommandsRun = []string{"r"}
		noted.NoteEnd(EndedCommand{Name: "e", Result: "rejected"})
		switch where {
		case "store":
			o.Store.Intent = noted
		case "no store":
			o.Store.Intent = nil
			fallthrough
		case "host":
			o.Hosts[2].Intent = noted
		}
		end, ended := o.EndOf("e")
		if known := where != "nowhere"; o.Ran("r") != known || ended != known || known && end.Result != "rejected" {
			t.Errorf("%s: run %t, ended %t: %+v", where, o.Ran("r"), ended, end)
		}
		if _, ended := o.EndOf("r"); o.Ran("e") || ended {
			t.Errorf("%s: what was run is no end, and an end is no run", where)
		}
		if named := o.Named("t2"); named != (where != "nowhere") || o.Named("") || o.Named("t9") {
			t.Errorf("%s: token is named: %t", where, named)
		}
	}
}

// TestEndsAreKept: the last ones are, the newest last.
func TestEndsAreKept(t *testing.T) {
	in := &Intent{}
	before := in.Ended
	for i := range keptEnded + 5 {
		in.NoteEnd(EndedCommand{Name: strconv.Itoa(i)})
	}
	if len(in.Ended) != keptEnded || in.Ended[0].Name != "5" || in.Ended[keptEnded-1].Name != strconv.Itoa(keptEnded+4) || before != nil {
		t.Errorf("%+v", in.Ended)
	}
	c := in.Clone()
	c.Ended[0].Name = "x"
	if in.Ended[0].Name == "x" {
		t.Error("a copy shares its ends")
	}
}

// TestOrderOfWriters: records of one generation and write are ordered by who wrote them,
// and what only hosts keep comes before that.
func TestOrderOfWriters(t *testing.T) {
	low, high := Fence{Number: 1, Host: "a"}, Fence{Number: 2, Host: "b"}
	of := func(write uint64, unstored, by Fence) *Intent {
		return &Intent{Generation: 1, Write: write, Unstored: unstored, By: by}
	}
	sorted := []*Intent{of(1, Fence{}, high), of(2, Fence{}, Fence{}), of(2, Fence{}, low), of(2, Fence{}, high), of(2, low, Fence{}), of(2, high, Fence{}), of(3, Fence{}, low)}
	for i, a := range sorted {
		for j, b := range sorted {
			if want := min(max(i-j, -1), 1); a.Order(b) != want {
				t.Errorf("%+v and %+v: %d, want %d", a, b, a.Order(b), want)
			}
		}
	}
}

// TestGivenUpByACommand: only the word of a command that can be understood and has not
// ended counts, by a host's name or a member's.
func TestGivenUpByACommand(t *testing.T) {
	for what, c := range map[string]struct {
		command Command
		want    bool
	}{
		"by its host":         {Command{Lost: []HostID{"b"}}, true},
		"by its member":       {Command{Lost: []HostID{HostID(MemberID(2).String())}}, true},
		"another one":         {Command{Lost: []HostID{"c"}}, false},
		"nobody":              {Command{Lost: []HostID{""}}, false},
		"that is malformed":   {Command{Lost: []HostID{"b"}, Malformed: "x"}, false},
		"that has ended":      {Command{Lost: []HostID{"b"}, Ended: "rejected"}, false},
		"that names no hosts": {Command{}, false},
	} {
		o := &Observation{Commands: []Command{c.command}}
		if got := o.GivenUp(Voter{Host: "b", Member: 2}); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
		if what != "by its member" && o.GivenUp(Voter{Member: 2}) {
			t.Errorf("%s: a voter without a host is given up", what)
		}
	}
}

// TestSaysAsMuch: a command that says anything else is another word; what the store has
// of its backup is no part of it.
func TestSaysAsMuch(t *testing.T) {
	whole := func() Command {
		return Command{
			Name: "n", At: epoch, Kind: CommandRestore, Backup: "b", Host: "h", Dir: "d", Version: MustVersion("3.6.16"), NoBackup: true, AcceptLoss: "l",
			Lost: []HostID{"x"}, Count: &CountChange{Members: 3}, Seen: &Seen{Revision: 5},
		}
	}
	for what, change := range map[string]func(c *Command){
		"another name":       func(c *Command) { c.Name = "m" },
		"another time":       func(c *Command) { c.At = c.At.Add(1) },
		"another kind":       func(c *Command) { c.Kind = CommandUndo },
		"another backup":     func(c *Command) { c.Backup = "c" },
		"another host":       func(c *Command) { c.Host = "i" },
		"another directory":  func(c *Command) { c.Dir = "e" },
		"another release":    func(c *Command) { c.Version = MustVersion("3.5.35") },
		"a backup before":    func(c *Command) { c.NoBackup = false },
		"kept for longer":    func(c *Command) { c.KeepFor = time.Hour },
		"another loss":       func(c *Command) { c.AcceptLoss = "m" },
		"one more lost":      func(c *Command) { c.Lost = append(c.Lost, "y") },
		"none lost":          func(c *Command) { c.Lost = nil },
		"another count":      func(c *Command) { c.Count = &CountChange{Members: 5} },
		"no count":           func(c *Command) { c.Count = nil },
		"less seen":          func(c *Command) { c.Seen = &Seen{Revision: 4} },
		"nothing seen":       func(c *Command) { c.Seen = nil },
		"what is malformed":  func(c *Command) { c.Malformed = "x" },
		"what was not read":  func(c *Command) { c.Unread = "x" },
		"":                   func(*Command) {},
		"with its backup":    func(c *Command) { c.Found = &Backup{Name: "b"} },
		"of another zone":    func(c *Command) { c.At = c.At.In(time.FixedZone("x", 3600)) },
		"in another pointer": func(c *Command) { c.Count, c.Seen = &CountChange{Members: 3}, &Seen{Revision: 5} },
	} {
		c := whole()
		change(&c)
		same := slices.Contains([]string{"", "with its backup", "of another zone", "in another pointer"}, what)
		if c.SaysAsMuch(whole()) != same || whole().SaysAsMuch(c) != same {
			t.Errorf("%q: the same word: %t", what, !same)
		}
	}
}

// TestRecovers: only a recovery that is still being founded asks the hosts for their logs.
func TestRecovers(t *testing.T) {
	in := &Intent{State: IntentFounding, Source: Source{Kind: SourceSurvivor}}
	if !in.Recovers() || (*Intent)(nil).Recovers() {
		t.Error("a recovery is none, or nothing is one")
	}
	if in.State = IntentFounded; in.Recovers() {
		t.Error("it goes on once it is founded")
	}
	if in.State, in.Source.Kind = IntentFounding, SourceBackup; in.Recovers() {
		t.Error("a restore is one")
	}
}

// TestClock: what time it is by most hosts.
func TestClock(t *testing.T) {
	for what, c := range map[string]struct {
		ahead []time.Duration
		want  time.Duration
	}{
		"nobody says":                     {nil, 0},
		"one host":                        {[]time.Duration{time.Hour}, time.Hour},
		"two, one of them the leader":     {[]time.Duration{time.Hour, 0}, 0},
		"one of three is ahead":           {[]time.Duration{0, time.Hour, 0}, 0},
		"the leader is behind two others": {[]time.Duration{time.Hour, 0, time.Hour}, time.Hour},
		"two of four":                     {[]time.Duration{time.Hour, 0, time.Hour, 0}, 0},
	} {
		o := &Observation{At: epoch}
		for _, d := range c.ahead {
			o.Hosts = append(o.Hosts, HostReport{HostState: HostState{Clock: epoch.Add(d)}})
		}
		if got := o.Clock().Sub(epoch); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}
