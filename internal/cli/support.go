package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/support"
	"github.com/spf13/cobra"
)

func supportBundleCommand(program daemon.Program) *cobra.Command {
	var r reach
	l := setup.Look{ShowURL: daemon.ShownURL}
	c := &cobra.Command{
		Use:   "support-bundle [FILE]",
		Short: "Put status, observation, logs and versions into one file for who helps",
		Long: `support-bundle writes a tar.gz with what this host and the leading daemon tell: status
and observation, the agent's settings, releases, the ends of etcd's and the agent's logs.
It holds no keys, passwords or tokens; it does hold names and addresses. What cannot be
had is named in its README.txt. Run it as root, best on the host in question; FILE must
not exist.`,
		Example: `  etcdadm support-bundle
  etcdadm support-bundle /tmp/etcd.tar.gz --data-dir /var/lib/etcdadm`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			now := time.Now()
			host, err := os.Hostname()
			if err != nil {
				host = "host"
			}
			path := cmp.Or(first(args), fmt.Sprintf("etcdadm-support-%s-%s.tar.gz", host, now.UTC().Format("20060102T150405Z")))
			l.DataDir = r.dataDir
			runner, _ := setup.RunnerOf(l.Paths)
			l.Service = runner
			s := support.Source{Look: l, Journal: runner.Journal, Build: versionOf(program), More: bundled(&r, l.Paths)}
			if s.Console, s.Unasked = r.open(); s.Unasked == nil {
				defer s.Console.Close()
			}
			made, err := s.Create(c.Context(), path, now)
			if errors.Is(err, fs.ErrExist) {
				return usage("name a file that does not exist", "%w", err)
			}
			if err != nil {
				return err
			}
			out := struct {
				File string `json:"file"`
				support.Made
			}{path, made}
			return r.print(c.OutOrStdout(), out, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s\n", path, counted(len(made.Files), "file"))
				for _, m := range made.Missing {
					fmt.Fprintf(w, "missing: %s: %s\n", m.Name, m.Why)
				}
				fmt.Fprintln(w, "look through it before you hand it on: it holds names and addresses of this cluster")
			})
		},
	}
	r.flags(c)
	rootFlag(c, &l.Paths)
	return c
}

// bundled are the parts that are made of what other commands print.
func bundled(r *reach, p setup.Paths) []support.Part {
	return []support.Part{
		{Name: "status.txt", Get: func(ctx context.Context) ([]byte, error) {
			report, err := r.status(ctx)
			if err != nil {
				return nil, err
			}
			var b bytes.Buffer
			printReport(&b, report)
			return b.Bytes(), nil
		}},
		{Name: "settings.json", Get: func(context.Context) ([]byte, error) {
			a := agentConfig{paths: p, all: true}
			a.output = "json"
			settings, err := a.read(nil)
			if err != nil {
				return nil, err
			}
			return duration.JSON(settings)
		}},
	}
}
