package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
	"github.com/spf13/cobra"
)

// restart is a person's restart of one member after the other.
type restart struct {
	reach
	reason      string
	dryRun, yes bool
	each        time.Duration
}

func restartCommand() *cobra.Command {
	var r restart
	c := &cobra.Command{
		Use:   "restart [HOST…] --reason TEXT",
		Short: "Restart the etcd of each host, one after the other",
		Long: `restart restarts the members of the hosts that are named, or all members, with the
settings that their hosts have now. One member after the other: raft's leader last, each
only while every other voter is up, and the next one once it is up again. It ends with
the first that is refused or does not come back; run it again for the others.

With one or two voters clients are not served while a member restarts.`,
		Example: `  etcdadm restart --reason "new certificates of the load balancer" --dry-run
  etcdadm restart HOST --reason "memory"`,
		PreRunE: func(*cobra.Command, []string) error { return someTime("--timeout", r.each) },
		RunE: func(c *cobra.Command, args []string) error {
			if r.reason = strings.TrimSpace(r.reason); r.reason == "" || strings.ContainsAny(r.reason, "\n\r") {
				return usage("such as --reason \"memory\"; status and the log show it", "say in a line what it is for: --reason")
			}
			return r.run(c, args)
		},
	}
	r.flags(c)
	c.Flags().StringVar(&r.reason, "reason", "", "what for; the log of the leading daemon and of the hosts has it")
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "print the order and what would be done first for each, and restart nothing")
	c.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&r.each, "timeout", 2*time.Minute, "how long to wait for each member")
	return c
}

func (r *restart) run(c *cobra.Command, args []string) error {
	o, err := r.observation(c.Context(), "")
	if err != nil {
		return err
	}
	var named []cluster.HostID
	for _, a := range args {
		named = append(named, cluster.HostID(a))
	}
	hosts, err := console.RestartOrder(o, named)
	if err != nil {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("nothing was restarted: %w", err), Advice: "etcdadm member list has the members and their hosts"}
	}
	say := c.ErrOrStderr()
	if !r.dryRun && !r.yes {
		if err := confirm(c, restartQuestion(o, hosts)); err != nil {
			return err
		}
	}
	all, failed := console.Roll(c.Context(), hosts, func(ctx context.Context, host cluster.HostID) (manager.GoalResult, error) {
		if !r.dryRun {
			fmt.Fprintf(say, "host %s: waiting %s at most\n", host, r.each)
		}
		asked := time.Now()
		result, err := r.carryOut(ctx, manager.GoalRequest{Goal: console.RestartGoal(host, r.reason), DryRun: r.dryRun, Within: r.each}, say)
		if err == nil && result.Outcome == manager.GoalDone {
			fmt.Fprintf(say, "host %s: restarted in %s\n", host, tookWords(time.Since(asked)))
		}
		return result, err
	})
	if all == nil {
		all = []console.Rolled{}
	}
	if err := r.print(c.OutOrStdout(), all, func(w io.Writer) { r.table(w, all) }); err != nil {
		return err
	}
	return r.ended(hosts, all, failed)
}

// restartQuestion names who is restarted, and what clients notice.
func restartQuestion(o *cluster.Observation, hosts []cluster.HostID) string {
	price := ""
	roster, _ := o.Roster()
	if voters, _ := roster.Count(); voters < 3 {
		price = fmt.Sprintf("The cluster has %s: clients are not served while one restarts.\n", counted(voters, "voter"))
	}
	if len(hosts) == 1 {
		return price + "Restart the member of host " + string(hosts[0]) + "?"
	}
	return price + "Restart the members of " + join(hosts) + ", one after the other?"
}

func (r *restart) table(w io.Writer, all []console.Rolled) {
	for _, one := range all {
		fmt.Fprintf(w, "host %s: %s\n", one.Host, one.Result.Decision.Reason)
		if one.Result.Outcome != manager.GoalDone {
			printBlockers(w, r.pasteable(one.Result.Decision))
		}
	}
}

// ended is how the whole came out; an error names who was not restarted.
func (r *restart) ended(hosts []cluster.HostID, all []console.Rolled, failed error) error {
	err := failed
	for _, one := range all { // of a dry run any may be refused, else the last one
		if err == nil {
			err = outcome(one.Result)
		}
	}
	if err == nil || r.dryRun {
		return err
	}
	restarted := 0
	for _, one := range all {
		if one.Result.Outcome == manager.GoalDone {
			restarted++
		}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	code := ExitError
	if f, ok := errors.AsType[*Failure](err); ok {
		code = f.Code
	}
	return &Failure{Code: code, Err: fmt.Errorf("%d of %s restarted: %w", restarted, counted(len(hosts), "member"), err),
		Advice: "etcdadm status says how the cluster is; for those that are left: " + r.again("etcdadm restart "+strings.ReplaceAll(join(hosts[restarted:]), ", ", " ")+" --reason "+cluster.ShellWord(r.reason))}
}
