package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"etcdadm.io/internal/console"
	"github.com/spf13/cobra"
)

// storeCommand is about the place of the control record and the backups.
func storeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Show where the cluster's control record is kept, and move it",
		Long: `store is about the control record: what the daemons have to agree on, such as the spec,
the queue and who the voters are. It is kept in the backup store, or where there is none
by the hosts.`,
		Example: `  etcdadm store status
  etcdadm store set s3://BUCKET/FOLDER`,
		Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(storeStatusCommand(), storeSetCommand())
	return c
}

func storeStatusCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "status",
		Short: "Show where the control record is kept, by whom, and what each host sees of it",
		Long: `status shows whether a shared store or the hosts keep the control record, whether the
leading daemon reads it, and which hosts see another one. It changes nothing.

It ends with 0 when the record is read, all hosts that keep it were heard and none sees
another one; else with 14.`,
		Example: `  etcdadm store status
  etcdadm store status -o json`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			report, err := r.status(c.Context())
			if err != nil {
				return err
			}
			at := report.Whereabouts()
			if err := r.print(c.OutOrStdout(), at, func(w io.Writer) { printWhereabouts(w, at) }); err != nil {
				return err
			}
			switch {
			case at.In == "":
				return exitCode(ExitNotLeader)
			case !at.Well():
				return exitCode(ExitDegraded)
			}
			return nil
		},
	}
	r.flags(c)
	return c
}

func printWhereabouts(w io.Writer, at console.Whereabouts) {
	fmt.Fprintln(w, at)
	if at.Backups != "" {
		fmt.Fprintln(w, "the backups are kept in", at.Backups)
	}
	if at.Why != "" && at.In != "" {
		fmt.Fprintf(w, "! the leading daemon does not read it: %s\n", at.Why)
	}
	if len(at.Hosts) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer func() { _ = table.Flush() }()
	fmt.Fprintln(table, "\nHOST\tHEARD\tKEEPS IT\tSEES")
	for _, h := range at.Hosts {
		keeps, sees := yesWords(h.Keeps), "the same"
		if at.In == console.KeptInStore {
			keeps = "-"
		}
		switch {
		case h.Odd != "":
			sees = h.Odd
		case !h.Same:
			sees = "not known"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", h.Host, yesWords(h.Heard), keeps, sees)
	}
}
