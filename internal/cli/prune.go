package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"github.com/spf13/cobra"
)

// prunedAside is what host prune prints for programs.
type prunedAside struct {
	console.Pruned
	// Proven is the newest backup that was verified, of those that the leading
	// daemon names; nil: none, or no daemon leads.
	Proven *cluster.Backup `json:"proven,omitempty"`
	DryRun bool            `json:"dryRun,omitempty"`
	// OnlyWay: as far as the leading daemon sees, nothing else goes back there.
	OnlyWay bool `json:"onlyWay,omitempty"`
}

func (r *reach) pruneCommand() *cobra.Command {
	var dir string
	var dryRun, yes, force bool
	c := &cobra.Command{
		Use: "prune [HOST] --dir NAME", Short: "Remove a data directory that was set aside",
		Long: `prune deletes a data directory that a host has set aside, one at a time. Without --dir
it lists them. HOST defaults to the host of --data-dir or of the first --endpoint. It
shows what is given up, and asks: "etcdadm restore --undo" can no longer go back to that
data. The only way back is kept unless you add --force.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return r.prune(c, cluster.HostID(first(args)), dir, dryRun, yes, force)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "name of the directory, as the list and etcdadm status show it")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&force, "force", false, "also the only way back to where the cluster was")
	return c
}

func (r *reach) prune(c *cobra.Command, id cluster.HostID, dir string, dryRun, yes, force bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
	defer cancel()
	conn, at, err := r.meant(ctx, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	told, err := noCluster(conn.Prune(ctx, at, "", false))
	if err != nil {
		return err
	}
	if dir != "" {
		if dir, err = r.asideName(dir, told.Aside, true); err != nil {
			return err
		}
		if told, err = conn.Prune(ctx, at, dir, false); err != nil {
			return err
		}
	}
	seen := leadersReport(ctx, conn)
	out := prunedAside{Pruned: told, Proven: newestProven(seen), DryRun: dryRun}
	if dir != "" && len(told.Aside) > 0 {
		out.OnlyWay = onlyWay(seen, told.Host, told.Aside[0])
	}
	if told.Refuse != "" {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused: host %s: %s", told.Host, told.Refuse), Advice: r.again("etcdadm host prune "+string(told.Host)) + " lists the directories"}
	}
	if out.OnlyWay && !force {
		r.printAsidePrice(c.ErrOrStderr(), out)
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused: %s is the only known way back to the former cluster; nothing was removed", dir), Advice: "add --force to remove it anyway"}
	}
	if dir != "" && !dryRun {
		if r.output == "table" || !yes {
			r.printAsidePrice(c.ErrOrStderr(), out)
		}
		if !yes {
			if err := confirm(c, "Remove it?"); err != nil {
				return err
			}
		}
		doing, done := context.WithTimeout(c.Context(), pruneTimeout) // the question took its time
		defer done()
		if out.Pruned, err = conn.Prune(doing, cluster.Contact{Host: told.Host, Endpoint: at.Endpoint}, dir, true); err != nil {
			return err
		}
		if out.Refuse != "" {
			return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused: host %s: %s", out.Host, out.Refuse)}
		}
	}
	return r.print(c.OutOrStdout(), out, func(w io.Writer) {
		switch {
		case out.Done:
			fmt.Fprintf(w, "removed %s on host %s\n", out.Aside[0].Dir, out.Host)
		case dir != "":
			r.printAsidePrice(w, out)
		default:
			printAside(w, out)
		}
	})
}

// pruneTimeout is longer than what the daemon gives the removal.
const pruneTimeout = 90 * time.Second

// leadersReport is what the leading daemon sees; nil where none leads.
func leadersReport(ctx context.Context, conn *console.Console) *console.Report {
	report, err := conn.Status(ctx)
	if err != nil || report.Observation == nil {
		return nil
	}
	return &report
}

// newestProven is the newest backup that was verified, as far as the leading
// daemon knows; nil without one, and without a backup store.
func newestProven(r *console.Report) *cluster.Backup {
	if r == nil {
		return nil
	}
	if b := console.BackupsOf(r.Observation, r.Now()); b != nil {
		return b.Proven
	}
	return nil
}

// onlyWay: no other data goes as far back to where the cluster was. Where nobody leads,
// or the leader has not seen the directory, that is not known, and so it may be.
func onlyWay(r *console.Report, host cluster.HostID, a cluster.SetAside) bool {
	if r != nil {
		for _, x := range r.Aside {
			if x.Host == host && x.Name() == a.Name() {
				return x.OnlyWay
			}
		}
	}
	return a.Reason != cluster.AsideRemoved
}

func printAside(w io.Writer, p prunedAside) {
	if len(p.Aside) == 0 {
		fmt.Fprintf(w, "nothing is set aside on host %s\n", p.Host)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DIRECTORY\tSIZE\tAGE\tREASON\tMEMBER\tCLUSTER")
	for _, a := range p.Aside {
		age := "-"
		if !a.At.IsZero() {
			age = tookWords(max(time.Since(a.At), 0))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name(), sizeWords(a.Bytes), age, a.Reason, a.Member, a.Cluster)
	}
	_ = t.Flush()
}

func (r *reach) printAsidePrice(w io.Writer, p prunedAside) {
	for _, a := range p.Aside {
		fmt.Fprintf(w, "Host %s set %s aside: %s, %s, of member %s of cluster %s.\n", p.Host, filepath.Base(a.Dir), a.Reason, sizeWords(a.Bytes), a.Member, a.Cluster)
		fmt.Fprintln(w, "What its removal gives up: whatever was written there and is in no backup, and the way")
		fmt.Fprintf(w, "back: %s\n", r.again(fmt.Sprintf("etcdadm restore --undo --from %s --dir %s", p.Host, filepath.Base(a.Dir))))
	}
	if b := p.Proven; b != nil {
		fmt.Fprintf(w, "The newest backup that was verified is %s, %s old.\n", b.Name, tookWords(time.Since(b.At)))
		if slices.ContainsFunc(p.Aside, func(a cluster.SetAside) bool { return !a.At.IsZero() && b.At.Before(a.At) }) {
			fmt.Fprintln(w, "It was made before this data was set aside: what was written after it is in no backup that is known to be good.")
		}
	} else {
		fmt.Fprintf(w, "None of the newest backups is known to be good. To find out: %s\n", r.again("etcdadm backup verify NAME"))
	}
}
