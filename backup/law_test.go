package backup

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var lawStart = time.Date(2026, 11, 18, 22, 40, 0, 0, time.UTC)

func drawPolicy(t *rapid.T) Policy {
	return Policy{
		All:    rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 3 * time.Hour}).Draw(t, "all"),
		Hourly: rapid.SampledFrom([]time.Duration{0, time.Hour, 5 * time.Hour, 30 * time.Hour}).Draw(t, "hourly"),
		Daily:  rapid.SampledFrom([]time.Duration{0, time.Hour, day, 3 * day}).Draw(t, "daily"),
		Last:   rapid.IntRange(0, 4).Draw(t, "last"),
	}
}

// drawBackups draws backups over some days, perhaps some in one second, and a
// few in the future of most.
func drawBackups(t *rapid.T) []Candidate {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Candidate {
		seconds := rapid.IntRange(0, 5*24*3600).Draw(t, "s")
		n, err := NewName(lawStart.Add(time.Duration(seconds)*time.Second), rapid.IntRange(0, 2).Draw(t, "c"))
		if err != nil {
			t.Fatal(err)
		}
		c := Candidate{Name: n, Proven: rapid.IntRange(0, 5).Draw(t, "proven") == 0}
		if rapid.IntRange(0, 20).Draw(t, "pinned") == 0 {
			c.Pinned = "drawn"
		}
		if rapid.IntRange(0, 20).Draw(t, "used") == 0 {
			c.Used = "drawn"
		}
		if rapid.IntRange(0, 20).Draw(t, "kept") == 0 {
			c.KeepUntil = lawStart.Add(time.Duration(rapid.IntRange(0, 6*24*3600).Draw(t, "until")) * time.Second)
		}
		c.Retained = rapid.IntRange(0, 20).Draw(t, "retained") == 0
		return c
	}), 0, 60, func(c Candidate) Name { return c.Name }).Draw(t, "backups")
}

func kept(p Policy, backups []Candidate, now time.Time) []Candidate {
	verdicts := Expire(p, backups, now)
	var out []Candidate
	for _, v := range verdicts {
		i := slices.IndexFunc(backups, func(c Candidate) bool { return c.Name == v.Name })
		if v.Keep {
			out = append(out, backups[i])
		}
	}
	return out
}

func names(backups []Candidate) []Name {
	out := []Name{}
	for _, c := range backups {
		out = append(out, c.Name)
	}
	return out
}

func TestExpireLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, all := drawPolicy(t), drawBackups(t)
		now := lawStart.Add(time.Duration(rapid.IntRange(-3600, 6*24*3600).Draw(t, "now")) * time.Second)
		before := slices.Clone(all)
		verdicts := Expire(p, all, now)
		if diff := cmp.Diff(before, all); diff != "" {
			t.Fatalf("the input changed: %s", diff)
		}
		left := kept(p, all, now)

		if len(verdicts) != len(all) || !slices.IsSortedFunc(verdicts, func(a, b Verdict) int { return b.Name.Compare(a.Name) }) {
			t.Fatalf("%d verdicts on %d backups: %v", len(verdicts), len(all), verdicts)
		}
		if len(all) > 0 && len(left) == 0 {
			t.Fatal("all are removed")
		}
		newest, proven := Name(""), Name("")
		for _, c := range all {
			if c.Name.Time().After(now) || c.Pinned != "" || c.Used != "" || c.Retained || c.KeepUntil.After(now) || now.Sub(c.Name.Time()) < p.All {
				if !slices.Contains(left, c) {
					t.Fatalf("%+v is removed", c)
				}
			}
			if !c.Name.Time().After(now) {
				newest = max(newest, c.Name)
				if c.Proven {
					proven = max(proven, c.Name)
				}
			}
		}
		for _, n := range []Name{newest, proven} {
			if n != "" && !slices.Contains(names(left), n) {
				t.Fatalf("%s is removed", n)
			}
		}
		if diff := cmp.Diff(left, kept(p, left, now)); diff != "" {
			t.Fatalf("expiring again: %s", diff)
		}
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		if diff := cmp.Diff(verdicts, Expire(p, shuffled, now)); diff != "" {
			t.Fatalf("in another order: %s", diff)
		}
		for _, v := range verdicts {
			if len(v.Rules) == 0 || !v.Keep && len(v.Rules) != 1 {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// One more reason to keep a backup, or one more backup that is kept by a rule of
// its own, makes no other one go that was kept before.
func TestMoreProtectionNeverRemoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, all := drawPolicy(t), drawBackups(t)
		if len(all) == 0 {
			return
		}
		now := lawStart.Add(time.Duration(rapid.IntRange(0, 6*24*3600).Draw(t, "now")) * time.Second)
		left := names(kept(p, all, now))
		more := slices.Clone(all)
		c := &more[rapid.IntRange(0, len(more)-1).Draw(t, "which")]
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			c.Pinned = "more"
		case 1:
			c.Used = "more"
		case 2:
			c.Retained = true
		}
		now2 := names(kept(p, more, now))
		for _, n := range left {
			if !slices.Contains(now2, n) {
				t.Fatalf("pinning %s removes %s", c.Name, n)
			}
		}
	})
}

// What is left at a time is the same whether backups were pruned every hour, at
// odd times, or only then.
func TestPruningOftenIsPruningOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, all := drawPolicy(t), drawBackups(t)
		slices.SortFunc(all, func(a, b Candidate) int { return a.Name.Compare(b.Name) })
		end := lawStart.Add(6 * 24 * time.Hour)
		step := time.Duration(rapid.SampledFrom([]int{600, 3600, 7201, 86400}).Draw(t, "every")) * time.Second
		var have []Candidate
		rest := all
		for now := lawStart; now.Before(end); now = now.Add(step) {
			for len(rest) > 0 && !rest[0].Name.Time().After(now) {
				have, rest = append(have, rest[0]), rest[1:]
			}
			have = kept(p, have, now)
		}
		have = append(have, rest...)
		if diff := cmp.Diff(names(kept(p, all, end)), names(kept(p, have, end))); diff != "" {
			t.Fatalf("once and often differ: %s", diff)
		}
	})
}
