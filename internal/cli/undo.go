package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// undoing is what is known of the directory that an undo would go back to.
type undoing struct {
	host cluster.HostID
	aside,
	// further is of the same cluster and goes furthest of those that go further,
	// on host at; no Dir: there is none.
	further cluster.SetAside
	at cluster.HostID
	// known: the host told of the directory, and how far its log goes.
	known  bool
	unseen []cluster.HostID
	by     reach // how the daemons were reached
}

// findUndo compares the directory with what every host set aside of that cluster:
// what members of one cluster have in their logs compares by term and index, and
// whatever goes further may have been acknowledged (SAFETY.md, rule 26).
func findUndo(ends []cluster.LogEnd, unseen []cluster.HostID, from cluster.HostID, dir string) undoing {
	u := undoing{host: from, unseen: unseen}
	for _, h := range ends {
		for _, a := range h.SetAside {
			if h.Host == from && a.Name() == dir {
				u.aside, u.known = a, a.Log != (cluster.Progress{})
			}
		}
	}
	if !u.known {
		return u
	}
	u.at, u.further = plan.FurthestAside(ends, u.aside.Cluster, u.aside.Log)
	return u
}

// seen is what the daemons hold the undo against again before it is begun: who asks
// for it knows that much.
func (u undoing) seen(o *cluster.Observation, older bool) *cluster.Seen {
	s := cluster.Seen{AcceptOlder: older}
	if u.known {
		s.Log, s.Furthest = u.aside.Log, u.aside.Log
	}
	if u.further.Dir != "" {
		s.Furthest = u.further.Log
	}
	if o != nil {
		if in := o.Intent(); in != nil {
			s.Generation = in.Generation
		}
		s.Revision = served(o)
	}
	return &s
}

// served is the newest revision that a voter tells of; zero: none does.
func served(o *cluster.Observation) (revision int64) {
	roster, _ := o.Roster()
	for _, s := range roster.Up() {
		if s.Host != nil && s.Host.Status != nil {
			revision = max(revision, s.Host.Status.Revision)
		}
	}
	return revision
}

// tell says what an undo from there drops.
func (u undoing) tell(w io.Writer) {
	switch {
	case !u.known:
		fmt.Fprintf(w, "the log end of that directory is unknown; another host may have set newer data aside\n")
	case u.further.Dir != "":
		fmt.Fprintf(w, "host %s set aside data of the same cluster that goes further: its log ends at term %d, index %d, and that of host %s at term %d, index %d; writes in between are dropped, and clients may have been told that they are kept\n",
			u.at, u.further.Log.Term, u.further.Log.Index, u.host, u.aside.Log.Term, u.aside.Log.Index)
	default:
		fmt.Fprintf(w, "its log ends at term %d, index %d; no reachable host set newer data of that cluster aside\n", u.aside.Log.Term, u.aside.Log.Index)
	}
	if len(u.unseen) > 0 {
		fmt.Fprintf(w, "unreachable: %s; what they set aside may be newer\n", join(u.unseen))
	}
}

// refuse is the error of an undo that would drop what another host has.
func (u undoing) refuse() error {
	if u.further.Dir == "" {
		return nil
	}
	return &Failure{
		Code:   ExitUnsafe,
		Err:    errors.New("nothing was queued: another host has set aside data that goes further"),
		Advice: u.by.again(fmt.Sprintf("etcdadm restore --undo --from %s --dir %s --yes", u.at, u.further.Name())) + "; add --accept-older to use the older data anyway",
	}
}

// undo asks every daemon that is known.
func (q *queue) undo(ctx context.Context, from, dir string) undoing {
	if q.dataDir == "" && len(q.endpoints) == 0 {
		return undoing{host: cluster.HostID(from)}
	}
	conn, err := q.open()
	if err != nil {
		return undoing{host: cluster.HostID(from)}
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	report, err := noCluster(conn.Status(ctx))
	if err != nil {
		return undoing{host: cluster.HostID(from)}
	}
	ends, unseen, _ := logEnds(ctx, conn, report.Contacts)
	u := findUndo(ends, slices.Sorted(maps.Keys(unseen)), cluster.HostID(from), dir)
	u.by = q.reach
	return u
}
