package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

const (
	// queueEvery is how often the queue of commands is listed while it is
	// empty and nothing tells of a change.
	queueEvery = 4 * time.Second
	// backupsEvery is how often the backups are listed while nothing asks for
	// more: the hosts tell of those that they take.
	backupsEvery = 5 * time.Minute
	// newestShown is how many of the newest backups an observation names.
	newestShown = 3
)

// Catalogue is what is known of the backups in the store.
type Catalogue interface {
	// List gives all of them, the newest first.
	List(ctx context.Context) ([]cluster.Backup, error)
	// Proven gives the newest that was found good of those that the last List
	// found, as far back as is cheap to look; false without an error: none was.
	Proven(ctx context.Context) (cluster.Backup, bool, error)
	// Encrypted gives the newest encrypted one of those that the last List found, as
	// far as its name tells; false: none of them is.
	Encrypted() (cluster.Backup, bool)
	// Listed gives one of those that the last List found, with everything that is
	// recorded beside it; it does not list anew. False without an error: it was not
	// among them, or is gone.
	Listed(ctx context.Context, name string) (cluster.Backup, bool, error)
	// Find gives one with everything that is recorded beside it; false without
	// an error: there is none of that name.
	Find(ctx context.Context, name string) (cluster.Backup, bool, error)
}

// queue is what was seen of the commands and of the backups.
type queue struct {
	at       time.Time // of the list of commands
	commands []cluster.Command
	// unlisted is why the queue could not be listed since; empty: it could.
	unlisted string
	backups  cluster.BackupsView
	ended    string // what the hosts had said of their backups and drills at the last list of them
	sought   bool   // a proven backup was looked for further back than the newest few
	recorded cluster.Progress
}

func (q queue) same(o queue) bool {
	return (q.unlisted == "") == (o.unlisted == "") && slices.EqualFunc(q.commands, o.commands, func(a, b cluster.Command) bool {
		return a.Name == b.Name && a.Missing == b.Missing && (a.Found == nil) == (b.Found == nil) && a.Malformed == b.Malformed && a.Ended == b.Ended && (a.Unread == "") == (b.Unread == "")
	})
}

// found is what was seen of the backup that a command names; nil: nothing yet.
func (q queue) found(c cluster.Command) *cluster.Backup {
	for _, o := range q.commands {
		if o.Name == c.Name && o.Backup == c.Backup {
			return o.Found
		}
	}
	return nil
}

// recovering reports whether a command asks for the ends of the hosts' logs.
func (q queue) recovering() bool {
	return slices.ContainsFunc(q.commands, func(c cluster.Command) bool { return c.Kind == cluster.CommandRecover })
}

// readCommands lists the commands, not more often than is of use: asked is set when
// something told of a change.
func (l *look) readCommands(ctx context.Context, w *Watcher, last look, asked bool) {
	l.queue = last.queue
	l.queue.backups.Interval, l.queue.backups.DrillInterval = w.BackupInterval, w.DrillInterval
	if asked || len(last.queue.commands) > 0 || last.queue.unlisted != "" || time.Since(last.queue.at) >= queueEvery {
		tell := func(topic, what string, err error) {
			if err == nil || asked || ctx.Err() == nil { // else it was in a hurry, and the next look is not
				w.Say(topic, what, err)
			}
		}
		commands, err := w.Control.Commands(ctx)
		tell("queue", "cannot list the commands in the store", err)
		if err != nil {
			l.queue.unlisted = say.Explain(err)
			return
		}
		var ended []control.Ended
		if len(commands) > 0 {
			ended, err = w.Control.EndedCommands(ctx)
			tell("ended", "cannot read how commands ended", err)
			if err != nil {
				l.queue.unlisted = say.Explain(err)
				return
			}
		}
		l.queue.at, l.queue.unlisted, l.queue.commands = l.at, "", l.queue.commands[:0:0]
		for _, c := range commands {
			l.queue.commands = append(l.queue.commands, w.lookUp(ctx, asCommand(c, ended), last.queue))
		}
	}
}

