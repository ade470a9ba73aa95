package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	root.AddCommand(playgroundCommand(program), statusCommand(), infoCommand(), supportBundleCommand(program), planCommand(), memberCommand(), restartCommand(), defragCommand(), alarmCommand(), autoManageCommand(), applyCommand(), hostCommand(), seedCommand(), autoCommand(program), podCommand(program), upgradeCommand(), configCommand(), downloadCommand(), versionsCommand(program), adoptCommand(program), pkiCommand(), versionCommand(program), exitCodesHelp())
	tellVersion(root, program)
	explain(root)
	complete(root)
	return root
}

// seedCommand writes the spec that begins a cluster, or changes it.
func seedCommand() *cobra.Command {
	var version string
	var nodes int
	var hosts []string
	var dryRun, yes, create bool
	var r reach
	c := &cobra.Command{
		Use:   "seed STORE --version V --nodes N",
		Short: "Write into the store how many members and which etcd are wanted",
		Long: `seed writes a cluster's spec (member count and etcd version) into its backup store,
where the leading daemon reads it within seconds. On a running cluster it shows what
the change does, and asks. The short form "seed STORE version=3.6.16 nodes=3" does
the same. With --hosts only those hosts may carry members: voters on other hosts are moved
to them, one at a time, the new one first. --hosts any lets every host carry one again.`,
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
			named, err := hostsNamed(hosts)
			if err != nil {
				return err
			}
			want, err := seed(c, args[0], version, seedWords{nodes, named, create, dryRun, yes})
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), want, func(w io.Writer) {
				verb := "spec saved:"
				if dryRun {
					verb = "would save:"
				}
				on := ""
				if len(want.Hosts) > 0 {
					on = " on " + namedHosts(want.Hosts)
				}
				fmt.Fprintf(w, "%s %s%s, etcd %s\n", verb, counted(want.MemberCount, "member"), on, want.EtcdVersion)
			})
		},
	}
	c.Flags().StringVar(&version, "version", "", "etcd version wanted, such as 3.6.16")
	c.Flags().IntVar(&nodes, "nodes", 0, "number of members wanted")
	c.Flags().IntVar(&nodes, "member-count", 0, "the same as --nodes")
	c.Flags().StringSliceVar(&hosts, "hosts", nil, "the hosts that are to carry members, by their IDs; any: every host may")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	c.Flags().BoolVar(&create, "create-store", false, "make the directory of a file:// store, or the ConfigMaps of a kubernetes:// one, that does not exist")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask before a running cluster is changed")
	r.outputFlag(c)
	return c
}

// seedExample names no version: who pastes it means the one that runs, mostly.
const seedExample = "such as etcdadm seed STORE --version VERSION --nodes 3, with a release that etcdadm versions lists"

// seedWords is what a person says of a spec beside its version.
type seedWords struct {
	nodes               int              // zero: as it is
	hosts               []cluster.HostID // nil: as they are; empty: any
	create, dryRun, yes bool
}

// hostsNamed reads --hosts; nil: it was not given.
func hostsNamed(said []string) ([]cluster.HostID, error) {
	if len(said) == 0 {
		return nil, nil
	}
	out := []cluster.HostID{}
	for _, h := range said {
		switch {
		case h == "any" && len(said) == 1:
			return out, nil
		case h == "any" || h == "":
			return nil, usage("such as --hosts a,b,c, or --hosts any", "--hosts names hosts, or any")
		}
		out = append(out, cluster.HostID(h))
	}
	slices.Sort(out)
	return out, nil
}

