package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

// destroyCommand ends a whole cluster.
func destroyCommand() *cobra.Command {
	var r reach
	var p setup.Paths
	var o removal.Options
	var dryRun bool
	var named string
	c := &cobra.Command{
		Use:   "destroy",
		Short: "End the whole cluster: a last backup, then every member is stopped and its data set aside",
		Long: `destroy ends the cluster that this machine is a host of. It takes a last backup, removes
every other member, upon which its host stops its etcd and sets the data aside, and then
resets this machine, which has the last member. Nothing is deleted. The agents of the other
hosts run on without an etcd: etcdadm reset --force on each of them takes them away.

It shows all this first, and asks for the cluster's name. Interrupted, it is run again and
goes on. What clients write after the last backup is in the data that is set aside.`,
		Example: `  etcdadm destroy --dry-run
  etcdadm destroy --yes-destroy etcd`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := someTime("--wait", o.Wait); err != nil {
				return err
			}
			return r.destroy(c, resetHost(c, p), o, dryRun, named)
		},
	}
	f := c.Flags()
	f.StringVar(&named, "yes-destroy", "", "the cluster's name, instead of the question")
	f.BoolVar(&o.NoBackup, "no-backup", false, "take no last backup")
	f.DurationVar(&o.Wait, "wait", removal.DefaultWait, "how long to wait for the backup, and for each member to be removed")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	r.outputFlag(c)
	rootFlag(c, &p)
	return c
}

func (r *reach) destroy(c *cobra.Command, h *removal.Host, o removal.Options, dryRun bool, named string) error {
	d, err := h.LookToDestroy(c.Context())
	if err != nil {
		return resetFailure(err)
	}
	if dryRun {
		if err := r.print(c.OutOrStdout(), d, func(w io.Writer) { printDestruction(w, d, !o.NoBackup) }); err != nil {
			return err
		}
	} else {
		printDestruction(c.ErrOrStderr(), d, !o.NoBackup)
	}
	if err := d.Refused(); err != nil {
		return resetFailure(fmt.Errorf("%w; nothing was changed", err))
	}
	switch {
	case dryRun:
		return nil
	case named != "" && named != d.Cluster:
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("this is cluster %s, and --yes-destroy names %s; nothing was changed", d.Cluster, named), Advice: "run it on a host of the cluster that is meant"}
	case named == "":
		if err := confirmName(c, "To destroy the cluster, type its name:", d.Cluster); err != nil {
			return err
		}
	}
	done, err := h.Destroy(c.Context(), d, o)
	if err != nil {
		return resetFailure(err)
	}
	return r.print(c.OutOrStdout(), done, func(w io.Writer) { printDestroyed(w, done) })
}

func printDestruction(w io.Writer, d removal.Destruction, backup bool) {
	fmt.Fprintf(w, "cluster %s would be destroyed in this order\n", d.Cluster)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tWHERE\tTHEN")
	if backup {
		fmt.Fprintln(t, "backup\tall of the cluster\tthe last one is taken")
	}
	for _, m := range d.Others {
		then := "removed; the host stops its etcd and sets the data aside"
		if !m.Up {
			then = "removed; it is down, and its host sets the data aside once it is back, if another host still runs"
		}
		fmt.Fprintf(t, "member\t%s on host %s\t%s\n", m.ID, m.Host, then)
	}
	t.Flush()
	fmt.Fprintln(w)
	last := d.Last
	last.Hindrance, last.Left = &removal.Hindrance{Kind: removal.LastMember}, nil
	printResetPlan(w, last, false)
}

func printDestroyed(w io.Writer, d removal.Destroyed) {
	fmt.Fprintf(w, "cluster %s is destroyed\n", d.Cluster)
	if d.Backup != "" {
		fmt.Fprintf(w, "the last backup is %s, in %s\n", d.Backup, d.At)
	}
	if len(d.Aside) > 0 {
		fmt.Fprintf(w, "set aside on this host: %s\n", strings.Join(d.Aside, " "))
	}
	for _, one := range d.Left {
		fmt.Fprintf(w, "left: %s\n  → there: %s\n", one.What, one.Command)
	}
}