// readRest reads the record, where it is of use, and lists the backups.
func (l *look) readRest(ctx context.Context, w *Watcher) {
	if len(l.queue.commands) > 0 || w.mayRecover() {
		if r, err := w.Control.ReadRecord(ctx); err == nil {
			l.queue.recorded = recordedOf(r, l.ours())
		}
	}
	l.listBackups(ctx, w)
}

// recordedOf is what the record says of the intent's cluster.
func recordedOf(r control.Record, in *cluster.Intent) cluster.Progress {
	p := cluster.Progress{Revision: r.Revision}
	for _, c := range r.Clusters {
		if in != nil && c.Cluster == in.Cluster && in.Cluster != 0 {
			p.Term, p.Index = c.Term, c.Index
		}
	}
	return p
}

// mayRecover: the cluster is to be recovered by itself, and the quorum is gone.
func (w *Watcher) mayRecover() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quorumless && w.last.spec != nil && (w.last.spec.AutoRecoverAfter > 0 || w.AutoRecoverAfter > 0)
}

func (l *look) listBackups(ctx context.Context, w *Watcher) {
	b := &l.queue.backups
	ended := w.endedOnHosts()
	if w.Catalogue == nil || !b.At.IsZero() && l.at.Sub(b.At) < backupsEvery && ended == l.queue.ended {
		return
	}
	all, err := w.Catalogue.List(ctx)
	w.Say("backups", "cannot list the backups in the store", err)
	if err != nil {
		b.Unlisted = say.Explain(err)
		return
	}
	b.Unlisted, b.At, b.Newest, l.queue.ended = "", l.at.UTC().Round(0), slices.Clone(all[:min(len(all), newestShown)]), ended
	b.Proven = l.newestProven(ctx, w, b.Proven)
	b.Encrypted = nil
	if e, ok := w.Catalogue.Encrypted(); ok {
		b.Encrypted = &e
	}
	for _, o := range b.Newest {
		b.Drilled = later(b.Drilled, o.Drilled)
	}
	if b.Proven != nil {
		b.Drilled = later(b.Drilled, b.Proven.Drilled)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// endedOnHosts changes with every backup and drill that a host in sight ends: the
// store has something new then.
func (w *Watcher) endedOnHosts() string {
	o := w.Observed()
	if o == nil {
		return ""
	}
	var b strings.Builder
	for i := range o.Hosts {
		for _, t := range []*cluster.Taken{o.Hosts[i].Taken, o.Hosts[i].Drill} {
			if t != nil && !t.Running {
				fmt.Fprintf(&b, "%s %d ", o.Hosts[i].Host, t.Ended.UnixNano())
			}
		}
	}
	return b.String()
}

// newestProven looks for the newest backup that is known to be proven: among
// the newest few, the ones that hosts have tried out, and the one that was known
// before. Further back it is looked once. What cannot be looked at is not known.
// One of another cluster, which somebody copied in, comes after all of this one's.
func (l *look) newestProven(ctx context.Context, w *Watcher, known *cluster.Backup) *cluster.Backup {
	var best *cluster.Backup
	better := func(b cluster.Backup) {
		if !b.Proven {
			return
		}
		own := l.ours().HasBeen(b.Cluster)
		if best == nil || own && !l.ours().HasBeen(best.Cluster) || own == l.ours().HasBeen(best.Cluster) && b.At.After(best.At) {
			best = &b
		}
	}
	for _, b := range l.queue.backups.Newest {
		better(b)
	}
	if best == nil && known == nil && !l.queue.sought {
		b, ok, err := w.Catalogue.Proven(ctx)
		if l.queue.sought = err == nil; ok && err == nil {
			better(b)
		}
	}
	names := w.triedOut()
	if known != nil {
		names = append(names, known.Name)
	}
	for _, name := range names {
		if slices.ContainsFunc(l.queue.backups.Newest, func(b cluster.Backup) bool { return b.Name == name }) {
			continue
		}
		b, ok, err := w.Catalogue.Listed(ctx, name)
		switch {
		case err != nil:
			l.queue.sought = false // so that it is not forgotten for good
		case ok:
			better(b)
		}
	}
	return best
}

// triedOut are the backups that hosts in sight have tried out and found good.
func (w *Watcher) triedOut() (names []string) {
	o := w.Observed()
	if o == nil {
		return nil
	}
	for i := range o.Hosts {
		if t := o.Hosts[i].Drill; t != nil && !t.Running && t.Error == "" && t.Backup != nil && !slices.Contains(names, t.Backup.Name) {
			names = append(names, t.Backup.Name)
		}
	}
	return names
}

// lookUp adds what the store says of the backup that a command names.
func (w *Watcher) lookUp(ctx context.Context, c cluster.Command, last queue) cluster.Command {
	if c.Malformed == "" && c.Unread == "" {
		c.Malformed = w.countable(c)
	}
	if c.Kind != cluster.CommandRestore || c.Malformed != "" || w.Catalogue == nil {
		return c
	}
	if c.Found = last.found(c); c.Found != nil {
		return c // what is recorded of a backup does not change; whether it is still there its reader sees
	}
	b, ok, err := w.Catalogue.Find(ctx, c.Backup)
	w.Say("backup "+c.Backup, "cannot look at a backup", err)
	switch {
	case err != nil:
	case ok:
		c.Found = &b
	default:
		c.Missing = true
	}
	return c
}

// asCommand is a command of the queue as the planner knows it. One that ended,
// and was not taken out of the queue because the store or the leader failed just
// then, is never run, whatever has become of the cluster since.
func asCommand(c control.Command, ended []control.Ended) cluster.Command {
	out := cluster.Command{Name: c.Name, At: c.Timestamp}
	for _, e := range ended {
		if e.Name == c.Name {
			out.Ended = e.Result
		}
	}
	switch {
	case c.Unread != nil:
		out.Unread = c.Unread.Error()
	case c.Err != nil:
		out.Malformed = c.Err.Error()
		if c.Restore != nil { // what could be read of it is kept with how it ended
			out.Kind, out.Backup = cluster.CommandRestore, c.Restore.Backup
		}
	case c.Restore != nil:
		out.Kind, out.Backup, out.Lost = cluster.CommandRestore, c.Restore.Backup, slices.Clone(c.Restore.Lost)
		out.Count = c.Restore.Count
		for _, f := range c.Restore.Flags {
			out.Malformed = readFlag(&out, f)
		}
	case c.Wish != nil:
		out.Kind, out.Host, out.Dir, out.Lost = c.Wish.Kind, c.Wish.Host, c.Wish.Dir, slices.Clone(c.Wish.Lost)
		out.Count, out.Seen, out.KeepFor = c.Wish.Count, c.Wish.Seen, c.Wish.KeepFor
	}
	return out
}

// readFlag takes what a person said beside a restore; what is not known may
// be a condition, so the command is not run.
func readFlag(c *cluster.Command, flag string) string {
	if flag == control.FlagNoBackup {
		c.NoBackup = true
		return c.Malformed
	}
	if v, ok := control.FlagVersion(flag); ok {
		c.Version = v
		return c.Malformed
	}
	if digest, ok := control.FlagAcceptLoss(flag); ok {
		c.AcceptLoss = digest
		return c.Malformed
	}
	return fmt.Sprintf("it says %q, which this release does not know", flag)
}

// countable says that a command asks for a member count which this daemon's
// spec cannot have, because it is not the store's; empty: it can.
func (w *Watcher) countable(c cluster.Command) string {
	if c.Count == nil || w.Spec == nil {
		return ""
	}
	return fmt.Sprintf("it asks for %d members, and the daemons have their spec from a file and not from the store: change it there, and queue the command without a count", c.Count.Members)
}
