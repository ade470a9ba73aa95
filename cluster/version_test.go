package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"3.6.16":   {3, 6, 16},
		"v3.5.0":   {3, 5, 0},
		"0.0.0":    {},
		"10.20.30": {10, 20, 30},
	} {
		got, err := ParseVersion(in)
		if err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "3", "3.6", "3.6.16.1", "3.6.16-rc.0", "3.6.16+build", "v", "vv3.6.16", "3..16", "3.6.", "-3.6.16", "+3.6.16", "3.06.16",
		"3.6.016", " 3.6.16", "3.6.16\n", "3.6.99999", "３.6.16", "a.b.c", "3.6.1e1", "99999999999999999999.0.0",
	} {
		_, err := ParseVersion(in)
		if err == nil {
			t.Errorf("ParseVersion(%q) took it", in)
			continue
		}
		if !strings.Contains(err.Error(), "3.6.16") {
			t.Errorf("ParseVersion(%q) says %q, which shows no version that would do", in, err)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"3.6.16", "v3.5.0", "3.06.1", "", "3.6.16-rc.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVersion(s)
		if err != nil {
			if v != (Version{}) {
				t.Errorf("ParseVersion(%q) gives %v along with an error", s, v)
			}
			return
		}
		if !v.IsZero() && v.String() != strings.TrimPrefix(s, "v") {
			t.Errorf("ParseVersion(%q) is printed as %q", s, v)
		}
	})
}

func TestVersionOrder(t *testing.T) {
	sorted := []Version{{}, {3, 3, 27}, {3, 4, 0}, {3, 4, 45}, {3, 5, 0}, {3, 6, 9}, {3, 6, 10}, {4, 0, 0}}
	for i, a := range sorted {
		for j, b := range sorted {
			if c := a.Compare(b); c < 0 != (i < j) || c > 0 != (i > j) {
				t.Errorf("%v compared with %v is %d", a, b, c)
			}
		}
	}
}

func TestVersionsKnowWhatTheyCan(t *testing.T) {
	for _, c := range []struct {
		v            string
		learners     bool
		linearizable bool
		most         int
	}{
		{"3.3.27", false, false, 0}, {"3.4.0", true, false, 1}, {"3.5.35", true, true, 1}, {"3.6.0", true, true, 2}, {"3.7.3", true, true, 2}, {"4.0.0", true, true, 2},
	} {
		v := MustVersion(c.v)
		if v.HasLearners() != c.learners || v.LinearizableMemberList() != c.linearizable || v.MaxLearners() != c.most {
			t.Errorf("%s: learners %v, linearizable %v, at most %d", v, v.HasLearners(), v.LinearizableMemberList(), v.MaxLearners())
		}
	}
	if v := (Version{}); v.HasLearners() || v.MaxLearners() != 0 {
		t.Error("an unknown version has learners")
	}
	if !MustVersion("3.6.1").SameMinor(MustVersion("3.6.2")) || MustVersion("3.6.1").SameMinor(MustVersion("3.5.1")) {
		t.Error("SameMinor")
	}
}

func TestMustVersionPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustVersion("three")
}

var anyVersion = rapid.Custom(func(t *rapid.T) Version {
	return Version{rapid.IntRange(0, 9999).Draw(t, "major"), rapid.IntRange(0, 9999).Draw(t, "minor"), rapid.IntRange(0, 9999).Draw(t, "patch")}
})

func TestVersionText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyVersion.Draw(t, "version")
		b, err := json.Marshal(v)
		var back Version
		if err != nil || json.Unmarshal(b, &back) != nil || back != v {
			t.Fatalf("%v became %s and then %v", v, b, back)
		}
	})
	var v Version
	if b, err := json.Marshal(v); err != nil || string(b) != `""` {
		t.Errorf("unknown is written as %s, %v", b, err)
	}
	v = MustVersion("3.6.16")
	if err := json.Unmarshal([]byte(`""`), &v); err != nil || !v.IsZero() {
		t.Errorf("the empty string is read as %v, %v", v, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &v); err == nil {
		t.Error("nonsense was read")
	}
}

