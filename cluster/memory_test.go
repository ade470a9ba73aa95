package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// three is an observation of three voters on a, b and c, all up, taken s
// seconds after the epoch.
func three(s int) *Observation {
	o := &Observation{At: epoch.Add(time.Duration(s) * time.Second), Cluster: "test", Leader: "a", Fence: Fence{1, "a"}, Spec: &Spec{MemberCount: 3, EtcdVersion: MustVersion("3.6.16")}}
	view := &MemberView{Cluster: 7, Linearizable: true}
	for i := range 3 {
		id := HostID('a' + rune(i))
		view.Members = append(view.Members, Member{ID: MemberID(i + 1), Name: string(id), PeerURLs: []string{peerURL(id)}})
	}
	for i := range 3 {
		id := HostID('a' + rune(i))
		h := HostReport{UnderFence: true}
		h.Host, h.Disk, h.URLs.Peer = id, DiskID("disk-"+id), []string{peerURL(id)}
		h.Local = LocalMember{State: MemberStarted, Generation: 1, Cluster: 7, Member: MemberID(i + 1), HasData: true}
		h.Process = Process{State: ProcessRunning, PID: 10 + i}
		h.Status = &MemberStatus{Member: MemberID(i + 1), Cluster: 7, Leader: 1, Term: 2, Index: 5, Applied: 5, Healthy: true}
		h.View = view
		o.Hosts = append(o.Hosts, h)
	}
	return o
}

func peerURL(id HostID) string { return fmt.Sprintf("https://%s:2380", id) }

// lose takes a host out of sight; the others cannot reach its member either
// unless it answers.
func lose(o *Observation, id HostID, answers bool) *Observation {
	var m MemberID
	for i, h := range o.Hosts {
		if h.Host == id {
			m = h.Local.Member
			o.Hosts = append(o.Hosts[:i:i], o.Hosts[i+1:]...)
			break
		}
	}
	o.Gaps = append(o.Gaps, Gap{Kind: GapUnreachable, Host: id, Detail: "no answer"})
	for i := range o.Hosts {
		o.Hosts[i].Reaches = append(o.Hosts[i].Reaches, Reach{Member: m, Answers: answers})
	}
	return o
}

func folded(before Memory, o *Observation) Memory {
	o.Memory = Fold(before, o)
	return o.Memory
}

func TestSilenceIsCountedFromItsFirstLook(t *testing.T) {
	m := folded(Memory{}, three(0))
	if !m.Member(3).SilentSince.IsZero() || m.Member(3).HealthySince != epoch {
		t.Fatalf("a healthy member: %+v", m.Member(3))
	}
	first := lose(three(1), "c", false)
	m = folded(m, first)
	m = folded(m, lose(three(30), "c", false))
	if got := m.Member(3); got.SilentSince != first.At || !got.HealthySince.IsZero() {
		t.Errorf("after two looks: %+v", got)
	}
	if h, ok := m.Host("c"); !ok || h.GapSince != first.At || h.LastSeen != epoch {
		t.Errorf("its host: %+v", h)
	}
	if m = folded(m, three(31)); !m.Member(3).SilentSince.IsZero() {
		t.Errorf("it is back, and silent: %+v", m.Member(3))
	}
	if h, _ := m.Host("c"); !h.GapSince.IsZero() {
		t.Errorf("its host is back, and missing: %+v", h)
	}
}

func TestAGapIsNoSilence(t *testing.T) {
	m := Memory{}
	for s := range 300 {
		m = folded(m, lose(three(s), "c", true))
	}
	if !m.Member(3).SilentSince.IsZero() {
		t.Error("a member that answers is silent since its daemon is")
	}
	m = folded(m, lose(three(301), "c", false))
	m = folded(m, lose(three(302), "c", true))
	if !m.Member(3).SilentSince.IsZero() {
		t.Error("one answer did not end the silence")
	}
	alone := lose(lose(three(303), "c", false), "b", false)
	m = folded(m, alone)
	for id := range MemberID(4) {
		if !m.Member(id).SilentSince.IsZero() {
			t.Errorf("member %d is silent on the word of one host of three", id)
		}
	}
	nobody := three(304)
	nobody.Hosts = nil
	if m = folded(m, nobody); !m.Member(3).SilentSince.IsZero() {
		t.Error("silent, and nobody was asked")
	}
}

