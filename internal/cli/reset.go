package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

// resetCommand undoes what init and join did.
func resetCommand() *cobra.Command {
	var r reach
	var p setup.Paths
	var o removal.Options
	var dryRun, yes bool
	c := &cobra.Command{
		Use:   "reset",
		Short: "Take this machine out of its cluster, and undo what init or join did",
		Long: `reset removes this host's member from the cluster, stops the agent and its etcd, has the
other hosts forget this one, and takes away what init or join made here: the unit or the
static pod's manifest, the settings, the authorities, the file for etcdctl. The data
directory and the settings are set aside under names with the time; --purge deletes them
instead. It shows all this first, and asks. Interrupted at any moment, it is run again and
goes on.

It is refused where the cluster would lose its quorum or its last member, and where no
daemon of the cluster answers. --force resets this machine alone then, and says what stays
behind in the cluster and which command ends that on another host.`,
		Example: `  etcdadm reset --dry-run
  etcdadm reset --yes
  etcdadm reset --force --purge`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := someTime("--wait", o.Wait); err != nil {
				return err
			}
			return r.reset(c, resetHost(c, p), o, dryRun, yes)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.Force, "force", false, "go on also where the cluster cannot or must not let the member go")
	f.BoolVar(&o.Purge, "purge", false, "delete data, settings and keys instead of setting them aside")
	f.BoolVar(&o.NoBackup, "no-backup", false, "do not wait for a backup before the member is removed")
	formerReset(f, &o)
	f.DurationVar(&o.Wait, "wait", removal.DefaultWait, "how long to wait for the member to be removed")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be done, and change nothing")
	f.BoolVar(&yes, "yes", false, "do not ask")
	r.outputFlag(c)
	rootFlag(c, &p)
	return c
}

// resetHost is this machine, or a tree of files of a test, whose agent is not this machine's.
func resetHost(c *cobra.Command, p setup.Paths) *removal.Host {
	runner, _ := setup.RunnerOf(p)
	h := &removal.Host{Paths: p, Service: runner, Say: func(sentence string) { fmt.Fprintln(c.ErrOrStderr(), sentence) }}
	if p.Root != "/" {
		h.Service = removal.Nowhere{}
	}
	return h
}

func (r *reach) reset(c *cobra.Command, h *removal.Host, o removal.Options, dryRun, yes bool) error {
	p, err := h.Look(c.Context(), o)
	if err != nil {
		return resetFailure(err)
	}
	refused := p.Refused(o)
	switch {
	case dryRun:
		if err := r.print(c.OutOrStdout(), p, func(w io.Writer) { printResetPlan(w, p, o.Force) }); err != nil {
			return err
		}
	case !p.Nothing:
		printResetPlan(c.ErrOrStderr(), p, o.Force)
	}
	if refused != nil {
		return resetFailure(fmt.Errorf("%w; nothing was changed", refused))
	}
	if dryRun {
		return nil
	}
	if !yes && !p.Nothing {
		if err := confirm(c, resetQuestion(p)); err != nil {
			return err
		}
	}
	done, err := h.Reset(c.Context(), p, o)
	if err != nil {
		return resetFailure(err)
	}
	return r.print(c.OutOrStdout(), done, func(w io.Writer) { printReset(w, done) })
}

func resetQuestion(p removal.Plan) string {
	switch {
	case p.Host == "":
		return "Take away what is left here?"
	case p.Again:
		return fmt.Sprintf("Go on and reset host %s?", p.Host)
	}
	return fmt.Sprintf("Reset host %s?", p.Host)
}

// resetFailure gives an error of a reset its exit code.
func resetFailure(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, removal.ErrUnsafe), errors.Is(err, removal.ErrRuns):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: hintOf(err)}
	case errors.Is(err, removal.ErrUnreachable), errors.Is(err, setup.ErrNotSetUp):
		return &Failure{Code: ExitNoCluster, Err: err, Advice: hintOf(err)}
	}
	return err
}

