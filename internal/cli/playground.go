package cli

import (
	"os"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/playground"
	"etcdadm.io/internal/release"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func playgroundCommand(program daemon.Program) *cobra.Command {
	o := playground.Options{}
	var version, output string
	var releaseDirs []string
	c := &cobra.Command{
		Use:   "playground",
		Short: "Run a whole cluster on this machine, to watch and to hurt",
		Long: `playground runs three daemons on 127.0.0.1, .2 and .3, each its own process as on
three machines, with TLS and a backup store in a directory, and shows every decision
with its reason. Ctrl-C stops everything it started. With --dir the cluster survives
until the next start.`,
		Args: words(cobra.NoArgs),
		// Cut short, it would leave etcds behind: daemons that are told to end twice leave theirs.
		Annotations: map[string]string{endsWhole: "its daemons and their etcds"},
		RunE: func(c *cobra.Command, _ []string) error {
			if version == "" {
				version = program.Builtin.Version
			}
			var err error
			if o.Version, err = cluster.ParseVersion(version); err != nil {
				return usage("such as --etcd-version 3.6.16", "%w", err)
			}
			if err := (cluster.Spec{MemberCount: o.Members, EtcdVersion: o.Version}).Validate(); err != nil {
				return usage("see etcdadm playground --help", "%w", err)
			}
			switch output {
			case "json":
				o.View = playground.NewJSON(c.OutOrStdout())
			case "text":
				o.View = playground.NewScreen(c.OutOrStdout(), terminalSize())
			default:
				return usage("text or json", "--output=%s is unknown", output)
			}
			o.Path, o.Args, o.Shown = program.Builtin.Path, []string{"auto"}, playground.ShownName()
			dirs := release.Dirs(os.Getenv(release.Env), releaseDirs)
			o.Releases = &release.Finder{Dirs: dirs, Builtin: program.Builtin}
			o.Asked = c.Flags().Changed("members") || c.Flags().Changed("etcd-version")
			return playground.Run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Members, "members", 3, "how many members")
	f.StringVar(&version, "etcd-version", "", "etcd version; the default is the built-in one")
	f.StringVar(&o.Dir, "dir", "", "directory of the whole playground; the default is a temporary one")
	f.IntVar(&o.BasePort, "base-port", 2379, "first of the five ports of each host")
	f.BoolVar(&o.Insecure, "insecure", false, "no TLS")
	f.BoolVar(&o.Keep, "keep", false, "leave the temporary directory behind")
	f.StringSliceVar(&releaseDirs, "release-dir", nil, "directories with further etcd releases ($ETCDADM_RELEASES)")
	f.StringVarP(&output, "output", "o", "text", "text, or json with one object a line")
	return c
}

// terminalSize is nil when standard output is no terminal.
func terminalSize() func() (int, int) {
	fd := int(os.Stdout.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func() (int, int) {
		w, h, err := term.GetSize(fd)
		if err != nil || w <= 0 || h <= 0 {
			return 80, 24
		}
		return w, h
	}
}
