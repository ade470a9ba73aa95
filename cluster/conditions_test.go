package cluster

import (
	"testing"
	"time"
)

// TestHaltedHost: a voter is halted for sure only when all of it is known.
func TestHaltedHost(t *testing.T) {
	look := func(change func(h *HostReport)) string {
		o := halted(0)
		change(&o.Hosts[1])
		in := o.Store.Intent
		_, why := o.HaltedHost(in.Voters[1], in.Halted())
		return why
	}
	if why := look(func(*HostReport) {}); why != "" {
		t.Fatal(why)
	}
	for what, change := range map[string]func(h *HostReport){
		"it promised another leader":  func(h *HostReport) { h.UnderFence = false },
		"it keeps no intent":          func(h *HostReport) { h.Intent = nil },
		"it keeps one without a halt": func(h *HostReport) { h.Intent = h.Intent.Clone(); h.Intent.Halt = nil },
		"it keeps another halt": func(h *HostReport) {
			h.Intent = h.Intent.Clone()
			other := *h.Intent.Halt
			other.ID = "change-1-9"
			h.Intent.Halt = &other
		},
		"its member runs":           func(h *HostReport) { h.Process.State = ProcessRunning },
		"its member is silent":      func(h *HostReport) { h.Process.State = ProcessSilent },
		"its member starts again":   func(h *HostReport) { h.Process.State = ProcessBackoff },
		"its member was removed":    func(h *HostReport) { h.Local.State = MemberRemoved },
		"its data is gone":          func(h *HostReport) { h.Local.HasData = false },
		"its log was not read":      func(h *HostReport) { h.Log = nil },
		"its log is being read":     func(h *HostReport) { h.Log, h.Reading = nil, &LogReading{Bytes: 1, Of: 2} },
		"it carries another member": func(h *HostReport) { h.Local.Member = 77 },
		"it is of the next generation": func(h *HostReport) {
			h.Local.Generation++
		},
	} {
		if look(change) == "" {
			t.Errorf("it counts as halted although %s", what)
		}
	}
}

// TestQuiet: it is quiet since the first look of an unbroken row in which every voter's
// host was under one fence, and the intent was not written.
func TestQuiet(t *testing.T) {
	begin := func() (Quiet, *Observation) {
		o := three(0)
		o.Store.Intent = &Intent{Name: "test", Generation: 1, Write: 5, State: IntentFounded}
		return Quiet{Since: epoch.Add(-time.Minute), Fence: o.Fence, Generation: 1, Write: 5}, o
	}
	quiet := func(change func(q *Quiet, o *Observation)) Quiet {
		q, o := begin()
		change(&q, o)
		r, listed := o.Roster()
		return foldQuiet(q, o, r, listed)
	}
	if q := quiet(func(*Quiet, *Observation) {}); !q.Since.Equal(epoch.Add(-time.Minute)) {
		t.Errorf("quiet since %s", q.Since)
	}
	for what, change := range map[string]func(q *Quiet, o *Observation){
		"another fence":                      func(q *Quiet, _ *Observation) { q.Fence.Number++ },
		"another generation":                 func(q *Quiet, _ *Observation) { q.Generation++ },
		"a write":                            func(q *Quiet, _ *Observation) { q.Write-- },
		"no time":                            func(q *Quiet, _ *Observation) { q.Since = time.Time{} },
		"a host that promised another":       func(_ *Quiet, o *Observation) { o.Hosts[1].UnderFence = false },
		"a voter whose host is out of sight": func(_ *Quiet, o *Observation) { lose(o, "b", false) },
		"no intent":                          func(_ *Quiet, o *Observation) { o.Store.Intent = nil },
	} {
		if q := quiet(change); !q.Since.IsZero() && !q.Since.Equal(epoch) {
			t.Errorf("after %s it has been quiet since %s", what, q.Since)
		}
	}
	if q := quiet(func(_ *Quiet, o *Observation) { o.Hosts[1].UnderFence = false }); !q.Since.IsZero() {
		t.Error("it is quiet although a host takes ops of another leader")
	}
}