// seed writes the spec, and returns what is wanted.
func seed(c *cobra.Command, url, version string, words seedWords) (cluster.Spec, error) {
	var want cluster.Spec
	ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
	defer cancel()
	var err error
	if version != "" {
		if want.EtcdVersion, err = cluster.ParseVersion(version); err != nil {
			return want, usage(seedExample, "%w", err)
		}
	}
	want.MemberCount, want.Hosts = words.nodes, words.hosts
	// Only what would be enough for a new cluster, and holds, makes a store, and only
	// when asked to: a directory that is not there may be a share that is not mounted.
	whole := version != "" && words.nodes != 0
	if err := want.Validate(); whole && err != nil {
		return want, usage(seedExample, "%w", err)
	}
	what := toWrite
	switch {
	case words.dryRun:
		what = toRead
	case whole && words.create:
		what = toBegin
	}
	store, err := openForWords(ctx, url, what)
	if err != nil {
		if words.create { // which needs the whole of a spec
			return want, err
		}
		return want, notMounted(err)
	}
	said := control.Amend{MemberCount: words.nodes, EtcdVersion: want.EtcdVersion}
	folder := control.New(store, "")
	err = amending(c.ErrOrStderr(), func() error {
		want, err = seedIn(c, folder, url, said, words)
		return err
	})
	return want, err
}

// seedIn is seed once the store is open: it shows what changes, asks, and writes that if
// the spec still is the one that was shown.
func seedIn(c *cobra.Command, folder *control.Folder, url string, said control.Amend, words seedWords) (cluster.Spec, error) {
	ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
	defer cancel()
	want := cluster.Spec{MemberCount: words.nodes, EtcdVersion: said.EtcdVersion, Hosts: words.hosts}
	read, unusable := folder.ReadSpec(ctx)
	if unusable != nil && !specUnusable(unusable) {
		return want, fmt.Errorf("read the current spec: %w", unusable)
	}
	if read.Spec != nil { // what is not said stays as it is
		want.MemberCount = cmp.Or(words.nodes, read.Spec.MemberCount)
		want.Hold = read.Spec.Hold && words.nodes == 0 // who asks for a count means it
		if said.EtcdVersion.IsZero() {
			want.EtcdVersion = read.Spec.EtcdVersion
		}
		if words.hosts == nil {
			want.Hosts = read.Spec.Hosts
		}
	}
	if err := want.Validate(); err != nil {
		return want, usage(seedExample, "%w", err)
	}
	changes := false
	if now := runningIn(ctx, folder, read, unusable); now != nil {
		changes = now.describe(c.ErrOrStderr(), want, now.undo(url, want))
	}
	if words.dryRun {
		return want, nil
	}
	if changes && !words.yes {
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
	return want, writeSeed(ctx, c.ErrOrStderr(), folder, said, words, &want)
}

// writeSeed writes what was said. At no time are fewer hosts named than members wanted,
// since no daemon follows such a spec: more hosts come before the count, fewer after it.
func writeSeed(ctx context.Context, w io.Writer, folder *control.Folder, said control.Amend, words seedWords, want *cluster.Spec) error {
	fewer := said.Shown.Spec != nil && len(words.hosts) > 0 && len(words.hosts) < said.Shown.Spec.MemberCount
	if words.hosts != nil && !fewer {
		if err := folder.Settings().Name(ctx, words.hosts); err != nil {
			return changedMeanwhile(err)
		}
	}
	spec, warnings, err := folder.AmendSpec(ctx, said)
	if err != nil {
		return changedMeanwhile(err)
	}
	for _, s := range warnings {
		fmt.Fprintln(w, "warning:", s)
	}
	want.MemberCount, want.EtcdVersion = spec.MemberCount, spec.EtcdVersion
	if fewer {
		if err := folder.Settings().Name(ctx, words.hosts); err != nil {
			return changedMeanwhile(err)
		}
	}
	if words.nodes != 0 {
		if err := folder.Settings().Hold(ctx, false); err != nil {
			return fmt.Errorf("lift the hold on the spec: %w", err)
		}
	}
	return nil
}

// snapshotCommand is about a snapshot in a file, without a store.
func snapshotCommand(program daemon.Program) *cobra.Command {
	var r reach
	c := group("snapshot", "Save, make, look into and restore a snapshot in a file")
	r.outputFlag(c)
	c.AddCommand(saveCommand(&r), snapshotStatusCommand(&r), snapshotRestoreCommand(&r, program), snapshotExtractCommand(&r, program), dumpCommand())
	return c
}
