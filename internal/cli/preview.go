package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/console"
)

// givenUp is what a restore or an undo takes from clients.
type givenUp struct {
	what string
	// revision is where the cluster goes back to; zero: not known. AtLeast: it may
	// hold more.
	revision int64
	atLeast  bool
	// rows is the backup, and behind it the newest of those that are newer.
	rows  []listedBackup
	newer int // how many there are in all
	// unlisted is why the others are not known; empty: they are.
	unlisted string
}

// newerShown is how many newer backups a preview names.
const newerShown = 3

// ofBackup is what goes back to a backup. The store's list says which are newer.
func ofBackup(ctx context.Context, all *backupstore.Catalogue, b backupstore.Backup) givenUp {
	g := givenUp{what: "the backup " + b.Name.String(), rows: []listedBackup{listedAs(b)}}
	g.revision, g.atLeast = g.rows[0].Revision, g.rows[0].AtLeast
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	entries, err := all.List(ctx)
	var newer []backupstore.Backup
	if err == nil {
		entries = slices.DeleteFunc(entries, func(e backupstore.Entry) bool {
			return !e.Name.Time().After(b.Name.Time()) || e.File == ""
		})
		g.newer = len(entries)
		newer, err = all.Describe(ctx, entries[:min(len(entries), newerShown)]) // the newest first
	}
	if err != nil {
		g.unlisted = err.Error()
	}
	for _, x := range newer {
		g.rows = append(g.rows, listedAs(x))
	}
	return g
}

// print says what is given up, against what the cluster serves at this moment.
func (g givenUp) print(w io.Writer, o *cluster.Observation, now console.Served) {
	fmt.Fprintf(w, "restoring makes the cluster what it was in %s: whatever was written since is lost to clients\n", g.what)
	if len(g.rows) > 0 {
		printBackups(w, g.rows)
	}
	switch {
	case g.unlisted != "":
		fmt.Fprintf(w, "whether there are newer backups cannot be told: %s\n", g.unlisted)
	case g.newer > 0:
		fmt.Fprintf(w, "NEWER BACKUPS: %d; the first line is the one that you named, the newest follow\n", g.newer)
	case len(g.rows) > 0:
		fmt.Fprintln(w, "no backup is newer")
	}
	if words := serves(o); words != "" {
		fmt.Fprintln(w, words)
	}
	switch {
	case now.Revision > 0 && g.revision > 0:
		least := ""
		if g.atLeast {
			least = " at most"
		}
		fmt.Fprintf(w, "the cluster serves: revision %d, read through raft just now on host %s, is %d after the backup's%s\n", now.Revision, now.Host, max(now.Revision-g.revision, 0), least)
	case now.Revision > 0:
		fmt.Fprintf(w, "the cluster serves: revision %d, read through raft just now on host %s\n", now.Revision, now.Host)
	case o == nil:
		fmt.Fprintln(w, "whether the cluster serves was not asked: no daemon is named (--data-dir, --endpoint)")
	default:
		if roster, _ := o.Roster(); roster.HasQuorum() {
			fmt.Fprintf(w, "no voter could be read through raft just now; at %s the cluster served, at revision %d or later\n", o.At.UTC().Format(time.RFC3339), served(o))
		}
	}
}

// serves warns of a restore where the cluster has its quorum; empty: it has none, or that is not known.
func serves(o *cluster.Observation) string {
	if o == nil {
		return ""
	}
	roster, listed := o.Roster()
	if !listed || !roster.HasQuorum() {
		return ""
	}
	voters, up := roster.Count()
	words := "THE CLUSTER HAS ITS QUORUM"
	if up == voters {
		words = "THE CLUSTER IS HEALTHY"
	}
	return fmt.Sprintf("%s: %d of %d voters are up. A restore undoes writes; a member that is down is mended without one", words, up, voters)
}

// remindOfAPIServer says what of a Kubernetes API server has to fit data of an earlier time. Nothing of it is restarted:
// revisions go on above what it has seen, so that its watches end and it lists anew.
func remindOfAPIServer(w io.Writer) {
	fmt.Fprint(w, `if kube-apiserver runs on this cluster: it lists anew by itself, and etcdadm restarts nothing of it. Look at
  - its encryption keys (--encryption-provider-config): they still have those of that time, on each control-plane host,
    or it cannot read secrets
  - its release: not older than the one that ran at that time, or it cannot read all objects
  - what was made since outside of etcd (volumes, load balancers, nodes, containers): it knows nothing of it any more
`)
}

// servedNow asks the daemons for the newest revision that the present generation serves,
// read through raft at this moment; zero: none of them could read it.
func (q *queue) servedNow(ctx context.Context, o *cluster.Observation) (best console.Served) {
	if o == nil {
		return best
	}
	conn, err := q.open()
	if err != nil {
		return best
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	report, err := conn.Status(ctx)
	if err != nil {
		return best
	}
	var mu sync.Mutex // guards best
	var all sync.WaitGroup
	for _, at := range report.Contacts {
		all.Go(func() {
			s, err := conn.Served(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			if in := o.Intent(); err == nil && (in == nil || in.Cluster == 0 || s.Cluster == in.Cluster) && s.Revision > best.Revision {
				best = s
			}
		})
	}
	all.Wait()
	return best
}

// servedTimeout is what all of the daemons have together: one read through raft each.
const servedTimeout = 5 * time.Second