// TestFollowsMember: whose member is of this cluster's own history.
func TestFollowsMember(t *testing.T) {
	in := &Intent{Generation: 3, Cluster: 0xc3, History: []PastGeneration{{Generation: 1, Cluster: 0xc1}, {Generation: 2}}}
	for _, c := range []struct {
		what string
		in   *Intent
		l    LocalMember
		want bool
	}{
		{"of this generation", in, LocalMember{Generation: 3, Cluster: 0xc3}, true},
		{"of a later one", in, LocalMember{Generation: 4, Cluster: 0xc4}, true},
		{"of the history", in, LocalMember{Generation: 1, Cluster: 0xc1}, true},
		{"of the history, cluster unknown here", in, LocalMember{Generation: 1}, true},
		{"of the history, cluster unknown there", in, LocalMember{Generation: 2, Cluster: 9}, true},
		{"of another cluster of that generation", in, LocalMember{Generation: 1, Cluster: 9}, false},
		{"taken over, of this cluster", in, LocalMember{Cluster: 0xc3}, true},
		{"taken over, of one before", in, LocalMember{Cluster: 0xc1}, true},
		{"taken over, of another", in, LocalMember{Cluster: 9}, false},
		{"of nothing", in, LocalMember{}, true},
		{"taken over, and nothing is ours yet", &Intent{Cluster: 1}, LocalMember{Cluster: 9}, true},
		{"no intent", nil, LocalMember{Generation: 1, Cluster: 9}, true},
	} {
		if got := c.in.FollowsMember(c.l); got != c.want {
			t.Errorf("a member %s: %t", c.what, got)
		}
	}
}

// TestAdopts: the intent that takes a cluster over makes those members its own that it
// names, on the very disks.
func TestAdopts(t *testing.T) {
	adopts := func(change func(in *Intent, l *LocalMember)) bool {
		in := &Intent{Generation: 1, Cluster: 0xc1, Source: Source{Kind: SourceAdopted}, Founders: []Founder{{Host: "a", Disk: "d", Member: 1}}}
		l := LocalMember{State: MemberStarted, Cluster: 0xc1, Member: 1}
		change(in, &l)
		return in.Adopts("a", "d", l)
	}
	if !adopts(func(*Intent, *LocalMember) {}) {
		t.Fatal("its own member is not taken over")
	}
	for what, change := range map[string]func(in *Intent, l *LocalMember){
		"of a founding":            func(in *Intent, _ *LocalMember) { in.Source.Kind = SourceNothing },
		"on another disk":          func(in *Intent, _ *LocalMember) { in.Founders[0].Disk = "x" },
		"on another host":          func(in *Intent, _ *LocalMember) { in.Founders[0].Host = "x" },
		"of another member":        func(_ *Intent, l *LocalMember) { l.Member = 2 },
		"of another cluster":       func(_ *Intent, l *LocalMember) { l.Cluster = 9 },
		"of an unknown cluster":    func(in *Intent, l *LocalMember) { l.Cluster, in.Cluster = 0, 0 },
		"of ours, of a generation": func(_ *Intent, l *LocalMember) { l.Generation = 1 },
	} {
		if adopts(change) {
			t.Errorf("a member %s is taken over", what)
		}
	}
}

// TestPrunable: what is not known keeps a directory from going by itself.
func TestPrunable(t *testing.T) {
	whole := SetAside{Dir: "x", Cluster: 1, Generation: 1, Member: 1, Reason: AsideRemoved, At: epoch, Log: Progress{Term: 1, Index: 1}, Doubt: DoubtNone}
	if !whole.Prunable() {
		t.Fatal("nothing may go")
	}
	for what, change := range map[string]func(a *SetAside){
		"superseded":           func(a *SetAside) { a.Reason = AsideSuperseded },
		"doubted":              func(a *SetAside) { a.Doubt = DoubtFound },
		"of unknown keys":      func(a *SetAside) { a.Doubt = DoubtUnknown },
		"not given up":         func(a *SetAside) { a.Foreign = true },
		"of no cluster":        func(a *SetAside) { a.Cluster = 0 },
		"of no generation":     func(a *SetAside) { a.Generation = 0 },
		"of no member":         func(a *SetAside) { a.Member = 0 },
		"of no time":           func(a *SetAside) { a.At = time.Time{} },
		"with a log not read":  func(a *SetAside) { a.Log = Progress{} },
		"with a term and none": func(a *SetAside) { a.Log.Index = 0 },
	} {
		a := whole
		if change(&a); a.Prunable() {
			t.Errorf("what is %s may go", what)
		}
	}
}

// TestVoterIs: the ID tells; before there is one, the disk does.
func TestVoterIs(t *testing.T) {
	for _, c := range []struct {
		a, b Voter
		want bool
	}{
		{Voter{Member: 1, Host: "a"}, Voter{Member: 1, Host: "b"}, true},
		{Voter{Member: 1, Host: "a", Disk: "d"}, Voter{Member: 2, Host: "a", Disk: "d"}, false},
		{Voter{Host: "a", Disk: "d"}, Voter{Host: "a", Disk: "d"}, true},
		{Voter{Host: "a", Disk: "d"}, Voter{Host: "a", Disk: "e"}, false},
		{Voter{Host: "a", Disk: "d"}, Voter{Host: "b", Disk: "d"}, false},
		{Voter{Host: "a", Disk: "d"}, Voter{Member: 1, Host: "a", Disk: "d"}, false},
	} {
		if got := c.a.is(c.b); got != c.want {
			t.Errorf("%+v is %+v: %t", c.a, c.b, got)
		}
	}
}

