package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Ending is that the authorities are to be replaced, and what keeps them from it.
type Ending struct {
	At    time.Time
	Keeps string
}

// runsOut tells from the time on at which the authorities are due when they end, and what keeps them from being replaced; once it is late
// that is what the cluster waits for, whatever else it does.
func (w *World) runsOut(d *Decision) {
	a := w.Authorities
	if a == nil || !a.There || a.Ends.IsZero() || a.Due.IsZero() || w.Now.Before(a.Due) || a.ended(w.Now) || !w.Want.Deleted.IsZero() {
		return
	}
	if slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Kind == Rotate }) {
		return
	}
	d.Ending = &Ending{At: a.Ends, Keeps: w.keepsAuthorities(d)}
	if a.late(w.Now) && !w.Rests() {
		d.wait(AuthorityEnds, fmt.Sprintf("the authorities end at %s, and are not replaced yet: %s. Once they have ended no new connection is made", a.Ends.UTC().Format(time.RFC3339), d.Ending.Keeps))
	}
}

// keepsAuthorities says what keeps authorities that are due from being replaced.
func (w *World) keepsAuthorities(d *Decision) string {
	a, codes := w.Authorities, []string{}
	for _, wait := range d.Waits {
		if !slices.Contains(codes, string(wait.Code)) {
			codes = append(codes, string(wait.Code))
		}
	}
	switch {
	case w.Rests():
		return "no pod runs. If they have ended by the time at which one is to start, others are made before that"
	case d.Rotation != nil && d.Rotation.Waits != "":
		return d.Rotation.Waits
	case len(codes) > 0:
		return "see what is told of " + strings.Join(codes, " and ")
	case w.Intent == nil || w.Intent.State != cluster.IntentFounded:
		return "the cluster is not founded"
	case w.fresh() == nil:
		return "the daemons have not told of themselves lately"
	case !w.fresh().AllUp:
		return "not every member is up"
	case !d.idle():
		return "other steps come first"
	case !a.due(w.Now):
		return "the last rotation was at " + a.Since.UTC().Format(time.RFC3339) + ", and the next one follows after a while"
	}
	return "it is about to begin"
}
