package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// config is what a person asks of the etcd options of a cluster.
type config struct {
	queue
	dryRun bool
}

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Set options of etcd for every member, and look at the agent's own settings",
		Long: `config changes etcd's options in the spec. The daemons restart one member after
the other, followers first, each only while every other member is up. A member
that does not start with the new options gets its former ones back, and the roll
stops. Write options as etcd's flags without dashes; each member gets them as its
own release spells them.

print and validate are about something else: the settings of this host's own agent.`,
	}
	change := func(use, short string, read func([]string) (optionChange, error)) *cobra.Command {
		var x config
		c := &cobra.Command{Use: use, Short: short, Args: words(cobra.MinimumNArgs(1)), RunE: func(c *cobra.Command, args []string) error {
			asked, err := read(args)
			if err != nil {
				return err
			}
			return x.change(c.Context(), asked, c.OutOrStdout())
		}}
		x.queueFlags(c)
		c.Flags().Lookup("wait").Usage = "wait so long until every member runs with them, and tell each step"
		c.Flags().BoolVar(&x.dryRun, "dry-run", false, "print what would change and which members would restart, and change nothing")
		return c
	}
	c.AddCommand(change("set OPTION=VALUE…", "Set options", readSet), change("unset OPTION…", "Go back to etcd's default", readUnset))
	var get, list config
	g := &cobra.Command{Use: "get [OPTION]", Short: "Print what is set", Args: words(cobra.MaximumNArgs(1)), RunE: func(c *cobra.Command, args []string) error {
		return get.get(c.Context(), first(args), c.OutOrStdout())
	}}
	get.readFlags(g)
	l := &cobra.Command{Use: "list", Short: "Print what can be set, and in which releases", Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error {
		return list.list(c.Context(), c.OutOrStdout())
	}}
	list.readFlags(l)
	c.AddCommand(g, l, configPrintCommand(), configValidateCommand())
	return c
}

// readFlags are those of commands that change nothing.
func (x *config) readFlags(c *cobra.Command) {
	x.queueFlags(c)
	if err := c.Flags().MarkHidden("wait"); err != nil {
		panic(err) // the flag was made the line above
	}
}

// optionChange is what is to be set and to be unset, by the options' names.
type optionChange struct {
	set   map[string]string
	unset []string
}

func readSet(args []string) (optionChange, error) {
	asked := optionChange{set: map[string]string{}}
	for _, a := range args {
		name, value, is := strings.Cut(a, "=")
		name = optionName(name)
		if _, twice := asked.set[name]; !is || name == "" || twice {
			return asked, usage("such as etcdadm config set quota-backend-bytes=8GiB", "%q is not OPTION=VALUE, or an option is given twice", name)
		}
		asked.set[name] = value
	}
	return asked, nil
}

func readUnset(args []string) (optionChange, error) {
	var asked optionChange
	for _, a := range args {
		if a == "" || strings.Contains(a, "=") {
			return asked, usage("such as etcdadm config unset quota-backend-bytes", "name options, without values")
		}
		asked.unset = append(asked.unset, optionName(a))
	}
	return asked, nil
}

// optionName is the name of the table for what a person writes, or what they
// wrote where the table has none.
func optionName(written string) string {
	name := strings.TrimLeft(written, "-")
	if o, found := cluster.FindOption(name); found {
		return o.Name
	}
	return name
}

// apply gives the options after the change. Both spellings of a name are one.
func (c optionChange) apply(now map[string]string) map[string]string {
	after := maps.Clone(now)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(c.set)), c.unset) {
		maps.DeleteFunc(after, func(written, _ string) bool { return optionName(written) == name })
	}
	maps.Copy(after, c.set)
	return after
}

