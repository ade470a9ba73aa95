package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
)

// Main is etcdadm. It returns the exit code.
func Main(args []string, program daemon.Program, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals()...)
	defer stop()
	root := &cobra.Command{
		Use:           "etcdadm",
		Short:         "Create, grow, shrink and repair etcd clusters",
		SilenceErrors: true,
		SilenceUsage:  true,
		Long: `etcdadm creates, grows, shrinks and repairs etcd clusters, one step at a time
or, with "auto", by itself.

Try it: "etcdadm playground" runs a cluster of three on this machine.`,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("see "+c.CommandPath()+" --help", "%w", err)
	})
	root.AddCommand(playgroundCommand(program), statusCommand(), planCommand(), memberCommand(), seedCommand(), autoCommand(program))
	err := root.ExecuteContext(ctx)
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if err != nil && strings.HasPrefix(err.Error(), "unknown command") {
		err = usage("see etcdadm --help", "%w", err)
	}
	return Report(stderr, "etcdadm", err)
}

// seedCommand writes the spec that begins a cluster, or changes it.
func seedCommand() *cobra.Command {
	var version string
	var nodes int
	var dryRun bool
	c := &cobra.Command{
		Use:   "seed STORE --version V --nodes N",
		Short: "Write into the store how many members and which etcd are wanted",
		Long: `seed writes the spec of a cluster into its backup store, where the leading
daemon finds it within seconds: how many members are wanted, and which version
of etcd. On a running cluster it changes the spec. The short form
"seed STORE version=3.6.16 nodes=3" does the same.`,
		Args: cobra.MinimumNArgs(1),
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
			return seed(c.Context(), c.OutOrStdout(), args[0], version, nodes, dryRun)
		},
	}
	c.Flags().StringVar(&version, "version", "", "etcd version wanted, such as 3.6.16")
	c.Flags().IntVar(&nodes, "nodes", 0, "number of members wanted")
	c.Flags().IntVar(&nodes, "member-count", 0, "the same as --nodes")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be written, and write nothing")
	return c
}

func seed(ctx context.Context, out io.Writer, url, version string, nodes int, dryRun bool) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	store, err := openForWords(ctx, url, !dryRun)
	if err != nil {
		return err
	}
	folder := control.New(store, "")
	read, err := folder.ReadSpec(ctx)
	if err != nil && !errors.Is(err, cluster.ErrSpec) && !errors.Is(err, control.ErrMalformed) {
		return fmt.Errorf("read the spec that is there: %w", err)
	}
	want := cluster.Spec{MemberCount: nodes}
	if read.Spec != nil {
		// What is not said stays as it is.
		want.EtcdVersion = read.Spec.EtcdVersion
		if nodes == 0 {
			want.MemberCount = read.Spec.MemberCount
		}
	}
	if version != "" {
		if want.EtcdVersion, err = cluster.ParseVersion(version); err != nil {
			return usage("such as --version 3.6.16", "%w", err)
		}
	}
	if err := want.Validate(); err != nil {
		return &Failure{Code: ExitUsage, Err: err}
	}
	if dryRun {
		fmt.Fprintf(out, "would ask for %d members of etcd %s\n", want.MemberCount, want.EtcdVersion)
		return nil
	}
	if err := folder.ConfigureCluster(ctx, want.MemberCount, want.EtcdVersion); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	if err := folder.Hold(ctx, false); err != nil { // who asks for a count means it
		return fmt.Errorf("lift the hold on the spec: %w", err)
	}
	fmt.Fprintf(out, "the cluster is to have %d members of etcd %s\n", want.MemberCount, want.EtcdVersion)
	return nil
}