func TestSilenceDoesNotLastWhileNobodyLooks(t *testing.T) {
	m := folded(Memory{}, lose(three(0), "c", false))
	m = folded(m, lose(three(59), "c", false))
	if m.Member(3).SilentSince != epoch {
		t.Fatal("it does not last from look to look")
	}
	slept := lose(three(59+61), "c", false)
	m = folded(m, slept)
	if m.Member(3).SilentSince != slept.At {
		t.Errorf("silent since %s after a pause", m.Member(3).SilentSince)
	}
	back := lose(three(10), "c", false)
	m = folded(m, back)
	if m.Member(3).SilentSince != back.At {
		t.Errorf("silent since %s after the clock went back", m.Member(3).SilentSince)
	}
	if h, _ := m.Host("a"); h.FenceSince != back.At {
		t.Errorf("a promise from the future: %+v", h)
	}
	blind := three(20)
	for i := range blind.Hosts {
		blind.Hosts[i].View = nil
	}
	m = folded(m, blind)
	again := lose(three(30), "c", false)
	if m = folded(m, again); m.Member(3).SilentSince != again.At {
		t.Errorf("silent since %s over a time without a member list", m.Member(3).SilentSince)
	}
}

func TestPromisesAreRememberedPerFenceAndDisk(t *testing.T) {
	m := folded(Memory{}, three(0))
	m = folded(m, three(1))
	if h, _ := m.Host("b"); h.FenceSince != epoch || h.Fence != (Fence{1, "a"}) {
		t.Fatalf("the same fence: %+v", h)
	}
	unpromised := three(2)
	unpromised.Hosts[1].UnderFence = false
	if h, _ := folded(m, unpromised).Host("b"); !h.Fence.IsZero() || !h.FenceSince.IsZero() {
		t.Errorf("no promise: %+v", h)
	}
	other := three(2)
	other.Fence = Fence{2, "c"}
	if h, _ := folded(m, other).Host("b"); h.FenceSince != other.At {
		t.Errorf("another fence: %+v", h)
	}
	wiped := three(2)
	wiped.Hosts[1].Disk = "new"
	if h, _ := folded(m, wiped).Host("b"); h.FenceSince != wiped.At {
		t.Errorf("another disk: %+v", h)
	}
}

func TestLeaderlessnessBeginsAnewWithEachProcess(t *testing.T) {
	leaderless := func(s, pid int) *Observation {
		o := three(s)
		o.Hosts[1].Process.PID, o.Hosts[1].Status.Leader, o.Hosts[1].Status.Healthy = pid, 0, false
		return o
	}
	m := folded(Memory{}, leaderless(0, 1))
	m = folded(m, leaderless(30, 1))
	if x := m.Member(2); x.LeaderlessSince != epoch || x.Revived != 0 {
		t.Fatalf("%+v", x)
	}
	m = folded(m, leaderless(40, 2))
	if x := m.Member(2); x.LeaderlessSince != epoch.Add(40*time.Second) || x.Revived != 1 {
		t.Errorf("a second process: %+v", x)
	}
	silent := leaderless(50, 2)
	silent.Hosts[1].Status = nil
	if x := folded(m, silent).Member(2); x.LeaderlessSince != epoch.Add(40*time.Second) {
		t.Errorf("a process that answers nothing sees no leader either: %+v", x)
	}
	blind := leaderless(50, 3)
	for i := range blind.Hosts {
		blind.Hosts[i].View = nil
	}
	if x := folded(m, blind).Member(2); x.Revived != 2 {
		t.Errorf("without a member list: %+v", x)
	}
	if x := folded(m, three(50)).Member(2); !x.LeaderlessSince.IsZero() || x.Revived != 0 {
		t.Errorf("it sees a leader: %+v", x)
	}
}

func TestEnoughHosts(t *testing.T) {
	o := three(0)
	for i := range o.Hosts {
		o.Hosts[i].Local, o.Hosts[i].Process, o.Hosts[i].Status, o.Hosts[i].View = LocalMember{}, Process{}, nil, nil
	}
	m := folded(Memory{}, o)
	if m.EnoughSince != epoch {
		t.Fatalf("three free hosts of three: %v", m.EnoughSince)
	}
	o.At = epoch.Add(time.Second)
	o.Hosts[0].UnderFence = false
	if m = folded(m, o); m.EnoughSince != epoch {
		t.Error("two of three are enough")
	}
	o.Hosts[1].Foreign = []SetAside{{Dir: "x"}}
	if m = folded(m, o); !m.EnoughSince.IsZero() {
		t.Error("one of three is enough")
	}
	o.Spec = nil
	if m = folded(m, o); !m.EnoughSince.IsZero() {
		t.Error("enough for no spec")
	}
}