func (x *config) change(ctx context.Context, asked optionChange, out io.Writer) error {
	o, err := x.look(ctx)
	if err != nil && (x.store == "" || x.dryRun || x.wait > 0) {
		return err
	}
	if o == nil && x.wait > 0 {
		return usage("--data-dir or --endpoint name a daemon", "only a daemon knows what the members run")
	}
	f, err := x.folder(ctx, o, readIf(x.dryRun))
	if err != nil {
		return err
	}
	spec, err := readSpec(ctx, f)
	if err != nil {
		return err
	}
	releases := releasesOf(spec, o)
	var p optionPlan
	amend := func(now map[string]string) (map[string]string, error) {
		after := asked.apply(now)
		if err := refuseOptions(asked, now, after, releases); err != nil {
			return nil, err
		}
		p = planOptions(now, after, o)
		return after, nil
	}
	if x.dryRun {
		if _, err := amend(orEmpty(spec.Options)); err != nil {
			return err
		}
		return x.print(out, p, p.table)
	}
	storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	after, err := f.Settings().AmendOptions(storeCtx, amend)
	if errors.Is(err, control.ErrConflict) {
		after, err = f.Settings().AmendOptions(storeCtx, amend)
	}
	if err != nil {
		return err
	}
	if err := x.print(out, p, p.table); err != nil || x.wait <= 0 {
		return err
	}
	return x.followOptions(ctx, after, out)
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// readSpec is the spec in the store, which options are part of.
func readSpec(ctx context.Context, f *control.Folder) (*cluster.Spec, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	read, err := f.ReadSpec(ctx)
	if err == nil && read.Spec == nil {
		err = &Failure{Code: ExitUnsafe, Err: errors.New("there is no spec in the store yet that options could be part of"), Advice: "etcdadm seed writes one"}
	}
	return read.Spec, err
}

// followOptions tells what the leader decides until every member runs with the
// options.
func (x *config) followOptions(ctx context.Context, options map[string]string, out io.Writer) error {
	return x.follow(ctx, out, func() string { return "not every member runs with these options" }, func(o *cluster.Observation, d *plan.Decision) told {
		if o.Spec == nil || !maps.Equal(o.Spec.Options, options) {
			return told{}
		}
		roster, seen := o.Roster()
		done := seen
		for _, s := range roster.Seats {
			done = done && s.Up && s.Host != nil && s.Host.Local.State == cluster.MemberStarted && !differs(s.Host, options)
		}
		if done {
			return told{done: true, why: "every member runs with them"}
		}
		for _, b := range d.Blockers {
			if b.Code == "options-refused" {
				return told{err: &Failure{Code: ExitError, Err: errors.New(b.Sentence.String()), Advice: b.Remedy()}}
			}
		}
		return told{why: d.Reason.String(), say: d.Rule == "converge-options"}
	})
}

// get prints what the spec asks for.
func (x *config) get(ctx context.Context, name string, out io.Writer) error {
	options, err := x.options(ctx)
	if err != nil {
		return err
	}
	if name != "" {
		name = optionName(name)
		maps.DeleteFunc(options, func(written, _ string) bool { return optionName(written) != name })
		if len(options) == 0 {
			return &Failure{Code: ExitError, Err: fmt.Errorf("%s is not set: etcd's default is in force", name), Advice: "etcdadm config list prints what can be set"}
		}
	}
	return x.print(out, options, func(w io.Writer) {
		for _, n := range slices.Sorted(maps.Keys(options)) {
			fmt.Fprintf(w, "%s=%s\n", n, options[n])
		}
	})
}

// options are those of the spec in the store.
func (x *config) options(ctx context.Context) (map[string]string, error) {
	f, _, err := x.storeFolder(ctx, toRead)
	if err != nil {
		return nil, err
	}
	spec, err := readSpec(ctx, f)
	if err != nil {
		return nil, err
	}
	return orEmpty(spec.Options), nil
}

// knownOption is a line of what can be set.
type knownOption struct {
	Name  string `json:"name"`
	Takes string `json:"takes"`
	In    string `json:"in"` // release lines of etcd
	Set   string `json:"set,omitempty"`
}

// list prints the options of the table, and what of them is set where a cluster
// is named.
func (x *config) list(ctx context.Context, out io.Writer) error {
	set := map[string]string{}
	if x.store != "" || x.dataDir != "" || len(x.endpoints) > 0 {
		options, err := x.options(ctx)
		if err != nil {
			return err
		}
		for name, value := range options {
			set[optionName(name)] = value
		}
	}
	var known []knownOption
	for _, o := range cluster.Options() {
		if o.Settable() {
			known = append(known, knownOption{o.Name, string(o.Kind), o.Lines(), set[o.Name]})
		}
	}
	return x.print(out, known, func(w io.Writer) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "OPTION\tTAKES\tIN ETCD\tSET")
		for _, k := range known {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Name, k.Takes, k.In, k.Set)
		}
		t.Flush()
	})
}
