package cli

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// longestReason is how many characters a pause's reason may have: it stands in a line of
// status.
const longestReason = 120

func (r *reach) pauseCommand() *cobra.Command {
	var asked plan.PauseAsked
	var dryRun, yes bool
	var within time.Duration
	c := &cobra.Command{
		Use: "pause HOST --for TIME --reason REASON", Short: "Take a host down for a while without having its member replaced",
		Long: `pause tells the daemons that a host goes down on purpose: its voter is not replaced for
silence until the pause ends, after 24 hours at most; then --dead-after starts to count.
host resume ends the pause earlier. Nothing else changes: the voter still counts for the
quorum, and a learner is removed after 20 seconds of silence. The command prints how many
voters remain, asks if the cluster would not survive one more failure, and needs --force
if too few voters would remain to serve. A host that returns with an empty disk is
replaced at once, paused or not.`,
		Args: words(cobra.ExactArgs(1)),
		PreRunE: func(*cobra.Command, []string) error {
			if err := someTime("--timeout", within); err != nil {
				return err
			}
			return pauseMistake(&asked)
		},
		RunE: func(c *cobra.Command, args []string) error {
			asked.By = whoTypes()
			goal := plan.Goal{Kind: plan.Pause, Host: cluster.HostID(args[0]), Pause: &asked}
			if !dryRun && !yes {
				if err := r.askAboutPause(c, goal); err != nil {
					return err
				}
			}
			return r.takeQuietly(c, manager.GoalRequest{Goal: goal, DryRun: dryRun, Within: within})
		},
	}
	c.Flags().Var(dayDuration{&asked.For}, "for", "how long, such as 30m or 2h; 24h at most")
	c.Flags().StringVar(&asked.Reason, "reason", "", "what for; status shows it to others")
	c.Flags().BoolVar(&asked.Force, "force", false, "pause it also where too few voters would be left to serve")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	pauseFlags(c, &dryRun, &within)
	return c
}

func (r *reach) resumeCommand() *cobra.Command {
	var dryRun bool
	var within time.Duration
	c := &cobra.Command{
		Use: "resume HOST", Short: "End a host's pause before its time",
		Args:    words(cobra.ExactArgs(1)),
		PreRunE: func(*cobra.Command, []string) error { return someTime("--timeout", within) },
		RunE: func(c *cobra.Command, args []string) error {
			return r.takeQuietly(c, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Resume, Host: cluster.HostID(args[0])}, DryRun: dryRun, Within: within})
		},
	}
	pauseFlags(c, &dryRun, &within)
	return c
}

func pauseFlags(c *cobra.Command, dryRun *bool, within *time.Duration) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "print what would be done, and change nothing")
	c.Flags().DurationVar(within, "timeout", time.Minute, "how long to wait for the end")
}

// pauseMistake refuses what no daemon would take.
func pauseMistake(p *plan.PauseAsked) error {
	p.Reason = strings.TrimSpace(p.Reason)
	switch {
	case p.For <= 0:
		return usage("such as --for 30m", "say how long: --for")
	case p.For > cluster.MaxPause:
		return usage("pause it again before that is over", "--for=%s is longer than a pause may be, which is %s", tookWords(p.For), tookWords(cluster.MaxPause))
	case p.Reason == "":
		return usage(`such as --reason "new kernel"`, "say what for: --reason")
	case len([]rune(p.Reason)) > longestReason || strings.ContainsFunc(p.Reason, unicode.IsControl):
		return usage(fmt.Sprintf("one line of %d characters at most", longestReason), "--reason is too long, or has more than one line")
	}
	return nil
}

// whoTypes is who asks, as others may know them. It is told, and nothing hangs on it.
func whoTypes() string {
	name, host := "somebody", "somewhere"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// askAboutPause has the leading daemon say what would be left, and asks where that survives
// no further failure.
func (r *reach) askAboutPause(c *cobra.Command, goal plan.Goal) error {
	planned, err := r.carryOut(c.Context(), manager.GoalRequest{Goal: goal, DryRun: true, Within: askTimeout}, c.ErrOrStderr())
	if err != nil {
		return err
	}
	d := planned.Decision
	if d.Refused {
		return r.tell(c, planned)
	}
	fmt.Fprintln(c.ErrOrStderr(), d.Reason)
	p := (*cluster.Projection)(nil)
	if d.Action != nil {
		p = d.Action.Projection
	}
	if p == nil || p.Voters == 0 || p.MarginAfter() > 0 || p.UpAfter == p.Up && p.Margin() >= 0 {
		return nil
	}
	return confirm(c, fmt.Sprintf("Pause host %s?", goal.Host))
}

// takeQuietly hands over a step that is taken in a moment, and prints what became of it.
func (r *reach) takeQuietly(c *cobra.Command, request manager.GoalRequest) error {
	result, err := r.carryOut(c.Context(), request, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := r.print(c.OutOrStdout(), result, func(w io.Writer) {
		if result.Outcome == manager.GoalDone {
			fmt.Fprintln(w, result.Decision.Reason)
			return
		}
		r.printResult(w, result)
	}); err != nil {
		return err
	}
	return outcome(result)
}