// TestFoldTwice: folding equal facts again changes no 'since', and nothing
// out of sight is ever silent by itself.
func TestFoldTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Memory{}
		at := 0
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			at += rapid.IntRange(0, 50).Draw(t, "seconds")
			o := three(at)
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]HostID{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "lost") {
				lose(o, id, rapid.Bool().Draw(t, "answers"))
			}
			m = folded(m, o)
			if diff := cmp.Diff(m, Fold(m, o)); diff != "" {
				t.Fatalf("folded twice: %s", diff)
			}
			later := *o
			later.At = o.At.Add(time.Second)
			again := Fold(m, &later)
			for _, x := range m.Members {
				y := again.Member(x.Member)
				if !x.SilentSince.IsZero() && !y.SilentSince.Equal(x.SilentSince) || !x.HealthySince.IsZero() && !y.HealthySince.Equal(x.HealthySince) {
					t.Fatalf("equal facts a second later: %+v became %+v", x, y)
				}
			}
			mustBeAsked(t, o, m)
		}
	})
}

func mustBeAsked(t *rapid.T, o *Observation, m Memory) {
	for _, x := range m.Members {
		if x.SilentSince.IsZero() {
			continue
		}
		denied := 0
		for _, h := range o.Hosts {
			for _, r := range h.Reaches {
				if r.Member != x.Member {
					continue
				}
				if r.Answers {
					t.Fatalf("member %s is silent and was reached", x.Member)
				}
				denied++
			}
		}
		if denied < 2 {
			t.Fatalf("member %s of three is silent on %d words", x.Member, denied)
		}
	}
}

// TestFoldOpenPort: a port that is open and answers nothing is a sign of life only where the
// member's own host tells that its process runs: without TLS etcd opens it long before it
// answers. Of a host out of sight it may be a process that hangs.
func TestFoldOpenPort(t *testing.T) {
	at := func(s int, change func(o *Observation)) *Observation {
		o := three(s)
		c := &o.Hosts[2]
		c.Status, c.View, c.Process = nil, nil, Process{State: ProcessRunning, PID: 100, Uptime: time.Minute}
		for i := range o.Hosts {
			o.Hosts[i].Reaches = append(o.Hosts[i].Reaches, Reach{Member: 3, Open: true})
		}
		change(o)
		return o
	}
	if m := folded(Memory{}, at(0, func(*Observation) {})); !m.Member(3).SilentSince.IsZero() {
		t.Error("a member that starts slowly is silent")
	}
	if m := folded(Memory{}, at(0, func(o *Observation) { lose(o, "c", false) })); m.Member(3).SilentSince.IsZero() {
		t.Error("a host that hangs is not silent")
	}
}

// TestFoldCrashLoop: a process dies again and again and opens its port each
// time; the silence lasts until the member answers. A process that was
// restarted once and takes its time is alive while its port is open.
func TestFoldCrashLoop(t *testing.T) {
	at := func(s int, p Process, port bool) *Observation {
		o := three(s)
		c := &o.Hosts[2]
		c.Status, c.View, c.Process = nil, nil, p
		for i := range o.Hosts {
			o.Hosts[i].Reaches = append(o.Hosts[i].Reaches, Reach{Member: 3, Answers: port})
		}
		return o
	}
	healthy := func(s, restarts int) *Observation {
		o := three(s)
		o.Hosts[2].Process.Restarts = restarts
		return o
	}
	waits := func(n int) Process { return Process{State: ProcessBackoff, Restarts: n, LastExit: "exit status 1"} }
	runs := func(n int, up time.Duration) Process {
		return Process{State: ProcessRunning, PID: 100 + n, Restarts: n, Uptime: up}
	}

	m := folded(Memory{}, healthy(0, 7)) // of before; they do not count
	m = folded(m, at(10, waits(7), false))
	for i, p := range []Process{runs(8, 2*time.Second), waits(8), runs(9, 3*time.Second), waits(9), runs(10, 15*time.Second), waits(10), runs(11, time.Minute)} {
		m = folded(m, at(20+10*i, p, p.State == ProcessRunning))
		if got := m.Member(3).SilentSince; got != epoch.Add(10*time.Second) {
			t.Fatalf("after %+v it is silent since %s", p, got)
		}
	}
	if m = folded(m, healthy(100, 11)); !m.Member(3).SilentSince.IsZero() {
		t.Error("it answers, and is silent")
	}
	m = folded(m, at(110, waits(11), false))
	m = folded(m, at(120, runs(12, 11*time.Second), true))
	if !m.Member(3).SilentSince.IsZero() {
		t.Error("restarted once with its port open, and silent")
	}
	// Another leader has not seen the restarts.
	m = folded(Memory{}, at(130, runs(12, 21*time.Second), true))
	if !m.Member(3).SilentSince.IsZero() {
		t.Error("silent for restarts that nobody watched")
	}
}
