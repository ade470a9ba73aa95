package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/version"
	"github.com/spf13/cobra"
)

func versionCommand(program daemon.Program) *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use:   "version",
		Short: "Show which etcdadm this is, and which etcd is built in",
		Long: `version prints the release of this program, the commit and the Go that it was built
from, and the release of etcd that it carries. What the daemon of a host runs may be
another one: "etcdadm versions" and the column VERSION of "etcdadm status" tell that.`,
		Example: `  etcdadm version
  etcdadm version -o json`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			v := versionOf(program)
			return r.print(c.OutOrStdout(), v, func(w io.Writer) { printVersion(w, "etcdadm", v) })
		},
	}
	r.outputFlag(c)
	return c
}

// tellVersion gives a command tree --version.
func tellVersion(root *cobra.Command, program daemon.Program) {
	v := versionOf(program)
	root.Version = v.Release
	var text strings.Builder
	printVersion(&text, root.Name(), v)
	root.SetVersionTemplate(text.String())
}

// versionOf is what a program is made of.
func versionOf(program daemon.Program) version.Info {
	if program.Builtin == nil {
		return version.Of()
	}
	return version.Of(program.Builtin.Version)
}

func printVersion(w io.Writer, name string, v version.Info) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	commit := "not known to this build"
	if v.Commit != "" {
		commit = v.Commit
		var more []string
		if !v.CommitTime.IsZero() {
			more = append(more, "of "+v.CommitTime.UTC().Format("2006-01-02"))
		}
		if v.Modified {
			more = append(more, "with changes that are not committed")
		}
		if len(more) > 0 {
			commit += " (" + strings.Join(more, ", ") + ")"
		}
	}
	fmt.Fprintf(t, "%s\t%s\ncommit\t%s\ngo\t%s %s\n", name, v.Release, commit, strings.TrimPrefix(v.Go, "go"), v.Platform)
	if len(v.Etcd) > 0 {
		fmt.Fprintf(t, "etcd\t%s, built in\n", strings.Join(v.Etcd, ", "))
	}
	_ = t.Flush()
}

// askedVersion answers --version of the programs that take their flags as Go's package
// flag does, and says whether it did: it is asked for as help is, wherever it stands.
func askedVersion(name string, args []string, program daemon.Program, stdout io.Writer) bool {
	asked := slices.ContainsFunc(args, func(arg string) bool { return arg == "-version" || arg == "--version" })
	if asked {
		printVersion(stdout, name, versionOf(program))
	}
	return asked
}
