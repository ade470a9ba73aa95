package cluster

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRolls(t *testing.T) {
	for _, c := range []struct {
		from, to string
		refused  string // a part of the sentence; empty: it rolls
	}{
		{"3.5.35", "3.5.35", ""},
		{"3.5.3", "3.5.35", ""},
		{"3.5.35", "3.5.3", ""},
		{"3.5.1", "3.5.35", ""}, // away from the bad ones
		{"3.5.35", "3.5.1", "can lose data"},
		{"3.0.17", "3.1.20", ""},
		{"3.3.27", "3.4.25", ""},
		{"3.4.0", "3.5.35", ""},
		{"3.4.45", "3.5.2", "can lose data"},
		{"3.5.26", "3.6.0", ""},
		{"3.5.25", "3.6.16", "only from 3.5.26 on"},
		{"3.6.11", "3.7.0", ""},
		{"3.6.10", "3.7.3", "only from 3.6.11 on"},
		{"3.7.0", "3.6.0", ""},
		{"3.6.0", "3.5.35", ""},
		{"3.6.0", "3.5.0", "can lose data"},
		{"3.5.35", "3.4.25", "possible from 3.6 on"},
		{"3.1.20", "3.0.17", "possible from 3.6 on"},
		{"3.4.25", "3.6.16", "one minor version at a time"},
		{"3.7.3", "3.5.35", "one minor version at a time"},
		{"2.3.8", "3.0.17", "no client of version 3 sees them"},
		{"3.0.17", "2.3.8", "possible from 3.6 on"},
		{"2.3.8", "3.4.25", "one minor version at a time"},
		{"3.7.3", "3.8.0", "no release line that is known"},
		{"3.8.0", "3.7.3", "members run etcd 3.8.0"},
		{"2.2.5", "2.3.8", "members run etcd 2.2.5"},
		{"3.7.3", "4.0.0", "no release line"},
		{"", "3.7.3", "no release line"},
		{"3.7.3", "", "no etcd version"},
	} {
		var from, to Version
		if from.UnmarshalText([]byte(c.from)) != nil || to.UnmarshalText([]byte(c.to)) != nil {
			t.Fatal(c)
		}
		err := Rolls(from, to)
		switch {
		case c.refused == "" && err != nil, c.refused != "" && (!errors.Is(err, ErrVersionRefused) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.refused)
		}
	}
}

func TestRunnable(t *testing.T) {
	for text, refused := range map[string]bool{
		"2.3.8": false, "3.0.0": false, "3.4.45": false, "3.5.0": true, "3.5.1": true, "3.5.2": true, "3.5.3": false, "3.6.0": false,
		"3.7.99": false, "3.8.0": true, "2.2.5": true, "4.0.0": true, "1.5.0": true,
	} {
		v := MustVersion(text)
		err := v.Runnable()
		if (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
		// What a spec may ask for is at most what may be run.
		if spec := (Spec{MemberCount: 3, EtcdVersion: v}).Validate(); spec == nil && err != nil {
			t.Errorf("a spec may ask for %s: %v", text, err)
		}
	}
}

func TestWarnings(t *testing.T) {
	for text, part := range map[string]string{
		"3.5.33": "", "3.5.32": "closed in 3.5.33", "3.6.13": "closed in 3.6.14", "3.6.14": "", "3.7.0": "closed in 3.7.1", "3.7.1": "", "3.4.45": "no release of etcd 3.4", "2.3.8": "no release of etcd 2.3",
	} {
		got := strings.Join(MustVersion(text).Warnings(), "; ")
		if part == "" && got != "" || !strings.Contains(got, part) {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestFeatures(t *testing.T) {
	for _, c := range []struct {
		feature Feature
		with    string
		without string
	}{
		{BumpRevision, "3.4.27 3.4.45 3.5.10 3.6.0 3.7.3", "2.3.8 3.3.27 3.4.26 3.5.9"},
		{DowngradeAPI, "3.6.0 3.7.3", "3.5.35 3.4.45"},
		{LogOutput, "3.0.0 3.4.45", "2.3.8 3.5.0 3.7.3"},
		{V3API, "3.0.0 3.7.3", "2.3.8"},
		{HashKV, "3.3.0 3.7.3", "3.2.24"},
		{"nonsense", "", "3.7.3"},
	} {
		for text := range strings.FieldsSeq(c.with) {
			if !MustVersion(text).Has(c.feature) {
				t.Errorf("%s has not got %q", text, c.feature)
			}
		}
		for text := range strings.FieldsSeq(c.without) {
			if MustVersion(text).Has(c.feature) {
				t.Errorf("%s has %q", text, c.feature)
			}
		}
	}
	if (Version{}).Has(V3API) {
		t.Error("an unknown version has a feature")
	}
}

// Two tables say some things twice; they say the same.
func TestTablesAgree(t *testing.T) {
	for _, l := range lines {
		v := l.Release(l.Newest)
		if v.Has(MaxLearnersFlag) != (v.MaxLearners() > 1) {
			t.Errorf("%s: features and methods differ", v)
		}
		o, found := FindOption("max-learners")
		if _, known := o.Flag(v); v.Known() && v.Major == 3 && (!found || known != v.Has(MaxLearnersFlag)) {
			t.Errorf("%s: --max-learners is %v in the table of options", v, known)
		}
		if l.Newest < l.Secure || l.RollFrom > 0 && l.Minor == 0 {
			t.Errorf("line %s: %+v", l, l)
		}
	}
}

var anyKnownVersion = rapid.Custom(func(t *rapid.T) Version {
	return rapid.SampledFrom(lines).Draw(t, "line").Release(rapid.IntRange(0, 45).Draw(t, "patch"))
})

// What rolls leads to a version that may be run, at most one minor away, and
// never below the data: down only where etcd migrates it.
func TestRollingStaysNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := anyKnownVersion.Draw(t, "from"), anyKnownVersion.Draw(t, "to")
		if Rolls(from, to) != nil {
			return
		}
		if to.Runnable() != nil || from.Major != to.Major || from.Minor-to.Minor > 1 || to.Minor-from.Minor > 1 {
			t.Fatalf("%s rolls to %s", from, to)
		}
		if to.Minor < from.Minor && (!from.AtLeast(3, 6) || len(RollNeeds(from, to)) != 1) {
			t.Fatalf("%s rolls back to %s with needs %q", from, to, RollNeeds(from, to))
		}
		if up := to.Minor > from.Minor; up && to.AtLeast(3, 5) && len(RollNeeds(from, to)) == 0 {
			t.Fatalf("%s rolls to %s without needs", from, to)
		}
	})
}
