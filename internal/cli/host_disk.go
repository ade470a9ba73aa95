package cli

import (
	"context"
	"fmt"
	"io"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"github.com/spf13/cobra"
)

func (r *reach) confirmDiskCommand() *cobra.Command {
	var dryRun, yes bool
	c := &cobra.Command{
		Use: "confirm-disk [HOST]", Short: "Confirm that no older copy of a host's disk was put back",
		Long: `confirm-disk lets a host keep the cluster's record again after a restart at which no
other host could say that its disk is the newest. HOST defaults to the host of
--data-dir or of the first --endpoint. The command shows the risk, and asks. The
confirmation lasts until the agent restarts, or another host says that the disk is
behind. The command is refused where the disk is confirmed already, or is behind.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var id cluster.HostID
			if len(args) > 0 {
				id = cluster.HostID(args[0])
			}
			return r.confirmDisk(c, id, dryRun, yes)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the risk, and change nothing")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func (r *reach) confirmDisk(c *cobra.Command, id cluster.HostID, dryRun, yes bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
	defer cancel()
	conn, at, err := r.meant(ctx, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	risk, err := noCluster(conn.ConfirmDisk(ctx, at, false))
	if err != nil {
		return err
	}
	if risk.Refuse == "" && !dryRun {
		if r.output == "table" || !yes {
			printDiskRisk(c.ErrOrStderr(), risk)
		}
		if !yes {
			if err := confirm(c, "Confirm it?"); err != nil {
				return err
			}
		}
		doing, done := context.WithTimeout(c.Context(), askTimeout) // the question took its time
		defer done()
		same := cluster.Contact{Host: risk.Host, Endpoint: at.Endpoint}
		if risk, err = conn.ConfirmDisk(doing, same, true); err != nil {
			return err
		}
	}
	if risk.Refuse != "" {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused: host %s: %s", risk.Host, risk.Refuse)}
	}
	return r.print(c.OutOrStdout(), risk, func(w io.Writer) {
		if !risk.Done {
			printDiskRisk(w, risk)
			return
		}
		fmt.Fprintf(w, "host %s: disk confirmed until its agent restarts\n", risk.Host)
	})
}

// printDiskRisk says what a person gives up.
func printDiskRisk(w io.Writer, risk console.DiskConfirmation) {
	fmt.Fprintf(w, "The disk of host %s is not confirmed: "+
		"no host that remembers its last minutes has answered since its agent began.\n", risk.Host)
	if len(risk.Unheard) > 0 {
		fmt.Fprintf(w, "Hosts of other voters not heard: %s.\n", join(risk.Unheard))
	}
	fmt.Fprintln(w, "The risk: if an older copy of the disk was put back, "+
		"changes of the spec and the record that were confirmed since are lost.")
}
