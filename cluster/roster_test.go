package cluster

import (
	"slices"
	"strings"
	"testing"
)

func seat(t *testing.T, o *Observation, id MemberID) Seat {
	t.Helper()
	r, ok := o.Roster()
	if !ok {
		t.Fatal("no roster")
	}
	s, ok := r.Seat(id)
	if !ok {
		t.Fatalf("no seat of member %s", id)
	}
	return s
}

func TestRosterOfHealthyVoters(t *testing.T) {
	r, ok := three(0).Roster()
	if !ok || !r.HasQuorum() || len(r.Voters()) != 3 || len(r.Up()) != 3 || len(r.Learners()) != 0 {
		t.Fatalf("%+v", r)
	}
	if s, _ := r.Seat(1); !s.RaftLeader || s.HostID != "a" || s.Why != "" {
		t.Errorf("%+v", s)
	}
	want := Guard{Cluster: 7, Members: []MemberID{1, 2, 3}, Voters: []MemberID{1, 2, 3}}
	if g := r.Guard(); g.Cluster != want.Cluster || !slices.Equal(g.Members, want.Members) || !slices.Equal(g.Voters, want.Voters) {
		t.Errorf("guard %+v", g)
	}
	if _, ok := (&Observation{}).Roster(); ok {
		t.Error("a roster of nothing")
	}
	if (Roster{}).HasQuorum() {
		t.Error("no voters are a quorum")
	}
}

// TestUp: each fact that up(voter, fence) relies on, taken away.
func TestUp(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(o *Observation, c *HostReport)
		why  string
	}{
		{"no promise", func(_ *Observation, c *HostReport) { c.UnderFence = false }, "has not accepted fence 1/a yet"},
		{"no process", func(_ *Observation, c *HostReport) { c.Process = Process{} }, "not running"},
		{"a process that dies", func(_ *Observation, c *HostReport) {
			c.Process = Process{State: ProcessBackoff, LastExit: "signal: killed"}
		}, "in backoff (signal: killed)"},
		{"a silent process", func(_ *Observation, c *HostReport) { c.Process.State = ProcessSilent }, "its process is silent"},
		{"no answer", func(_ *Observation, c *HostReport) { c.Status = nil }, "does not answer its host"},
		{"another member's answer", func(_ *Observation, c *HostReport) { c.Status.Member = 9 }, "member 9 of cluster 7 answers in its place"},
		{"another cluster's answer", func(_ *Observation, c *HostReport) { c.Status.Cluster = 9 }, "member 3 of cluster 9 answers"},
		{"no quorum reads", func(_ *Observation, c *HostReport) { c.Status.Healthy = false }, "serves no quorum reads"},
		{"nothing carried", func(_ *Observation, c *HostReport) { c.Local = LocalMember{} }, "no member data on host c"},
		{"the host in a gap", func(o *Observation, _ *HostReport) { lose(o, "c", false) }, "host c is unreachable: no answer"},
		{"only the daemon in a gap", func(o *Observation, _ *HostReport) { lose(o, "c", true) }, "its etcd answers at its peer port"},
		{"the host nowhere", func(o *Observation, _ *HostReport) { o.Hosts = o.Hosts[:2] }, "unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := three(0)
			c.take(o, &o.Hosts[2])
			s := seat(t, o, 3)
			if s.Up || !strings.Contains(s.Why, c.why) {
				t.Errorf("up %v: %q", s.Up, s.Why)
			}
			if r, _ := o.Roster(); !r.HasQuorum() || len(r.Up()) != 2 {
				t.Error("the others are no quorum")
			}
			answers := s.Host != nil && s.Host.Status != nil // then nobody has to try its port
			if got := o.Suspects(); answers != (len(got) == 0) || !answers && got[0].ID != 3 {
				t.Errorf("suspects %v", got)
			}
		})
	}
}

