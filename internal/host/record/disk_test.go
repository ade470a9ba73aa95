package record

import (
	"testing"

	"etcdadm.io/cluster"
)

func votersOf(hosts ...cluster.HostID) *cluster.Intent {
	in := new(cluster.Intent)
	for _, h := range hosts {
		in.Voters = append(in.Voters, cluster.Voter{Host: h})
	}
	return in
}

// What confirms a disk, and what does not (docs/adr/050-only-a-confirmed-disk-keeps-the-record.md).
func TestWhatConfirmsADisk(t *testing.T) {
	type says struct {
		host  cluster.HostID
		epoch uint64
	}
	three, five := votersOf("a", "b", "c"), votersOf("a", "b", "c", "d", "e")
	for name, c := range map[string]struct {
		in    *cluster.Intent
		epoch uint64
		says  []says
		want  DiskWord
	}{
		"nobody speaks":                                  {three, 1000, nil, DiskUnconfirmed},
		"one remembers it":                               {three, 1000, []says{{"b", 1000}}, DiskConfirmed},
		"one was away for 15 min":                        {three, 1000, []says{{"b", 1000 - staleMost}}, DiskConfirmed},
		"one was away for longer":                        {three, 1000, []says{{"b", 999 - staleMost}}, DiskUnconfirmed},
		"both were away for longer":                      {three, 1000, []says{{"b", 1}, {"c", 1}}, DiskConfirmed},
		"one of two never heard of it":                   {three, 1000, []says{{"b", 0}}, DiskUnconfirmed},
		"two of four were away: one of each quorum":      {five, 1000, []says{{"b", 1}, {"c", 1}}, DiskUnconfirmed},
		"three of four were away: one of each quorum":    {five, 1000, []says{{"b", 1}, {"c", 1}, {"d", 1}}, DiskConfirmed},
		"the only other voter was away":                  {votersOf("a", "b"), 1000, []says{{"b", 1}}, DiskConfirmed},
		"a host without a member remembers it":           {three, 1000, []says{{"d", 999}}, DiskConfirmed},
		"any word, where no other voter is known":        {votersOf("a"), 1000, []says{{"d", 0}}, DiskConfirmed},
		"one remembers more":                             {three, 1000, []says{{"b", 1001}}, DiskBehind},
		"another one remembers more than the one before": {three, 1000, []says{{"b", 1000}, {"c", 1001}}, DiskBehind},
		"behind, and one remembers less":                 {three, 1000, []says{{"b", 1001}, {"c", 1000}}, DiskBehind},
		"behind, and all have spoken":                    {three, 1000, []says{{"b", 1001}, {"c", 0}, {"b", 1000}}, DiskBehind},
	} {
		var d disk
		for _, x := range c.says {
			d.heard(x.host, x.epoch, State{Host: "a", Epoch: c.epoch, Intent: c.in})
		}
		if d.word != c.want {
			t.Errorf("%s: %q, want %q", name, d.word, c.want)
		}
	}
}

// A person's word makes an unconfirmed disk sure, and neither confirms it nor lasts against a host that remembers more.
func TestVouchedDisk(t *testing.T) {
	m := NewMemory(NewKeeper("a", nil, nil), nil)
	s := State{Host: "a", Epoch: 10, Intent: votersOf("a", "b", "c")}
	if m.Sure() {
		t.Fatal("it is sure before any word")
	}
	if !m.Vouch() || !m.Sure() || m.Disk() != DiskUnconfirmed || m.Told(s) != 0 {
		t.Errorf("a person says so: sure %v, %q, tells %d", m.Sure(), m.Disk(), m.Told(s))
	}
	m.Put()(&s)
	if s.Epoch != 10 || s.Confirmed != "" {
		t.Errorf("its epoch is %d, confirmed under %q", s.Epoch, s.Confirmed)
	}
	m.disk.heard("b", 11, s)
	if m.Sure() || m.Vouch() || m.Sure() {
		t.Error("it is sure though a host remembers more")
	}
}

// A disk that was confirmed under the launch whose process runs is still the same. One that started its process by
// consent is not.
func TestDiskOfAProcessThatRuns(t *testing.T) {
	s := State{Host: "a", Epoch: 10, Intent: votersOf("a", "b", "c"), Launch: &Launch{Nonce: "n1"}}
	m := NewMemory(NewKeeper("a", nil, nil), nil)
	m.disk.heard("b", 10, s)
	m.Put()(&s)
	if s.Confirmed != "n1" {
		t.Fatalf("confirmed under %q", s.Confirmed)
	}
	next := func() *Memory { return NewMemory(NewKeeper("a", nil, nil), nil) }
	if m = next(); m.Sure() {
		t.Fatal("a daemon that begins is sure")
	}
	if m.Runs(s); !m.Sure() {
		t.Error("its process runs, and it is not sure")
	}
	m = next()
	m.disk.heard("b", s.Epoch+1, s)
	if m.Runs(s); m.Sure() {
		t.Error("its process runs, and it is sure though a host remembers more")
	}
	other := s
	other.Launch = &Launch{Nonce: "n2"}
	if m = next(); func() bool { m.Runs(other); return m.Sure() }() {
		t.Error("a process of another launch runs")
	}
	m = next()
	m.Put()(&s) // before its process is started by consent
	if m.Runs(s); m.Sure() {
		t.Error("a process that was started by consent shows that the disk was confirmed")
	}
}
