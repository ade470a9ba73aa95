package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"github.com/spf13/cobra"
)

// hostCommand is a person's ways out of what hosts remember.
func hostCommand() *cobra.Command {
	var r reach
	c := group("host", "Pause a host for its maintenance, forget one that is gone, remove what it set aside, "+
		"confirm its disk, or reset a damaged promise")
	r.flags(c)
	c.AddCommand(r.pauseCommand(), r.resumeCommand(), r.forgetCommand(), r.pruneCommand(),
		r.confirmDiskCommand(), r.resetFenceCommand())
	return c
}

func (r *reach) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "forget HOST", Short: "Forget an unreachable host that is gone for good and carries no member",
		Long: `forget makes every reachable daemon forget a host that was wiped, replaced or
removed, and deletes the host's announcement from the store. It is refused while the
host's daemon answers, or while a member or the spec names the host. Without it the
daemons forget a host after 24 hours of silence.`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			told, err := r.forget(c.Context(), cluster.HostID(args[0]))
			if err != nil {
				return err
			}
			if err := r.print(c.OutOrStdout(), told, func(w io.Writer) { printForgot(w, told) }); err != nil {
				return err
			}
			knew := false
			for _, f := range told {
				if f.Refuse != "" {
					return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused by host %s: %s", f.By, f.Refuse)}
				}
				knew = knew || f.Knew
			}
			if !knew { // a mistyped name must not look like one that is forgotten
				return &Failure{Code: ExitError, Err: fmt.Errorf("no reachable daemon knows host %s; nothing was changed", args[0]), Advice: "etcdadm status lists the hosts"}
			}
			return nil
		},
	}
}

// forget asks the leading daemon first, which knows best what counts on the
// host, and then every other one that it has heard from.
func (r *reach) forget(ctx context.Context, id cluster.HostID) ([]console.Forgot, error) {
	report, err := r.status(ctx)
	if err != nil {
		return nil, err
	}
	c, err := r.open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var told []console.Forgot
	var failed []error
	for _, first := range []bool{true, false} {
		for _, at := range report.Contacts {
			if at.Host == id || (at.Host == report.Host) != first {
				continue
			}
			f, err := c.Forget(ctx, at, id)
			switch {
			case err == nil:
				told = append(told, f)
			case errors.Is(err, peer.ErrRole):
				return nil, err // they all say the same
			case seen(report.Observation, at.Host):
				failed = append(failed, err)
			}
			if first && f.Refuse != "" {
				return told, nil
			}
		}
	}
	if len(failed) > 0 {
		return nil, &Failure{Code: ExitError, Err: fmt.Errorf("not every daemon was told: %w", errors.Join(failed...)), Advice: "run it again; daemons that already forgot the host do nothing"}
	}
	return told, nil
}

func seen(o *cluster.Observation, id cluster.HostID) bool {
	if o == nil {
		return true
	}
	_, ok := o.Host(id)
	return ok
}

func printForgot(w io.Writer, told []console.Forgot) {
	var by []string
	for _, f := range told {
		if f.Refuse == "" && f.Knew {
			by = append(by, string(f.By))
		}
	}
	if len(by) > 0 {
		fmt.Fprintf(w, "host %s is forgotten by %s\n", told[0].Host, strings.Join(by, ", "))
	}
}

func (r *reach) resetFenceCommand() *cobra.Command {
	var dryRun, yes bool
	c := &cobra.Command{
		Use: "reset-fence [HOST]", Short: "Reset a fence that no leader can reach",
		Long: `reset-fence lowers the fence of a host whose damaged state makes it refuse every
leader. HOST defaults to the host of --data-dir or of the first --endpoint. It shows
what is given up, and asks. It is refused where a leader can raise its own fence
above the host's.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var id cluster.HostID
			if len(args) > 0 {
				id = cluster.HostID(args[0])
			}
			return r.resetFence(c, id, dryRun, yes)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be given up, and change nothing")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// meant is the connection, and where the daemon of a host is reached; without a
// host it is the one that the flags name. The caller closes the connection.
func (r *reach) meant(ctx context.Context, id cluster.HostID) (*console.Console, cluster.Contact, error) {
	conn, err := r.open()
	if err != nil {
		return nil, cluster.Contact{}, err
	}
	if id == "" {
		return conn, cluster.Contact{Endpoint: first(conn.Access().Endpoints)}, nil
	}
	at, err := r.contact(ctx, conn, id)
	if err != nil {
		conn.Close()
		return nil, cluster.Contact{}, err
	}
	return conn, at, nil
}

func (r *reach) resetFence(c *cobra.Command, id cluster.HostID, dryRun, yes bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
	defer cancel()
	conn, at, err := r.meant(ctx, id)
	if err != nil {
		return err
	}
	defer conn.Close()
	reset, err := noCluster(conn.ResetFence(ctx, at, false))
	if err != nil {
		return err
	}
	if reset.Refuse == "" && !dryRun {
		if r.output == "table" || !yes {
			printFencePrice(c.ErrOrStderr(), reset)
		}
		if !yes {
			if err := confirm(c, "Reset it?"); err != nil {
				return err
			}
		}
		doing, done := context.WithTimeout(c.Context(), askTimeout) // the question took its time
		defer done()
		if reset, err = conn.ResetFence(doing, cluster.Contact{Host: reset.Host, Endpoint: at.Endpoint}, true); err != nil {
			return err
		}
	}
	if reset.Refuse != "" {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("refused: host %s: %s", reset.Host, reset.Refuse)}
	}
	return r.print(c.OutOrStdout(), reset, func(w io.Writer) {
		if !reset.Done {
			printFencePrice(w, reset)
			return
		}
		fmt.Fprintf(w, "host %s promised %s and now %s\n", reset.Host, reset.Was, reset.To)
	})
}

// contact is where a host's daemon is, by what any daemon knows.
func (r *reach) contact(ctx context.Context, c *console.Console, id cluster.HostID) (cluster.Contact, error) {
	report, err := noCluster(c.Status(ctx))
	if err != nil {
		return cluster.Contact{}, err
	}
	for _, at := range report.Contacts {
		if at.Host == id {
			return at, nil
		}
	}
	return cluster.Contact{}, &Failure{Code: ExitNoCluster, Err: fmt.Errorf("no daemon knows where host %s is", id), Advice: "run it on that host, with its --data-dir"}
}

func printFencePrice(w io.Writer, r console.FenceReset) {
	fmt.Fprintf(w, "Host %s refuses every leader: its fence %s is out of reach.\n", r.Host, r.Was)
	fmt.Fprintf(w, "It would be reset to %s, the highest that is known of the other hosts (%s).\n", r.To, orNone(join(r.Heard)))
	fmt.Fprintln(w, "The risk: until a newer leader observes it, this host may obey an older one.")
	if len(r.Unheard) > 0 {
		fmt.Fprintf(w, "Unreachable, and perhaps bound to a higher fence: %s.\n", join(r.Unheard))
	}
}
