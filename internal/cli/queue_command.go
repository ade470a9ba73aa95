package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// queueCommand is about the commands that wait for the leading daemon.
func queueCommand() *cobra.Command {
	var q queue
	c := &cobra.Command{
		Use:   "queue",
		Short: "List and cancel commands that wait for the leading daemon",
		Long: `queue is about restores, recoveries, undos and backups that were asked for and have not
ended. A restore, recovery or undo that does not begin within 10 minutes expires.`,
		Example: `  etcdadm queue list
  etcdadm queue cancel 2026-11-20T23:17:07Z-000000`,
		Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	q.flags(c)
	q.storeFlags(c.PersistentFlags())
	c.AddCommand(queueListCommand(&q), queueCancelCommand(&q))
	return c
}

// queuedCommand is a command of the queue for programs.
type queuedCommand struct {
	Command string              `json:"command"`
	Kind    cluster.CommandKind `json:"kind,omitempty"`
	What    string              `json:"what,omitempty"` // as a person would have typed it
	By      string              `json:"by,omitempty"`
	Queued  time.Time           `json:"queued,omitzero"`
	Expires time.Time           `json:"expires,omitzero"`
	State   string              `json:"state"`
	Why     string              `json:"why,omitempty"` // what it waits for, as the leading daemon says
}

// What is being done about a command of the queue.
const (
	queueWaits   = "waits"
	queueRuns    = "runs"    // something was begun for it
	queueRefused = "refused" // it cannot be run
	queueUnread  = "unread"  // the store does not give it
)

// listedQueue is what queue list prints.
type listedQueue struct {
	Queue []queuedCommand `json:"queue"`
	Ended []control.Ended `json:"ended,omitempty"`
}

func queueListCommand(q *queue) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the commands of the queue: what, who asked, when, and what each waits for",
		Long: `list prints the queue, oldest first. What a command waits for is the leading daemon's
word: with --store alone it is not known. With --all also the commands that ended, and how.`,
		Example: `  etcdadm queue list
  etcdadm queue list --all -o json
  etcdadm queue list --store s3://BUCKET/FOLDER`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := q.list(c.Context(), all, c.ErrOrStderr())
			if err != nil {
				return err
			}
			return q.print(c.OutOrStdout(), list, func(w io.Writer) { printQueue(w, list, time.Now()) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that ended, and how")
	return c
}

// list reads the queue in the store, and asks the leading daemon what each command waits for.
func (q *queue) list(ctx context.Context, all bool, say io.Writer) (list listedQueue, err error) {
	list.Queue = []queuedCommand{}
	var o *cluster.Observation
	var waits []plan.Waiting
	if q.store == "" || q.dataDir != "" || len(q.endpoints) > 0 {
		report, err := q.led(ctx)
		if err != nil && q.store == "" {
			return list, err
		}
		if err != nil {
			fmt.Fprintf(say, "! %v\n  this is what the store has\n", err)
		}
		o, waits = report.Observation, report.Queue
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	f, err := q.folder(ctx, o, toRead)
	if err != nil {
		return list, err
	}
	commands, err := control.Queue(ctx, f)
	if err != nil {
		return list, err
	}
	for _, c := range commands {
		list.Queue = append(list.Queue, queuedAs(c, waits))
	}
	if all {
		list.Ended, err = control.Past(ctx, f)
	}
	return list, err
}

// queuedAs is a command of the queue with what the leading daemon says of it.
func queuedAs(c control.Queued, waits []plan.Waiting) queuedCommand {
	out := queuedCommand{Command: c.Name, Kind: c.Kind(), By: c.By(), Queued: c.Timestamp, Expires: c.Until, State: queueWaits}
	switch {
	case c.Unread != nil:
		return queuedCommand{Command: c.Name, State: queueUnread, Why: c.Unread.Error()}
	case c.Err != nil:
		return queuedCommand{Command: c.Name, State: queueRefused, Why: c.Err.Error()}
	case c.Restore != nil:
		out.What = strings.Join(append([]string{"restore", c.Restore.Backup}, moreWords(c.Restore.Flags, c.Restore.Lost, c.Restore.Count)...), " ")
	case c.Wish != nil:
		out.What = wishWords(c.Wish)
	}
	if c.Begun {
		out.State = queueRuns
	}
	if i := slices.IndexFunc(waits, func(w plan.Waiting) bool { return w.Command == c.Name }); i >= 0 {
		if out.Why = waits[i].For; waits[i].Running {
			out.State = queueRuns
		}
	}
	if out.State == queueRuns {
		out.Expires = time.Time{}
	}
	return out
}

func printQueue(w io.Writer, list listedQueue, now time.Time) {
	if len(list.Queue) == 0 {
		fmt.Fprintln(w, "the queue is empty")
	} else {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "COMMAND\tSTATE\tWHAT\tBY\tQUEUED\tEXPIRES")
		for _, c := range list.Queue {
			queued, expires := "", "no"
			if !c.Queued.IsZero() {
				queued = untilWords(c.Queued, now)
			}
			if !c.Expires.IsZero() {
				expires = untilWords(c.Expires, now)
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Command, c.State, c.What, c.By, queued, expires)
		}
		_ = t.Flush()
		for _, c := range list.Queue {
			if c.Why != "" {
				fmt.Fprintf(w, "%s: %s\n", c.Command, c.Why)
			}
		}
	}
	for i, e := range list.Ended {
		if i == 0 {
			fmt.Fprintln(w, "\nended:")
		}
		fmt.Fprintf(w, "  %s  %s, %s at %s: %s\n", e.Name, endedWords(e), e.Result, e.At.UTC().Format(time.RFC3339), e.Reason)
	}
}

func queueCancelCommand(q *queue) *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel COMMAND",
		Short: "Withdraw a command that has not begun",
		Long: `cancel withdraws a command, by its name or by the backup that it restores. The
cancellation is written into the record of the cluster first, so that no daemon runs the
command afterwards. One that has begun is left alone (exit code 12): going back is a
command of its own, "etcdadm restore --undo". A backup that a host takes already goes on.`,
		Example: `  etcdadm queue cancel 2026-11-20T23:17:07Z-000000
  etcdadm queue cancel 2026-11-20T22:00:00Z-000001 --dry-run    # of a backup: its restores`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return q.cancel(c, args[0])
		},
	}
	c.Flags().BoolVar(&q.dryRun, "dry-run", false, "print what would be withdrawn, and withdraw nothing")
	c.Flags().BoolVar(&q.yes, "yes", false, "do not ask")
	return c
}

