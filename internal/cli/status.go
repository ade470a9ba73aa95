package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/tables"
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
	var r queue
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
output is no terminal, a line for each decision.

With --store or --control-store no daemon is asked: it shows what the leading one wrote
there last, at every change and every five minutes. It ends with 11 where that is older
than 12 minutes, and with 10 where there is none.`,
		Example: `  etcdadm status
  etcdadm status --watch
  etcdadm status -o json --endpoint 192.0.2.1:8000 --cluster-name etcd --credentials ./operator
  etcdadm status --store s3://BUCKET/FOLDER`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if ofAStore(c) {
				if watch {
					return usage("leave it out; etcdadm status -o json --store URL may be run again and again", "--watch asks daemons, and --store and --control-store ask none")
				}
				return r.storeStatus(c)
			}
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
			return endedAs(report.Health(), err)
		},
	}
	r.flags(c)
	r.storeFlags(c.Flags())
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

// endedAs has a status that was printed end with the code of the cluster's health.
func endedAs(h console.Health, err error) error {
	if code := tables.ExitCodes[h]; err == nil && code != ExitOK {
		return exitCode(code)
	}
	return err
}

// toldJSON is a status from the store, for programs.
type toldJSON struct {
	Healthy bool           `json:"healthy"`
	Health  console.Health `json:"health"`
	Told    control.Status `json:"told"`
}

// ofAStore tells whether a person named a store; one in the environment is for those who ask a daemon.
func ofAStore(c *cobra.Command) bool {
	return c.Flags().Changed("store") || c.Flags().Changed("control-store")
}

// storeView is what the leading daemon wrote into the store.
func (q *queue) storeView(ctx context.Context) (tables.View, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	f, err := q.folder(ctx, nil, toRead)
	if err != nil {
		return tables.View{}, err
	}
	s, there, err := f.ReadStatus(ctx)
	if err == nil && !there {
		err = &Failure{Code: ExitNoCluster, Err: errors.New("no daemon has written a status into this store"), Advice: "is it the store of the cluster's record? A new cluster has a status once its daemons lead"}
	}
	return tables.View{Status: s, Now: time.Now()}, err
}

// storeStatus is status by what the leading daemon wrote into the store.
func (q *queue) storeStatus(c *cobra.Command) error {
	v, err := q.storeView(c.Context())
	if err != nil {
		return err
	}
	h := v.Health(v.Now)
	return endedAs(h, q.print(c.OutOrStdout(), toldJSON{h == console.Well, h, v.Status}, v.Print))
}

func planCommand() *cobra.Command {
	var r queue
	var from string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what would be done next, why, and what blocks it",
		Long: `plan prints the leading daemon's next decision and the command that a person would
type for it. With --from it decides on a saved observation, for example from
"etcdadm status -o json". With --store or --control-store no daemon is asked: it prints
the decision that the leading one wrote there last.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if ofAStore(c) && from == "" {
				v, err := r.storeView(c.Context())
				if err != nil {
					return err
				}
				return r.print(c.OutOrStdout(), v.Status, v.Plan)
			}
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
	r.storeFlags(c.Flags())
	c.Flags().StringVar(&from, "from", "", "file with an observation or a status as JSON, - for standard input")
	return c
}
