package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// askTimeout bounds a question to the daemons.
const askTimeout = 10 * time.Second

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

func printReport(w io.Writer, r console.Report) {
	fmt.Fprintf(w, "cluster %s, its daemons led by host %s\n", r.Cluster, orNone(string(r.Leader)))
	if r.Observation == nil {
		if r.Unfit != "" {
			fmt.Fprintf(w, "host %s must not lead: %s\n", r.Host, r.Unfit)
		}
		fmt.Fprintf(w, "host %s does not lead and cannot reach the daemon that does; it knows of:\n", r.Host)
		for _, c := range r.Contacts {
			fmt.Fprintf(w, "  %s at %s\n", c.Host, c.Endpoint)
		}
		return
	}
	o := r.Observation
	if spec := o.Wanted(); spec != nil {
		hold := ""
		if spec.Hold {
			hold = fmt.Sprintf(" (on hold; etcdadm seed %s --nodes N, or configure-cluster, lifts it)", cluster.ShellWord(cmp.Or(o.Store.URL, "STORE")))
		}
		fmt.Fprintf(w, "wanted: %s of etcd %s%s\n", counted(spec.MemberCount, "member"), spec.EtcdVersion, hold)
	}
	fmt.Fprintln(w)
	printMembers(w, o, r.Now())
	if d := r.Decision; d != nil {
		fmt.Fprintf(w, "\n%s\n", d.Reason)
		printBlockers(w, *d)
	}
	printData(w, r)
}

func printMembers(w io.Writer, o *cluster.Observation, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tMEMBER\tROLE\tSTATE\tVERSION\tDB\tCLIENT URL")
	roster, _ := o.Roster()
	seen := map[cluster.HostID]bool{}
	type row struct {
		host cluster.HostID
		text string
	}
	var rows []row
	add := func(host cluster.HostID, format string, args ...any) {
		rows = append(rows, row{host, fmt.Sprintf(format, args...)})
	}
	for _, s := range roster.Seats {
		seen[s.HostID] = true
		role := "voter"
		switch {
		case s.Learner:
			role = "learner"
		case s.RaftLeader:
			role = "voter, raft leader"
		}
		state, version, size := "healthy", "", ""
		if !s.Up {
			state = s.State()
		}
		if s.Host != nil && s.Host.Status != nil {
			version, size = s.Host.Status.Version.String(), sizeWords(s.Host.Status.DBSize)
		}
		add(s.HostID, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", orNone(string(s.HostID)), s.ID, role, state, version, size, first(s.ClientURLs))
	}
	for _, h := range o.Hosts {
		if !seen[h.Host] {
			state := "free"
			if !h.Free() {
				state = "not free"
			}
			add(h.Host, "%s\t-\t-\t%s\t\t\t%s\n", h.Host, state, first(h.URLs.Client))
		}
	}
	for _, g := range o.Gaps {
		if g.Host != "" && !seen[g.Host] {
			add(g.Host, "%s\t-\t-\t%s: %s\t\t\t\n", g.Host, g.Kind, g.Detail)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.host, b.host) })
	for _, r := range rows {
		fmt.Fprint(t, r.text)
	}
	t.Flush()
	printPauses(w, o, now)
}

func printBlockers(w io.Writer, d plan.Decision) {
	for _, b := range d.Blockers {
		sentence := ""
		if b.Sentence.String() != d.Reason.String() {
			sentence = ": " + b.Sentence.String()
		}
		fmt.Fprintf(w, "  ! %s%s (docs/operations/%s.md)\n", b.Code, sentence, b.Code)
		if b.Advice != "" {
			fmt.Fprintf(w, "    %s\n", b.Advice)
		}
		if b.Command != "" {
			fmt.Fprintf(w, "    → %s\n", b.Command)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
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

// led is the leading daemon's report.
func (r *reach) led(ctx context.Context) (console.Report, error) {
	report, err := r.status(ctx)
	if err == nil && report.Observation == nil {
		err = &Failure{Code: ExitNotLeader, Err: fmt.Errorf("host %s does not lead, and the daemon that does is not in reach", report.Host)}
	}
	return report, err
}

// observation is the leader's newest, or the one in a file.
func (r *reach) observation(ctx context.Context, from string) (*cluster.Observation, error) {
	if from == "" {
		report, err := r.led(ctx)
		return report.Observation, err
	}
	if err := r.checkOutput(); err != nil {
		return nil, err
	}
	data, err := readInput(ctx, from)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the observation: %w", err)
	}
	if err != nil {
		return nil, usage("save one with etcdadm status -o json", "read the observation: %w", err)
	}
	return parseObservation(data, from)
}

// parseObservation reads an observation, or the one in a status.
func parseObservation(data []byte, from string) (*cluster.Observation, error) {
	var report struct {
		Observation *cluster.Observation `json:"observation"`
	}
	if err := duration.FromJSON(data, &report); err != nil {
		return nil, unreadObservation(from, err)
	}
	if report.Observation != nil {
		return report.Observation, nil
	}
	var o cluster.Observation
	if err := duration.FromJSON(data, &o); err != nil {
		return nil, unreadObservation(from, err)
	}
	if o.Cluster == "" {
		return nil, usage("save one with etcdadm status -o json", "%s holds no observation", from)
	}
	o.Sort()
	return &o, nil
}

func unreadObservation(from string, err error) error {
	hint := "save one with etcdadm status -o json"
	if newer, ok := errors.AsType[*cluster.NewerError](err); ok {
		hint = newer.Hint()
	}
	return usage(hint, "read the observation in %s: %w", from, err)
}

// maxInput bounds, in bytes, what is read of an observation: one of ours has a few kilobytes a host.
const maxInput = 64 << 20

// readInput reads a file, a pipe that the shell made, or standard input, which is - and
// may be a terminal.
func readInput(ctx context.Context, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, maxInput))
	}
	data, _, err := regular.ReadOrPipe(ctx, name, maxInput)
	return data, err
}

func printDecision(w io.Writer, d plan.Decision) {
	fmt.Fprintf(w, "%s  (rule %s)\n", d.Reason, d.Rule)
	if a := d.Action; a != nil {
		fmt.Fprintf(w, "  step: %s\n", a)
		if a.Projection != nil {
			fmt.Fprintf(w, "  voters: %s\n", a.Projection)
		}
		if a.Command != "" {
			fmt.Fprintf(w, "  command: %s\n", a.Command)
		}
	}
	printBlockers(w, d)
}

// status asks the daemons.
func (r *reach) status(ctx context.Context) (console.Report, error) {
	c, err := r.open()
	if err != nil {
		return console.Report{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	report, err := noCluster(c.Status(ctx))
	if refused := r.refused(); err != nil && refused != nil {
		told := &console.StartError{Refusal: *refused, Err: err}
		return report, &Failure{Code: ExitNoCluster, Err: told, Advice: told.Hint()}
	}
	return report, err
}