// TestWiped: the owner's own word that the member is gone, and everything
// that contradicts it.
func TestWiped(t *testing.T) {
	wiped := func(change func(h *HostReport)) Seat {
		o := three(0)
		h := &o.Hosts[2]
		h.Local, h.Process, h.Status, h.View, h.Disk = LocalMember{}, Process{}, nil, nil, "new"
		change(h)
		return seat(t, o, 3)
	}
	if s := wiped(func(*HostReport) {}); !s.wiped() || s.HostID != "c" {
		t.Errorf("%+v", s)
	}
	if s := wiped(func(h *HostReport) { h.Host = "x" }); !s.wiped() || s.Owner.Host != "x" {
		t.Errorf("under another name at the address: %+v", s)
	}
	if s := wiped(func(h *HostReport) { h.URLs.Peer = []string{"https://elsewhere:2380"} }); !s.wiped() {
		t.Errorf("under its name at another address: %+v", s)
	}
	if s := wiped(func(h *HostReport) { h.Local = LocalMember{State: MemberPrepared, Cluster: 7} }); !s.wiped() {
		t.Errorf("prepared for another member: %+v", s)
	}
	for name, change := range map[string]func(h *HostReport){
		"no promise":       func(h *HostReport) { h.UnderFence = false },
		"data":             func(h *HostReport) { h.Local.HasData = true },
		"a start begun":    func(h *HostReport) { h.Local = LocalMember{State: MemberStarting, Member: 3} },
		"foreign data":     func(h *HostReport) { h.Foreign = []SetAside{{Dir: "x"}} },
		"a process":        func(h *HostReport) { h.Process.State = ProcessForeign },
		"a silent process": func(h *HostReport) { h.Process.State = ProcessSilent },
		"elsewhere":        func(h *HostReport) { h.Host, h.URLs.Peer = "x", nil },
	} {
		if s := wiped(change); s.wiped() {
			t.Errorf("%s: wiped all the same", name)
		}
	}
	o := three(0)
	o.Hosts[2].Local, o.Hosts[2].Process = LocalMember{}, Process{}
	o.Hosts[1].Local.Member = 3
	if seat(t, o, 3).wiped() {
		t.Error("another host claims the member, and it is wiped")
	}
}

func TestWhoseHostItIs(t *testing.T) {
	o := three(0)
	lose(o, "c", false)
	o.Store.Intent = &Intent{Generation: 1, Nonce: "n", Voters: []Voter{{Host: "recorded", Member: 3}}}
	if s := seat(t, o, 3); s.HostID != "recorded" {
		t.Errorf("the intent's record: %s", s.HostID)
	}
	o.Store.Intent = nil
	if s := seat(t, o, 3); s.HostID != "c" {
		t.Errorf("the member's name: %s", s.HostID)
	}
	for i := range o.Hosts {
		o.Hosts[i].View.Members[2].Name = ""
	}
	o.Store.Intent = &Intent{Generation: 1, Nonce: "n", Founders: []Founder{{Host: "founder", Member: 3}}}
	if s := seat(t, o, 3); s.HostID != "founder" {
		t.Errorf("the intent's founder: %s", s.HostID)
	}
	r, _ := o.Roster()
	if !r.Seated("founder") || !r.Seated("a") || r.Seated("d") {
		t.Error("seated")
	}
	if v := seat(t, o, 1).AsVoter(); v.Host != "a" || v.Disk != "disk-a" || v.Member != 1 || !slices.Equal(v.PeerURLs, []string{peerURL("a")}) {
		t.Errorf("%+v", v)
	}
}

