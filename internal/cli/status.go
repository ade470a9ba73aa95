package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// statusJSON is a status for programs, which ask first whether anything has to be looked at.
type statusJSON struct {
	Healthy bool           `json:"healthy"`
	Health  console.Health `json:"health"`
	console.Report
}

func statusCommand() *cobra.Command {
	var r reach
	var watch bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show hosts, members, the leader and what is being done",
		Long: `status shows what the leading daemon sees of the cluster: its members, what is being
done, what blocks it and the command that helps, the newest backup and the queue.

It ends with 0 when the cluster is well, 14 when clients are served and something
needs a look (a voter is down or missing, an alarm is raised, a blocker waits for a
person), 15 when no quorum is up or clients are kept out, 11 when no leading daemon is
in reach and 10 when no daemon answers: "etcdadm exit-codes" lists all codes.

--watch shows it every second, with the last decisions, until q or Ctrl-C; where the
output is no terminal, a line for each decision.`,
		Example: `  etcdadm status
  etcdadm status --watch
  etcdadm status -o json --endpoint 192.0.2.1:8000 --cluster-name etcd --credentials ./operator`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return r.watch(c.Context(), os.Stdin, c.OutOrStdout())
			}
			report, err := r.status(c.Context())
			if err != nil {
				return err
			}
			if refused := r.refused(); refused != nil { // others of its cluster answer
				fmt.Fprintf(c.ErrOrStderr(), "! the daemon of this host does not run; it ended at %s: %s\n", refused.At.Format(time.RFC3339), refused.Why)
				if refused.Hint != "" {
					fmt.Fprintf(c.ErrOrStderr(), "  hint: %s\n", refused.Hint)
				}
			}
			err = r.print(c.OutOrStdout(), statusJSON{report.Healthy(), report.Health(), report}, func(w io.Writer) { printReport(w, r.pasteableReport(report)) })
			if code := healthCodes[report.Health()]; err == nil && code != ExitOK {
				return exitCode(code)
			}
			return err
		},
	}
	r.flags(c)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second, until q or Ctrl-C")
	return c
}

// pasteableReport is a report whose commands can be pasted.
func (r *reach) pasteableReport(report console.Report) console.Report {
	if report.Decision != nil {
		d := r.pasteable(*report.Decision)
		report.Decision = &d
	}
	report.Aside = slices.Clone(report.Aside)
	for i, a := range report.Aside {
		report.Aside[i].Undo, report.Aside[i].Command = r.again(a.Undo), r.again(a.Command)
	}
	return report
}

// healthCodes are the exit codes of status.
var healthCodes = map[console.Health]int{
	console.Well: ExitOK, console.Degraded: ExitDegraded, console.NoQuorum: ExitNoQuorum, console.Unknown: ExitNotLeader,
}

func planCommand() *cobra.Command {
	var r reach
	var from string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what would be done next, why, and what blocks it",
		Long: `plan prints the leading daemon's next decision and the command that a person would
type for it. With --from it decides on a saved observation, for example from
"etcdadm status -o json".`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := r.observation(c.Context(), from)
			if err != nil {
				return err
			}
			d := plan.Next(plan.Goal{Kind: plan.Converge}, o)
			return r.print(c.OutOrStdout(), d, func(w io.Writer) {
				printDecision(w, r.pasteable(d))
				printSteps(w, plan.Progress(o))
			})
		},
	}
	r.flags(c)
	c.Flags().StringVar(&from, "from", "", "file with an observation or a status as JSON, - for standard input")
	return c
}
