package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// undoAsSeen holds an undo against what is there now, at each look until its intent
// is written: the person decided on what they saw, and hosts that were out of sight
// come back with more of the same log (SAFETY.md, rule 26). Once it is written, the
// former members are being given up, and to reject it then would keep nothing. What the
// daemons go back to by themselves is chosen from what is in sight, and is not checked here.
func undoAsSeen(v *step.View, c *cluster.Command) *decision.Decision {
	if c.Kind != cluster.CommandUndo || !v.Queued(c.Name) || v.Intent == nil || v.Intent.CommandID == c.Name {
		return nil
	}
	h, ok := v.Obs.Host(c.Host)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Name() == c.Dir })
	if i < 0 {
		return nil
	}
	seen := cluster.Seen{}
	if c.Seen != nil {
		seen = *c.Seen
	}
	reject := func(format string, args ...any) *decision.Decision {
		return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf(format, args...)+"; nothing was touched, so look again and queue it anew if it is still wanted: "+GenerationCommand(v, c))
	}
	from := h.SetAside[i]
	if from.Log == (cluster.Progress{}) { // not on record, as before this was written down for all; the person's question has read it
		from.Log = seen.Log
	}
	switch {
	case seen.Generation != 0 && seen.Generation != v.Intent.Generation:
		return reject("it was asked for over generation %d, and generation %d was made since", seen.Generation, v.Intent.Generation)
	case seen.Log != cluster.Progress{} && (seen.Log.Before(from.Log) || from.Log.Before(seen.Log)):
		return reject("the log in %s of host %s ended at term %d, index %d when it was asked for, and ends at term %d, index %d", c.Dir, c.Host, seen.Log.Term, seen.Log.Index, from.Log.Term, from.Log.Index)
	}
	return UndoOlder(v, c, seen, from)
}

// UndoOlder ends an undo to data that other data of the same cluster goes beyond,
// further than the person has seen and accepted.
func UndoOlder(v *step.View, c *cluster.Command, seen cluster.Seen, from cluster.SetAside) *decision.Decision {
	if from.Log == (cluster.Progress{}) || seen.AcceptOlder && seen.Furthest == (cluster.Progress{}) {
		return nil // nobody can tell, or the person takes it whatever there is
	}
	limit := from.Log
	if seen.AcceptOlder && limit.Before(seen.Furthest) {
		limit = seen.Furthest
	}
	at, further := sight.FurthestAside(v.Obs.Hosts, from.Cluster, limit)
	if at != "" {
		limit = further.Log
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if l := h.Local; l.Cluster == from.Cluster && l.Generation != v.Intent.Generation && l.HasData && limit.Before(h.Highest) {
			return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("host %s holds data of the same cluster that goes further than what was seen when it was asked for, up to term %d, index %d, and is about to set it aside; once it has, etcdadm status shows it for restore --undo", h.Host, h.Highest.Term, h.Highest.Index))
		}
	}
	if at == "" {
		return nil
	}
	return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("host %s set aside data of the same cluster that goes further than what was seen when it was asked for: its log ends at term %d, index %d, and that in %s of host %s at term %d, index %d; etcdadm restore --undo --from %s --dir %s --yes takes that one, and --accept-older the older one",
		at, further.Log.Term, further.Log.Index, c.Dir, c.Host, from.Log.Term, from.Log.Index, at, further.Name()))
}