func (q *queue) cancel(c *cobra.Command, word string) error {
	f, _, err := q.storeFolder(c.Context(), readIf(q.dryRun))
	if err != nil {
		return err
	}
	found, err := find(c.Context(), f, word)
	if err != nil {
		return err
	}
	verb := "withdrawn"
	if q.dryRun {
		verb = "would be withdrawn, if it has not begun by then"
	}
	waiting := 0
	for _, one := range found {
		if one.State == queueRuns {
			fmt.Fprintf(c.ErrOrStderr(), "%s (%s) has begun already\n", one.Command, one.What)
			continue
		}
		waiting++
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s%s\n", one.Command, orNone(one.What), byWords(one))
	}
	if !q.dryRun {
		if !q.yes && waiting > 0 {
			if err := confirm(c, "Withdraw "+counted(waiting, "command")+"?"); err != nil {
				return err
			}
		}
		if err := withdraw(c.Context(), f, found); err != nil {
			return err
		}
	}
	return q.print(c.OutOrStdout(), found, func(w io.Writer) {
		for _, one := range found {
			fmt.Fprintf(w, "command %s: %s\n", one.Command, verb)
		}
	})
}

// withdraw takes commands out of the queue, one after the other.
func withdraw(ctx context.Context, f *control.Folder, found []queuedCommand) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for _, one := range found {
		_, err := control.Withdraw(ctx, f, one.Command)
		if begun, ok := errors.AsType[*control.BegunError](err); ok {
			return &Failure{Code: ExitUnsafe, Err: err, Advice: begun.Hint()}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find are the commands of the queue that a word means.
func find(ctx context.Context, f *control.Folder, word string) (found []queuedCommand, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	names, err := commandsOf(ctx, f, word)
	if err != nil {
		return nil, err
	}
	all, err := control.Queue(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if slices.Contains(names, c.Name) {
			found = append(found, queuedAs(c, nil))
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	if past, err := control.Past(ctx, f); err == nil {
		for _, e := range past {
			if e.Name == word {
				return nil, &Failure{Code: ExitUnsafe, Err: fmt.Errorf("command %s has ended already: %s: %s", e.Name, e.Result, e.Reason), Advice: "etcdadm queue list --all has those that ended"}
			}
		}
	}
	return nil, &Failure{Code: ExitError, Err: fmt.Errorf("cancel %q: %w", word, control.ErrNoCommand), Advice: "etcdadm queue list prints the names"}
}

func byWords(c queuedCommand) string {
	if c.By == "" {
		return ""
	}
	return ", asked for by " + c.By
}