// TestWhichMemberListCounts: ours before another cluster's, a newer
// generation's before an older one's, raft's word before a hearsay, the
// furthest last.
func TestWhichMemberListCounts(t *testing.T) {
	view := func(c ClusterID, linearizable bool) *MemberView {
		return &MemberView{Cluster: c, Linearizable: linearizable, Members: []Member{{ID: MemberID(c)}}}
	}
	host := func(id HostID, gen, applied uint64, v *MemberView) HostReport {
		h := HostReport{}
		h.Host, h.Local.Generation, h.View, h.Status = id, gen, v, &MemberStatus{Applied: applied}
		return h
	}
	for _, c := range []struct {
		name   string
		intent *Intent
		hosts  []HostReport
		want   ClusterID
	}{
		{"ours, although the other is linearizable and further", &Intent{Cluster: 1}, []HostReport{host("a", 1, 1, view(1, false)), host("b", 1, 9, view(2, true))}, 1},
		{"the founders', while founding", &Intent{Founders: []Founder{{Member: 1}}}, []HostReport{host("a", 1, 1, view(1, false)), host("b", 1, 9, view(2, true))}, 1},
		{"the newer generation's", nil, []HostReport{host("a", 1, 9, view(1, true)), host("b", 2, 1, view(2, false))}, 2},
		{"the linearizable one", nil, []HostReport{host("a", 1, 9, view(1, false)), host("b", 1, 1, view(2, true))}, 2},
		{"the furthest", nil, []HostReport{host("a", 1, 1, view(1, true)), host("b", 1, 9, view(2, true))}, 2},
		{"the first of equals", nil, []HostReport{host("a", 1, 1, view(1, true)), host("b", 1, 1, view(2, true))}, 1},
	} {
		o := &Observation{Hosts: c.hosts, Store: StoreView{Intent: c.intent}}
		if v, ok := o.Members(); !ok || v.Cluster != c.want {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// A member that never started has no name, and where nothing is recorded nobody knows
// whose it is to be: it is nobody's, and no founder's without an ID.
func TestNobodysMember(t *testing.T) {
	o := three(0)
	for i := range o.Hosts {
		o.Hosts[i].Intent = nil
	}
	o.Store.Intent = nil
	if h := o.recordedHost(7); h != "" {
		t.Errorf("without a record it is of %s", h)
	}
	o.Store.Intent = &Intent{Generation: 1, Founders: []Founder{{Host: "a"}, {Host: "b", Member: 7}}}
	if h := o.recordedHost(7); h != "b" {
		t.Errorf("by the record it is of %q", h)
	}
	if h := o.recordedHost(0); h != "" {
		t.Errorf("without an ID it is of %s", h)
	}
}

func TestIntents(t *testing.T) {
	low, high, next := &Intent{Generation: 1, Write: 3}, &Intent{Generation: 1, Write: 4}, &Intent{Generation: 2}
	sorted := []*Intent{nil, low, high, next}
	for i, a := range sorted {
		for j, b := range sorted {
			if c := a.Order(b); c < 0 != (i < j) || c > 0 != (i > j) {
				t.Errorf("order of %d and %d is %d", i, j, c)
			}
		}
	}
	o := three(0)
	o.Store.Intent = low
	o.Hosts[1].Intent = next
	o.Hosts[2].Intent = high
	if o.Intent() != next {
		t.Error("a host's higher intent is not the newest in sight")
	}
	if (*Intent)(nil).Adopted() || !(&Intent{}).Adopted() || next.Adopted() {
		t.Error("adopted")
	}
	in := &Intent{Founders: []Founder{{Host: "a", Disk: "d", Member: 1}}, Voters: []Voter{{Member: 1}}, History: []PastGeneration{{Cluster: 5, Closed: true}, {Cluster: 6}}}
	c := in.Clone()
	c.Founders[0].Host, c.Voters[0].Member, c.History[0].Closed = "x", 9, false
	if in.Founders[0].Host != "a" || in.Voters[0].Member != 1 || !in.History[0].Closed {
		t.Error("a clone shares what it may change")
	}
	if _, ok := in.Founder("a", "other"); ok {
		t.Error("a founder by another disk")
	}
	if f, ok := in.Founder("a", "d"); !ok || f.Member != 1 {
		t.Error("no founder")
	}
	if !in.ClosedCluster(5) || in.ClosedCluster(6) || in.ClosedCluster(0) || (*Intent)(nil).ClosedCluster(5) {
		t.Error("closed")
	}
	if !SameVoters(nil, []Voter{}) || SameVoters([]Voter{{Member: 1}}, []Voter{{Member: 2}}) || !SameVoters([]Voter{{Member: 1}, {Member: 2}}, []Voter{{Member: 2}, {Member: 1}}) {
		t.Error("same voters")
	}
}

func TestFreeHosts(t *testing.T) {
	free := HostState{}
	if !free.Free() || free.Carries() {
		t.Error("an empty host")
	}
	prepared := HostState{Local: LocalMember{State: MemberPrepared}}
	if !prepared.Free() || prepared.Carries() {
		t.Error("a prepared host holds nothing yet")
	}
	for name, h := range map[string]HostState{
		"starting":  {Local: LocalMember{State: MemberStarting}},
		"started":   {Local: LocalMember{State: MemberStarted}},
		"removed":   {Local: LocalMember{State: MemberRemoved}},
		"data only": {Local: LocalMember{HasData: true}},
	} {
		if h.Free() || !h.Carries() {
			t.Errorf("%s: free %v, carries %v", name, h.Free(), h.Carries())
		}
	}
	for name, h := range map[string]HostState{
		"foreign data": {Foreign: []SetAside{{}}},
		"a process":    {Process: Process{State: ProcessForeign}},
		"unfit":        {Problems: []Problem{{Unfit: true}}},
	} {
		if h.Free() {
			t.Errorf("%s: free", name)
		}
	}
	if h := (HostState{Problems: []Problem{{Code: "note"}}, Releases: []Version{{3, 6, 16}}}); !h.Free() || !h.CanRun(Version{3, 6, 16}) || h.CanRun(Version{3, 6, 15}) {
		t.Error("a problem that is only a note; releases")
	}
}

func TestSortIsCanonical(t *testing.T) {
	o := three(0)
	slices.Reverse(o.Hosts)
	o.Hosts[0].Releases = []Version{{3, 7, 3}, {3, 5, 35}}
	o.Hosts[0].Local.Known = []MemberID{3, 1}
	o.Gaps = []Gap{{Kind: GapUnreachable, Host: "z"}, {Kind: GapBusy, Host: "y"}, {Kind: GapBusy, Host: "x"}}
	slices.Reverse(o.Hosts[0].View.Members)
	o.Sort()
	if o.Hosts[0].Host != "a" || o.Gaps[0].Host != "x" || o.Hosts[2].Releases[0].Minor != 5 || o.Hosts[2].Local.Known[0] != 1 || o.Hosts[0].View.Members[0].ID != 1 {
		t.Errorf("%+v", o)
	}
	if h, ok := o.Host("b"); !ok || h.Host != "b" {
		t.Error("a host is not found")
	}
	if _, ok := o.Host("bb"); ok {
		t.Error("a host is found that is not there")
	}
	if g, ok := o.HostGap("y"); !ok || g.Kind != GapBusy {
		t.Error("a gap is not found")
	}
}
