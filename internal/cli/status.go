package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/regular"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// askTimeout bounds a question to the daemons.
const askTimeout = 10 * time.Second

func (r *reach) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&r.dataDir, "data-dir", os.Getenv("ETCDADM_DATA_DIR"), "data directory of a daemon on this host, where the rest is read from ($ETCDADM_DATA_DIR)")
	f.StringSliceVar(&r.endpoints, "endpoint", nil, "host:port of daemons")
	alsoNamed(f, "endpoint", "endpoints")
	f.StringVar(&r.clusterName, "cluster-name", "", "name of the cluster, with --endpoint")
	f.StringVar(&r.credentials, "credentials", "", "directory with the operator's me.crt, me.key and ca.crt, with --endpoint; none: no TLS")
	r.outputFlag(c)
}

func (r *reach) outputFlag(c *cobra.Command) {
	c.PersistentFlags().StringVarP(&r.output, "output", "o", "table", "table, json or yaml")
}

func (r *reach) checkOutput() error {
	switch r.output {
	case "table", "json", "yaml":
		return nil
	}
	return usage("table, json or yaml", "--output=%s is unknown", r.output)
}

func (r *reach) open() (*console.Console, error) {
	if err := r.checkOutput(); err != nil {
		return nil, err
	}
	if len(r.endpoints) > 0 {
		if r.clusterName == "" {
			return nil, usage("a daemon answers only to its cluster's name", "--endpoint needs --cluster-name")
		}
		for _, e := range r.endpoints {
			if _, port, err := net.SplitHostPort(e); err != nil {
				return nil, usage("such as --endpoint=192.0.2.1:8000, by the daemons' --grpc-port", "--endpoint=%s is not host:port", e)
			} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return nil, usage("a port is a number from 1 to 65535", "--endpoint=%s has no port", e)
			}
		}
		c, err := console.Open(console.Access{Cluster: r.clusterName, Endpoints: r.endpoints, Credentials: r.credentials})
		if errors.Is(err, console.ErrOtherCluster) {
			return nil, usage("correct --cluster-name, or give the --credentials for that cluster", "%w", err)
		}
		return c, err
	}
	if r.dataDir == "" {
		return nil, usage("--data-dir names a daemon's data directory on this host, --endpoint a daemon anywhere", "say which cluster: --data-dir or --endpoint")
	}
	a, err := console.ReadAccess(r.dataDir)
	if errors.Is(err, fs.ErrPermission) {
		return nil, &Failure{Code: ExitError, Err: err, Advice: "run it as the daemon's user, which is mostly root; or give --endpoint, --cluster-name and --credentials of your own"}
	}
	if refused := console.ReadRefusal(r.dataDir); err != nil && refused != nil {
		return nil, refusedStart(refused, nil)
	}
	if err != nil {
		return nil, &Failure{Code: ExitNoCluster, Err: err, Advice: "is it the --data-dir of a daemon that has run?"}
	}
	refused := console.ReadRefusal(r.dataDir)
	if refused != nil && refused.Cluster != "" && refused.Cluster != a.Cluster {
		// Whose data lies there is not whom this host's daemon was started for: an image of
		// another cluster's machine. That cluster is not asked, much less told anything.
		return nil, refusedStart(refused, nil)
	}
	if err := r.otherDisk(a); err != nil {
		if refused != nil && refused.Cluster != "" && (r.clusterName == "" || r.clusterName == a.Cluster) {
			// A daemon was started for that very cluster here: the address is one that the
			// machine had, or has behind a NAT, and why it does not run is what counts.
			return nil, refusedStart(refused, nil)
		}
		return nil, err
	}
	return console.Open(a)
}

// refusedStart is the failure of a command on a host whose daemon did not start.
func refusedStart(r *console.Refusal, err error) error {
	told := fmt.Errorf("the daemon of this host does not run; it ended at %s: %s", r.At.Format(time.RFC3339), r.Why)
	if err != nil {
		told = fmt.Errorf("%w; %w", told, err)
	}
	return &Failure{Code: ExitNoCluster, Err: told, Advice: cmp.Or(r.Hint, "mend that, and start the daemon again")}
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
		return report, refusedStart(refused, err)
	}
	return report, err
}

// refused is why the daemon of the data directory that was named did not start last; nil:
// it did, or none was named.
func (r *reach) refused() *console.Refusal {
	if r.dataDir == "" || len(r.endpoints) > 0 {
		return nil
	}
	return console.ReadRefusal(r.dataDir)
}

// noCluster is the failure of a question that no daemon answered.
func noCluster[T any](v T, err error) (T, error) {
	if !errors.Is(err, console.ErrNoDaemon) && !errors.Is(err, peer.ErrUnreachable) {
		return v, err
	}
	advice := "is the daemon running? etcdadm auto starts one on a host; the log of one that ended says why"
	switch said := adviceIn(err); {
	case said != "": // one runs, and says what is wrong
		advice = said
	case errors.Is(err, peer.ErrMute):
		advice = "is the daemon stopped (state T in ps), or its disk full? Its log says what it waits for"
	case errors.Is(err, peer.ErrNotPlain):
		advice = "a daemon with TLS wants --credentials, or --data-dir on a host; etcd's own ports are not the daemons'"
	}
	return v, &Failure{Code: ExitNoCluster, Err: err, Advice: advice}
}

// adviceIn is the first that a daemon's answer came with, of all that were asked.
func adviceIn(err error) string {
	if said, ok := err.(*peer.Error); ok && said.Advice != "" { //nolint:errorlint // each of the errors that are joined is looked at
		return said.Advice
	}
	var within []error
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		within = e.Unwrap()
	case interface{ Unwrap() error }:
		within = []error{e.Unwrap()}
	}
	for _, err := range within {
		if said := adviceIn(err); said != "" {
			return said
		}
	}
	return ""
}

// print writes a value as the output flag says; table is what people read.
func (r *reach) print(w io.Writer, v any, table func(io.Writer)) error {
	switch r.output {
	case "json":
		return duration.WriteJSON(w, v)
	case "yaml":
		data, err := duration.JSON(v)
		if err != nil {
			return err
		}
		if data, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	table(w)
	return nil
}

// statusJSON is a status for programs, which ask first whether anything has to be looked at.
type statusJSON struct {
	Healthy bool `json:"healthy"`
	console.Report
}

func statusCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "status",
		Short: "Show hosts, members, the leader and what is being done",
		Args:  words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
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
			return r.print(c.OutOrStdout(), statusJSON{report.Healthy(), report}, func(w io.Writer) {
				if report.Decision != nil {
					d := r.pasteable(*report.Decision)
					report.Decision = &d
				}
				report.Aside = slices.Clone(report.Aside)
				for i, a := range report.Aside {
					report.Aside[i].Undo, report.Aside[i].Command = r.again(a.Undo), r.again(a.Command)
				}
				printReport(w, report)
			})
		},
	}
	r.flags(c)
	return c
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
			state = s.Why
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
