package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
)

// Main is etcdadm. It returns the exit code.
func Main(args []string, program daemon.Program, stdout, stderr io.Writer) int {
	root := tree(program)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, stop := commandContext(root, args)
	defer stop()
	err := root.ExecuteContext(ctx)
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	return Report(stderr, "etcdadm", err)
}

// Commands is etcdadm's command tree, to be looked at and not to be run.
func Commands() *cobra.Command { return tree(daemon.Program{}) }

// tree is etcdadm with all its commands.
func tree(program daemon.Program) *cobra.Command {
	root := &cobra.Command{
		Use:           "etcdadm",
		Short:         "Create, grow, shrink and repair etcd clusters",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `etcdadm creates, grows, shrinks and repairs etcd clusters: one step at a time, or
continuously with "etcdadm auto".

Try it: "etcdadm playground" runs a cluster of three on this machine.`,
		Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: knownOutput,
	}
	root.AddCommand(restoreCommand(), recoverCommand(), queueCommand(), storeCommand(), backupCommand(program), snapshotCommand(program))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return flagMistake(c, err)
	})
	root.AddCommand(initCommand(program), joinCommand(program), resetCommand(), destroyCommand(), tokenCommand(), certsCommand(), kubeadmCommand())
	root.AddCommand(playgroundCommand(program), statusCommand(), infoCommand(), supportBundleCommand(program), planCommand(), memberCommand(), restartCommand(), defragCommand(), alarmCommand(), autoManageCommand(), applyCommand(), hostCommand(), seedCommand(), autoCommand(program), upgradeCommand(), configCommand(), downloadCommand(), versionsCommand(program), adoptCommand(program), pkiCommand(), versionCommand(program), exitCodesHelp())
	tellVersion(root, program)
	explain(root)
	complete(root)
	return root
}

// seedCommand writes the spec that begins a cluster, or changes it.
func seedCommand() *cobra.Command {
	var version string
	var nodes int
	var dryRun, yes, create bool
	var r reach
	c := &cobra.Command{
		Use:   "seed STORE --version V --nodes N",
		Short: "Write into the store how many members and which etcd are wanted",
		Long: `seed writes a cluster's spec (member count and etcd version) into its backup store,
where the leading daemon reads it within seconds. On a running cluster it shows what
the change does, and asks. The short form "seed STORE version=3.6.16 nodes=3" does
the same.`,
		Args: words(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			for _, word := range args[1:] {
				key, value, ok := strings.Cut(word, "=")
				var err error
				switch {
				case ok && key == "version":
					version = value
				case ok && key == "nodes":
					if nodes, err = strconv.Atoi(value); err != nil {
						return usage("such as nodes=3", "nodes=%s is no number", value)
					}
				default:
					return usage("such as etcdadm seed STORE version=3.6.16 nodes=3", "do not know what %q means", word)
				}
			}
			want, err := seed(c, args[0], version, nodes, create, dryRun, yes)
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), want, func(w io.Writer) {
				verb := "spec saved:"
				if dryRun {
					verb = "would save:"
				}
				fmt.Fprintf(w, "%s %s, etcd %s\n", verb, counted(want.MemberCount, "member"), want.EtcdVersion)
			})
		},
	}
	c.Flags().StringVar(&version, "version", "", "etcd version wanted, such as 3.6.16")
	c.Flags().IntVar(&nodes, "nodes", 0, "number of members wanted")
	c.Flags().IntVar(&nodes, "member-count", 0, "the same as --nodes")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	c.Flags().BoolVar(&create, "create-store", false, "make the directory of a file:// store that does not exist")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask before a running cluster is changed")
	r.outputFlag(c)
	return c
}

// seedExample names no version: who pastes it means the one that runs, mostly.
const seedExample = "such as etcdadm seed STORE --version VERSION --nodes 3, with a release that etcdadm versions lists"

