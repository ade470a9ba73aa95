package cli

import (
	"flag"
	"os"
	"path/filepath"
	"slices"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/firstprocess"
	"github.com/spf13/cobra"
)

// podCommand runs the daemon in a container. It is a command of its own, and not what auto does as the first process: there
// auto and its etcd end together, which is what who wrote such a container file counts on.
func podCommand(program daemon.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "pod [STORE] [flags of auto]",
		Short: "Run the daemon as the first process of a container",
		Long: `pod is the first process of a container: it runs etcdadm auto with these arguments, starts it
again when it ends by itself, and reaps what has ended. etcd goes on meanwhile, and the next
daemon adopts it. SIGTERM ends the daemon and its etcd in order, whatever --on-sigterm says:
raft's leader is moved away first. SIGUSR1 has the daemon started anew. Where a flag is wrong
and nothing runs, pod ends with the daemon's exit code.`,
		Annotations:        map[string]string{endsWhole: "the daemon's end"}, // signals are passed on to it
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, asksHelp) {
				return c.Help()
			}
			known, cfg := flag.NewFlagSet("etcdadm pod", flag.ContinueOnError), daemon.Default()
			ManagerFlags(known, &cfg)
			if said := rawFlags(known, args)["log-format"]; len(said) > 0 {
				cfg.LogFormat = said[len(said)-1]
			}
			log, queue := openLog(cfg, c.ErrOrStderr())
			defer queue.Flush(logFlush)
			self, err := os.Executable()
			if err != nil {
				return err
			}
			code, err := firstprocess.Run(firstprocess.Options{
				Path: self, Args: slices.Concat([]string{filepath.Base(os.Args[0]), "auto"}, args),
				GivesUp: func(code int) bool { return code == ExitUsage }, Log: log,
			})
			if err == nil && code != ExitOK {
				err = exitCode(code)
			}
			return err
		},
	}
}
