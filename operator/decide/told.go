package decide

import (
	"slices"
	"time"
)

// What the daemons told, and how long their words count.

// Told is what the daemons told last.
type Told struct {
	// At is when, by the clock of the daemon that leads.
	At time.Time
	// Seen is when the operator saw these words come, by its own clock; zero: they were there at its first look.
	Seen time.Time
	// Generation is the one that it is about; 0: they did not say.
	Generation uint64
	// Hosts are those that the leading daemon hears; nil: it did not say.
	Hosts []ToldHost
	// Silent is for how long a voter's or learner's host had not answered when they told, as far as that counts for them.
	Silent map[string]time.Duration
	// AllUp: each voter is up. Up are the hosts of members that are.
	AllUp bool
	Up    []string
	// Members are the hosts of all members that they told of; empty: of none.
	Members []string
	// Paused are hosts whose silence is excused for a while. MayGo are the IDs of pauses whose hosts may be stopped.
	Paused, MayGo []string
	// Stays are hosts that were asked to be let go and have to stay yet, each with why.
	Stays map[string]string
	// Leads is the host of raft's leader.
	Leads string
	// After is a moment at which this was not written yet, by the operator's clock; zero: none is known.
	After time.Time
	// Blockers are codes.
	Blockers []string
	// Backed and Proven are when the newest backup was taken, and the newest proven one; zero: none. None is known to be of another
	// cluster, of which somebody copied it in; and Proven is known to be of this one.
	Backed, Proven         time.Time
	BackedName, ProvenName string
	// Drilled is when a backup was last proven; zero: none was, as far as they tell.
	Drilled time.Time
	// Survivor is the host whose data goes furthest, where the quorum is lost and a person may go on from it; empty: the
	// daemons offer none.
	Survivor string
}

// ToldHost is a host that the leading daemon hears.
type ToldHost struct {
	Name string
	// Carries: it has a member, or data of one.
	Carries bool
	// Spent: nothing but a removed member's data lies there.
	Spent bool
	// Trust is whom it trusts; nil: it does not tell.
	Trust *Trust
}

// when is the moment from which words are as old as they are: that of the clock that makes them older. A clock of theirs that is
// ahead would keep them fresh after the daemons have ended. One that is behind is believed: what was held up on its way, or put
// back with an older state of Kubernetes, comes now, and is old.
func (t *Told) when() time.Time {
	if !t.Seen.IsZero() && t.Seen.Before(t.At) {
		return t.Seen
	}
	return t.At
}

// Fresh is how old words of the daemons may be. They tell of themselves every five minutes. Ahead is how far from now words may
// be that nobody saw come: it is not known how old they are.
const (
	Fresh = 12 * time.Minute
	Ahead = time.Minute
)

// Soon is how long the leading daemon takes at most to tell of a change: it looks at the record every 10 s where nothing wakes it, decides
// within 7 s, and writes what it tells every 10 s.
const Soon = 30 * time.Second

// fresh are the daemons' words if they count; nil: they do not. What was told of a generation that is given up says nothing of
// the one that is there.
func (w *World) fresh() *Told {
	t := w.Told
	switch {
	case t == nil || w.Now.Sub(t.when()) > Fresh || t.when().Sub(w.Now) > Ahead || t.At.Before(w.Since):
		return nil
	case t.Generation != 0 && w.Intent != nil && t.Generation < w.Intent.Generation:
		return nil
	}
	return t
}

// Reports says whether the daemons told of themselves lately.
func (w *World) Reports() bool { return w.fresh() != nil }

// Begins says that who told what was told last runs no more: no host's pod has run since, or it told of a generation that is
// given up. The daemons tell anew once they run. A pod that runs since a time to come, by a clock that was ahead, counts.
func (w *World) Begins() bool {
	t := w.Told
	since := func(h Host) bool { return !h.Runs.IsZero() && (!h.Runs.After(t.when()) || h.Runs.Sub(w.Now) > Ahead) }
	return t != nil && (t.Generation != 0 && w.Intent != nil && t.Generation < w.Intent.Generation || !slices.ContainsFunc(w.Hosts, since))
}

// Hears says what the daemons tell of a host now; known is false where they do not say whom they hear.
func (w *World) Hears(name string) (h ToldHost, heard, known bool) {
	t := w.fresh()
	if t == nil || t.Hosts == nil {
		return ToldHost{}, false, false
	}
	i := slices.IndexFunc(t.Hosts, func(h ToldHost) bool { return h.Name == name })
	if i < 0 {
		return ToldHost{}, false, true
	}
	return t.Hosts[i], true, true
}

// SilentSince is since when a host is silent, now that it was shown to be since shown; zero: it is not, or nobody knows. The daemons'
// own count of it holds where they have a quorum, since one that was cut off hears nobody; and no longer than its pod runs, before which
// nobody could hear it.
func (w *World) SilentSince(h Host, shown time.Time) time.Time {
	t := w.fresh()
	_, heard, known := w.Hears(h.Name)
	switch {
	case t == nil || !h.Running || heard || slices.Contains(t.Paused, h.Name):
		return time.Time{}
	case !known:
		return shown
	case shown.IsZero():
		shown = w.Now
	}
	told := w.Now.Add(-t.Silent[h.Name])
	if told.Before(h.Runs) {
		told = h.Runs
	}
	if told.Before(shown) && !h.Runs.IsZero() && !slices.ContainsFunc(t.Blockers, LosesQuorum) {
		return told
	}
	return shown
}