func TestIDText(t *testing.T) {
	for text, want := range map[string]MemberID{"8e9e05c52164694d": 0x8e9e05c52164694d, "0": 0, "0xff": 0xff, "FF": 0xff, "ffffffffffffffff": ^MemberID(0)} {
		if got, err := ParseMemberID(text); err != nil || got != want {
			t.Errorf("ParseMemberID(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0x", "x", "-1", "1ffffffffffffffff", "12 ", "0x0x1", "1_0"} {
		if id, err := ParseMemberID(text); err == nil {
			t.Errorf("ParseMemberID(%q) = %v", text, id)
		}
	}
	var c ClusterID
	if err := c.UnmarshalText([]byte("zz")); err == nil || !strings.Contains(err.Error(), "cluster ID") {
		t.Errorf("a cluster ID of nonsense: %v", err)
	}
	if MemberID(0x8e9e05c52164694d).String() != "8e9e05c52164694d" || ClusterID(0xc1).String() != "c1" {
		t.Error("IDs are not printed as etcdctl prints them")
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("8e9e05c52164694d")
	f.Add("0x0")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMemberID(s)
		if err != nil {
			return
		}
		if back, err := ParseMemberID(m.String()); err != nil || back != m {
			t.Errorf("%q is member %v, which is read as %v, %v", s, m, back, err)
		}
		var c ClusterID
		if err := c.UnmarshalText([]byte(s)); err != nil || uint64(c) != uint64(m) {
			t.Errorf("%q is member %v and cluster %v, %v", s, m, c, err)
		}
	})
}

func TestFenceOrder(t *testing.T) {
	sorted := []Fence{{}, {0, "a"}, {1, ""}, {1, "a"}, {1, "b"}, {2, "a"}}
	for i, a := range sorted {
		for j, b := range sorted {
			if a.Less(b) != (i < j) || (a.Compare(b) == 0) != (i == j) {
				t.Errorf("%v and %v are in the wrong order", a, b)
			}
		}
	}
	if !(Fence{}).IsZero() || (Fence{0, "a"}).IsZero() || (Fence{7, "x"}).String() != "7/x" {
		t.Error("fence")
	}
}

// TestQuorumTable: numbers written down by hand.
func TestQuorumTable(t *testing.T) {
	for _, c := range []struct{ n, quorum, tolerance, blocking int }{
		{-3, 0, 0, -2}, {0, 0, 0, 0}, {1, 1, 0, 1}, {2, 2, 0, 1}, {3, 2, 1, 2}, {4, 3, 1, 2}, {5, 3, 2, 3}, {6, 4, 2, 3}, {7, 4, 3, 4}, {8, 5, 3, 4}, {9, 5, 4, 5},
	} {
		if q, f, b := Quorum(c.n), Tolerance(c.n), Blocking(c.n); q != c.quorum || f != c.tolerance || b != c.blocking {
			t.Errorf("%d voters: quorum %d, tolerance %d, blocking %d", c.n, q, f, b)
		}
		if c.n > 0 && c.n-Blocking(c.n) >= Quorum(c.n) {
			t.Errorf("%d voters: the rest of a blocking set is a quorum", c.n)
		}
	}
}

func TestProjectionKeeps(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      Projection
		wanted int
		keeps  bool
	}{
		{"promote the second", Projection{1, 1, 2, 2}, 3, true},
		{"promote the third", Projection{2, 2, 3, 3}, 3, true},
		{"promote a fourth, all up", Projection{3, 3, 4, 4}, 5, true},
		{"promote with one of three down", Projection{3, 2, 4, 3}, 5, true},
		{"promote with one of four down", Projection{4, 3, 5, 4}, 5, true},
		{"remove the dead one of three", Projection{3, 2, 2, 2}, 3, true},
		{"remove the dead one of five", Projection{5, 4, 4, 4}, 5, true},
		{"remove a healthy one of three, three wanted", Projection{3, 3, 2, 2}, 3, false},
		{"remove a healthy one of three, one wanted", Projection{3, 3, 2, 2}, 1, true},
		{"remove a healthy one of three with another down", Projection{3, 2, 2, 1}, 1, false},
		{"remove a healthy one of four with another down", Projection{4, 3, 3, 2}, 3, true},
		{"remove a healthy one of five with another down", Projection{5, 4, 4, 3}, 3, false},
		{"remove the second of two", Projection{2, 2, 1, 1}, 1, true},
		{"remove the last", Projection{1, 1, 0, 0}, 1, false},
		{"without a quorum, nothing helps", Projection{3, 1, 3, 1}, 3, false},
		{"without a quorum, a removal that makes one", Projection{3, 1, 1, 1}, 3, true},
		{"nothing of nothing", Projection{}, 3, false},
		{"seven to six, five wanted", Projection{7, 7, 6, 6}, 5, true},
		{"seven to six with two down", Projection{7, 5, 6, 4}, 5, false},
	} {
		if got := c.p.Keeps(c.wanted); got != c.keeps {
			t.Errorf("%s: keeps is %v; margin %d, after %d", c.name, got, c.p.Margin(), c.p.MarginAfter())
		}
	}
	if s := (Projection{3, 2, 2, 2}).String(); s != "2 of 3 voters up, 2 of 2 after it (quorum 2)" {
		t.Error(s)
	}
}

func TestProjectionsThatKeepLeaveAQuorum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-2, 12)
		p := Projection{n.Draw(t, "voters"), n.Draw(t, "up"), n.Draw(t, "after"), n.Draw(t, "up after")}
		wanted := n.Draw(t, "wanted")
		if p.Keeps(wanted) && (p.UpAfter < Quorum(p.VotersAfter) || p.VotersAfter < 1) {
			t.Fatalf("%s is kept without a quorum after it", p)
		}
	})
}

func TestOps(t *testing.T) {
	membership := []OpKind{OpAddLearner, OpAddVoter, OpPromote, OpRemove, OpUpdateURL, OpMoveLeader}
	for _, k := range []OpKind{OpPrepare, OpStart, OpRestart, OpStop, OpRefuse, OpSetAside, OpForget, OpAddLearner, OpAddVoter, OpPromote, OpRemove, OpUpdateURL, OpMoveLeader} {
		if k.Membership() != slices.Contains(membership, k) {
			t.Errorf("%s: membership is %v", k, k.Membership())
		}
	}
	if s := (Op{Kind: OpRemove, Host: "c", Member: 0x103}).String(); s != "remove c (member 103)" {
		t.Error(s)
	}
}