// TestQuorumless: the time until a recovery by itself runs only while no quorum
// serves, and while no voter is away for as long as its database is written anew.
func TestQuorumless(t *testing.T) {
	look := func(change func(o *Observation)) bool {
		o := three(0)
		o.Store.Intent = &Intent{Name: "test", Generation: 1, Cluster: 7, State: IntentFounded, Voters: []Voter{{Host: "a", Member: 1}, {Host: "b", Member: 2}, {Host: "c", Member: 3}}}
		lose(lose(o, "b", false), "c", false)
		o.Hosts[0].View.Linearizable = false
		change(o)
		o.Sort()
		r, listed := o.Roster()
		return o.quorumless(r, listed)
	}
	busy := func(host HostID, op OpKind, late bool) func(o *Observation) {
		return func(o *Observation) { o.Gaps[0] = Gap{Kind: GapBusy, Host: host, Op: op, Late: late} }
	}
	for _, c := range []struct {
		what   string
		change func(o *Observation)
		want   bool
	}{
		{"one of three is up", func(*Observation) {}, true},
		{"a read goes through raft", func(o *Observation) { o.Hosts[0].View.Linearizable = true }, false},
		{"a read goes through another cluster's raft", func(o *Observation) { o.Hosts[0].View.Linearizable, o.Store.Intent.Cluster = true, 8 }, true},
		{"nobody gives a list", func(o *Observation) { o.Hosts[0].View = nil }, true},
		{"it is being founded", func(o *Observation) { o.Store.Intent.State = IntentFounding }, false},
		{"there is no intent", func(o *Observation) { o.Store.Intent = nil }, false},
		{"a voter is defragmented", busy("b", OpDefragment, false), false},
		{"a voter is defragmented, and nobody gives a list", func(o *Observation) { busy("b", OpDefragment, false)(o); o.Hosts[0].View = nil }, false},
		{"a defragmentation should have ended", busy("b", OpDefragment, true), true},
		{"another host is defragmented", busy("x", OpDefragment, false), true},
		{"a voter is restarted", busy("b", OpRestart, false), true},
		{"a voter's disk takes its time", busy("b", OpPromise, false), true},
		{"a voter's daemon starts", busy("b", OpBoot, false), true},
		{"a daemon was defragmenting when it fell silent", func(o *Observation) { o.Gaps[0].Op = OpDefragment }, true},
	} {
		if got := look(c.change); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}

// TestPendingBothWays: a voter that may be added and one that may be removed are two
// changes, though they are about the same one.
func TestPendingBothWays(t *testing.T) {
	in := &Intent{}
	in.pend([]VoterChange{{Voter: Voter{Member: 1}}})
	in.pend([]VoterChange{{Voter: Voter{Member: 1}, Remove: true}, {Voter: Voter{Member: 1}}})
	if len(in.Pending) != 2 {
		t.Errorf("pending: %+v", in.Pending)
	}
}

// TestVersionsWanted: when the members are asked what they have agreed on.
func TestVersionsWanted(t *testing.T) {
	look := func(change func(o *Observation)) bool {
		o := three(0)
		o.Spec = &Spec{MemberCount: 3, EtcdVersion: MustVersion("3.6.16")}
		for i := range o.Hosts {
			o.Hosts[i].Local.Version, o.Hosts[i].Status.Version = MustVersion("3.6.16"), MustVersion("3.6.16")
		}
		change(o)
		return o.VersionsWanted()
	}
	for _, c := range []struct {
		what   string
		change func(o *Observation)
		want   bool
	}{
		{"nothing is to be changed", func(*Observation) {}, false},
		{"another version is wanted", func(o *Observation) { o.Spec.EtcdVersion = MustVersion("3.7.3") }, true},
		{"a downgrade is under way", func(o *Observation) { o.Hosts[1].Status.Downgrading = MustVersion("3.5.0") }, true},
		{"a member runs another release than it was given", func(o *Observation) { o.Hosts[1].Status.Version = MustVersion("3.6.15") }, true},
		{"a host is out of reach", func(o *Observation) { o.Gaps = []Gap{{Kind: GapUnreachable, Host: "x"}} }, true},
		{"a host is busy", func(o *Observation) { o.Gaps = []Gap{{Kind: GapBusy, Host: "x"}} }, false},
		{"a member does not answer", func(o *Observation) { o.Hosts[1].Status = nil }, true},
		{"a member of old does not answer", func(o *Observation) {
			o.Spec = nil
			for i := range o.Hosts {
				o.Hosts[i].Local.Version, o.Hosts[i].Status = MustVersion("3.4.25"), nil
			}
		}, false},
		{"a host without a member", func(o *Observation) { o.Hosts[1].Local, o.Hosts[1].Status = LocalMember{}, nil }, false},
		{"no spec", func(o *Observation) { o.Spec = nil }, false},
	} {
		if got := look(c.change); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}
