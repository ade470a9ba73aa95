package backup

import (
	"cmp"
	"slices"
	"time"
)

// Policy says how long backups are kept. A window that is zero keeps nothing by
// itself.
type Policy struct {
	All    time.Duration // every backup that is younger than this
	Hourly time.Duration // the first of each hour that ended less than this ago
	Daily  time.Duration // the first of each day (UTC) that ended less than this ago
	Last   int           // the newest so many, however old
}

// DefaultPolicy is the predecessor's: everything for an hour, one an hour for
// seven days, one a day for two years.
func DefaultPolicy() Policy {
	return Policy{All: time.Hour, Hourly: 7 * day, Daily: 730 * day}
}

// Candidate is a backup that may or may not have to go. Pinned and Used are
// reasons to keep it that only others know.
type Candidate struct {
	Name   Name
	Proven bool   // its last verification found it good
	Pinned string // why a person wants it kept
	// KeepUntil is when it may go at the earliest; zero: nobody said.
	KeepUntil time.Time
	Used      string // what refers to it, such as the intent of a generation made from it
	// Retained: the store has refused to remove it, and need not be asked again yet.
	Retained bool
}

// Rule is why a backup is kept or removed.
type Rule string

// The rules, those that keep in the order in which they are named.
const (
	KeptRecent       Rule = "recent"        // within the All window, or named after now
	KeptHourly       Rule = "hourly"        // first of its hour
	KeptDaily        Rule = "daily"         // first of its day
	KeptLast         Rule = "last"          // among the newest so many
	KeptNewest       Rule = "newest"        // there is no newer one
	KeptNewestProven Rule = "newest-proven" // no newer one was found good
	KeptPinned       Rule = "pinned"
	KeptUsed         Rule = "used"
	KeptUntil        Rule = "keep-until" // a time that somebody asked for has not come
	KeptRetained     Rule = "retained"   // by the store, against the policy

	RemovedSuperseded Rule = "superseded" // an earlier one stands for its hour or day
	RemovedOld        Rule = "old"        // beyond every window
)

// Verdict is what is to be done with a backup.
type Verdict struct {
	Name  Name
	Keep  bool
	Rules []Rule // every one that keeps it; or the one that removes it
}

// Expire says for each backup whether it is kept, newest first, each name once.
// Names that are not valid are kept, since nothing is known of their age.
//
// An hour or day is represented by its first backup, which is known at once and
// never changes, and a whole hour or day leaves its window at once, when its
// end does. So what is left does not depend on how often backups are pruned.
func Expire(p Policy, backups []Candidate, now time.Time) []Verdict {
	sorted := merge(backups)
	newest, newestProven := Name(""), Name("")
	for _, c := range sorted {
		// One named after now comes from a clock that was wrong; it protects
		// nothing but itself.
		if at := c.Name.Time(); at.IsZero() || at.After(now) {
			continue
		}
		newest = cmp.Or(newest, c.Name)
		if c.Proven && newestProven == "" {
			newestProven = c.Name
		}
	}
	firsts := firstOfPeriods(sorted)
	verdicts := make([]Verdict, len(sorted))
	counted := 0
	for i, c := range sorted {
		at := c.Name.Time()
		v := Verdict{Name: c.Name}
		keep := func(when bool, r Rule) {
			if when {
				v.Keep, v.Rules = true, append(v.Rules, r)
			}
		}
		past := !at.IsZero() && !at.After(now)
		keep(!past || now.Sub(at) < p.All, KeptRecent)
		keep(firsts[hourly(at)] == c.Name && within(at, time.Hour, p.Hourly, now), KeptHourly)
		keep(firsts[daily(at)] == c.Name && within(at, day, p.Daily, now), KeptDaily)
		keep(past && counted < p.Last, KeptLast)
		keep(c.Name == newest, KeptNewest)
		keep(c.Name == newestProven, KeptNewestProven)
		keep(c.Pinned != "", KeptPinned)
		keep(c.Used != "", KeptUsed)
		keep(now.Before(c.KeepUntil), KeptUntil)
		keep(c.Retained, KeptRetained)
		if !v.Keep {
			v.Rules = []Rule{RemovedOld}
			if within(at, time.Hour, p.Hourly, now) || within(at, day, p.Daily, now) {
				v.Rules = []Rule{RemovedSuperseded}
			}
		}
		if past {
			counted++
		}
		verdicts[i] = v
	}
	return verdicts
}

const day = 24 * time.Hour

// period is an hour or a day.
type period struct {
	start  int64 // unix seconds
	length time.Duration
}

func hourly(at time.Time) period { return period{at.Truncate(time.Hour).Unix(), time.Hour} }
func daily(at time.Time) period  { return period{at.Truncate(day).Unix(), day} }

// firstOfPeriods finds the first backup of each hour and day.
func firstOfPeriods(newestFirst []Candidate) map[period]Name {
	firsts := make(map[period]Name, len(newestFirst))
	for _, c := range newestFirst {
		firsts[hourly(c.Name.Time())] = c.Name
		firsts[daily(c.Name.Time())] = c.Name
	}
	return firsts
}

// within reports whether the period of a time ended less than a window ago, or
// has not ended.
func within(at time.Time, length, window time.Duration, now time.Time) bool {
	return window > 0 && now.Sub(at.Truncate(length).Add(length)) < window
}

// merge sorts newest first, and joins what is given twice.
func merge(backups []Candidate) []Candidate {
	sorted := slices.Clone(backups)
	slices.SortStableFunc(sorted, func(a, b Candidate) int { return b.Name.Compare(a.Name) })
	out := sorted[:0]
	for _, c := range sorted {
		if n := len(out); n > 0 && out[n-1].Name == c.Name {
			last := &out[n-1]
			last.Proven = last.Proven || c.Proven
			last.Pinned = cmp.Or(last.Pinned, c.Pinned)
			last.Used = cmp.Or(last.Used, c.Used)
			if c.KeepUntil.After(last.KeepUntil) {
				last.KeepUntil = c.KeepUntil
			}
			last.Retained = last.Retained || c.Retained
			continue
		}
		out = append(out, c)
	}
	return out
}