// seed writes the spec, and returns what is wanted.
func seed(c *cobra.Command, url, version string, nodes int, create, dryRun, yes bool) (cluster.Spec, error) {
	var want cluster.Spec
	ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
	defer cancel()
	var err error
	if version != "" {
		if want.EtcdVersion, err = cluster.ParseVersion(version); err != nil {
			return want, usage(seedExample, "%w", err)
		}
	}
	want.MemberCount = nodes
	// Only what would be enough for a new cluster, and holds, makes a store, and only
	// when asked to: a directory that is not there may be a share that is not mounted.
	whole := version != "" && nodes != 0
	if err := want.Validate(); whole && err != nil {
		return want, usage(seedExample, "%w", err)
	}
	what := toWrite
	switch {
	case dryRun:
		what = toRead
	case whole && create:
		what = toBegin
	}
	store, err := openForWords(ctx, url, what)
	if err != nil {
		if create { // which needs the whole of a spec
			return want, err
		}
		return want, notMounted(err)
	}
	said := control.Amend{MemberCount: nodes, EtcdVersion: want.EtcdVersion}
	folder := control.New(store, "")
	err = amending(c.ErrOrStderr(), func() error {
		want, err = seedIn(c, folder, url, said, dryRun, yes)
		return err
	})
	return want, err
}

// seedIn is seed once the store is open: it shows what changes, asks, and writes that if
// the spec still is the one that was shown.
func seedIn(c *cobra.Command, folder *control.Folder, url string, said control.Amend, dryRun, yes bool) (cluster.Spec, error) {
	ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
	defer cancel()
	nodes := said.MemberCount
	want := cluster.Spec{MemberCount: nodes, EtcdVersion: said.EtcdVersion}
	read, unusable := folder.ReadSpec(ctx)
	if unusable != nil && !specUnusable(unusable) {
		return want, fmt.Errorf("read the current spec: %w", unusable)
	}
	if read.Spec != nil { // what is not said stays as it is
		want.MemberCount = cmp.Or(nodes, read.Spec.MemberCount)
		want.Hold = read.Spec.Hold && nodes == 0 // who asks for a count means it
		if said.EtcdVersion.IsZero() {
			want.EtcdVersion = read.Spec.EtcdVersion
		}
	}
	if err := want.Validate(); err != nil {
		return want, usage(seedExample, "%w", err)
	}
	changes := false
	if now := runningIn(ctx, folder, read, unusable); now != nil {
		changes = now.describe(c.ErrOrStderr(), want, fmt.Sprintf("etcdadm seed %s --version %s --nodes %d", cluster.ShellWord(daemon.ShownURL(url)), now.spec.EtcdVersion, now.spec.MemberCount))
	}
	if dryRun {
		return want, nil
	}
	if changes && !yes {
		if err := confirm(c, "Change the running cluster?"); err != nil {
			return want, err
		}
		writing, done := context.WithTimeout(c.Context(), storeTimeout) // the question took its time
		defer done()
		ctx = writing
		if err := stillShown(ctx, folder, read, unusable); err != nil {
			return want, err
		}
	}
	said.Shown = &read
	spec, warnings, err := folder.AmendSpec(ctx, said)
	if err != nil {
		return want, changedMeanwhile(err)
	}
	for _, w := range warnings {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
	}
	want.MemberCount, want.EtcdVersion = spec.MemberCount, spec.EtcdVersion
	if nodes != 0 {
		if err := folder.Hold(ctx, false); err != nil {
			return want, fmt.Errorf("lift the hold on the spec: %w", err)
		}
	}
	return want, nil
}

// snapshotCommand is about a snapshot in a file, without a store.
func snapshotCommand(program daemon.Program) *cobra.Command {
	var r reach
	c := group("snapshot", "Save, look into and restore a snapshot in a file")
	r.outputFlag(c)
	c.AddCommand(saveCommand(&r), snapshotStatusCommand(&r), snapshotRestoreCommand(&r, program), dumpCommand())
	return c
}