// thingWords are what is taken away, for people.
var thingWords = map[setup.Kind]string{
	setup.KindData: "data directory", setup.KindSettings: "settings", setup.KindUnit: "unit", setup.KindPod: "static pod", setup.KindEtcdctl: "file for etcdctl",
	setup.KindAuthority: "authorities", removal.KindNote: "note", removal.KindHosts: "hosts file",
}

func printResetPlan(w io.Writer, p removal.Plan, force bool) {
	if p.Nothing {
		fmt.Fprintln(w, nothingToReset)
		return
	}
	if p.Host != "" {
		fmt.Fprintf(w, "host %s of cluster %s%s\n", p.Host, p.Cluster, map[bool]string{true: ", whose reset was interrupted"}[p.Again])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tWHERE\tTHEN")
	if m := p.Member; m != nil {
		fmt.Fprintf(t, "member\t%s\t%s\n", m.ID, memberThen(p))
	}
	if p.Host != "" {
		fmt.Fprintf(t, "agent and etcd\t%s\tstopped, and not started with the machine any more\n", p.Service)
	}
	for _, one := range grouped(p.Items) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", thingWords[one.Kind], one.Path, itemThen(one))
	}
	for _, one := range p.Stays {
		fmt.Fprintf(t, "\t%s\tstays: %s\n", one.Path, one.Why)
	}
	t.Flush()
	switch {
	case p.Hindrance == nil:
	case p.Hindrance.Kind == removal.Asked:
		fmt.Fprintf(w, "\n%s\n", p.Hindrance.Why)
		printLeft(w, p.Left)
	case force:
		fmt.Fprintf(w, "\nby force, though %s\n", p.Hindrance.Why)
		printLeft(w, p.Left)
	}
}

// grouped has the authorities as their directory, which is one thing to a person.
func grouped(items []removal.Item) (out []removal.Item) {
	for _, one := range items {
		if one.Kind == setup.KindAuthority {
			if one.Path = filepath.Dir(one.Path); one.To != "" {
				one.To = filepath.Dir(one.To)
			}
		}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

const nothingToReset = "nothing to reset: init or join left nothing on this machine"

func memberThen(p removal.Plan) string {
	m := p.Member
	switch {
	case p.Hindrance != nil && p.Hindrance.Kind == removal.LastMember:
		return "stopped: the cluster ends"
	case !p.Leaves():
		return "stopped, and not removed from the cluster"
	case m.Learner:
		return "removed from the cluster; it is a learner"
	}
	return fmt.Sprintf("removed from the cluster: %d of %d voters up, %s afterwards", m.Up, m.Voters, counted(m.Voters-1, "voter"))
}

func itemThen(one removal.Item) string {
	switch {
	case one.Kind == removal.KindHosts:
		return "the cluster's block is removed"
	case one.To == "" && one.Inside:
		return "emptied"
	case one.To == "":
		return "deleted"
	case one.Inside:
		return "what is in it is set aside: " + one.To
	}
	return "set aside: " + one.To
}

func printReset(w io.Writer, d removal.Done) {
	switch {
	case d.Nothing:
		fmt.Fprintln(w, nothingToReset)
		return
	case d.Host == "":
		fmt.Fprintln(w, "what was left here is taken away")
	case d.Removed:
		fmt.Fprintf(w, "host %s is out of cluster %s, and this machine can be set up anew\n", d.Host, d.Cluster)
	default:
		fmt.Fprintf(w, "this machine is reset, and cluster %s has not removed the member of host %s\n", d.Cluster, d.Host)
	}
	if len(d.Aside) > 0 {
		fmt.Fprintf(w, "set aside, with the keys of the cluster; delete it when nobody needs it: %s\n", strings.Join(d.Aside, " "))
	}
	printLeft(w, d.Left)
}

func printLeft(w io.Writer, left []removal.Left) {
	for _, one := range left {
		fmt.Fprintf(w, "left behind in the cluster: %s\n", one.What)
		if one.Command != "" {
			fmt.Fprintf(w, "  → on another host: %s\n", one.Command)
		}
	}
}
