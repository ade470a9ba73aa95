package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/cores"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/logqueue"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/version"
	"github.com/spf13/cobra"
)

// Program describes the program that we are in: the etcd that it carries, and
// how to start it.
func Program(etcdVersion string, etcd, etcdutl func() (string, []string)) daemon.Program {
	path, args := etcd()
	_, utl := etcdutl() // the same program
	return daemon.Program{Build: version.Release, Builtin: &release.Builtin{Version: etcdVersion, Path: path, Args: args, UtlArgs: utl}}
}

// ManagerMain is etcd-manager. It returns the exit code.
func ManagerMain(args []string, program daemon.Program, stdout, stderr io.Writer) int {
	if askedVersion("etcd-manager", args, program, stdout) {
		return ExitOK
	}
	return runDaemon("etcd-manager", args, nil, program, stdout, stderr)
}

// runDaemon runs a daemon by its flags, and by env where they are not given; nil: by flags alone.
func runDaemon(name string, args, env []string, program daemon.Program, stdout, stderr io.Writer) int {
	cfg, warnings, err := ParseManager(args, env)
	if errors.Is(err, flag.ErrHelp) {
		c := daemon.Default()
		fs := flag.NewFlagSet(name, flag.ContinueOnError)
		ManagerFlags(fs, &c)
		fs.SetOutput(stdout)
		fmt.Fprintf(stdout, "%s runs and supervises one member of an etcd cluster on this host.\n\nFlags:\n", name)
		fs.PrintDefaults()
		return ExitOK
	}
	if err != nil {
		Report(stderr, name, err)
		_ = daemon.KeepRefusal(cfg, err) // it is said already, and there is no log
		return ExitUsage
	}
	log, queue := openLog(cfg, stderr)
	defer queue.Flush(logFlush)
	program.LogDropped = queue.Dropped
	if cfg.EtcdLog == daemon.EtcdLogStdout {
		lines := logqueue.New(stdout, func(lines uint64, _ time.Duration) []byte {
			return fmt.Appendf(nil, "%d lines of etcd's log were not copied, since what reads them did not keep up\n", lines)
		})
		defer lines.Flush(logFlush)
		program.EtcdLog = lines
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	ctx, stop := daemonContext(cfg.OnSigterm)
	defer stop()
	cores.KeepToOne()
	if err := daemon.Run(ctx, cfg, program, log); err != nil && ctx.Err() == nil {
		return Report(queue, name, err)
	}
	return ExitOK
}

// autoCommand is the daemon under its new name.
func autoCommand(program daemon.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "auto [STORE] [flags of etcd-manager]",
		Short: "Run the daemon that forms and keeps a cluster",
		Long: `auto runs the daemon (the agent) of this host: it forms the cluster with the daemons of
the other hosts, runs one etcd member and keeps it running. It is etcd-manager
--backup-store=STORE, and takes its flags, each also from the environment, such as
ETCDADM_GRPC_PORT for --grpc-port, or from the file of --env-file. SIGUSR1 ends it and
leaves etcd running.`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, asksHelp) {
				runDaemon("etcdadm auto STORE", []string{"--help"}, nil, program, c.OutOrStdout(), c.ErrOrStderr())
				fmt.Fprintf(c.OutOrStdout(), "\nEach flag can also be given in the environment, as %s for --foo-bar; a flag goes before it.\n", envfile.OfFlag("foo-bar"))
				return nil
			}
			known, cfg := flag.NewFlagSet("etcdadm auto", flag.ContinueOnError), daemon.Default()
			ManagerFlags(known, &cfg)
			env, err := withEnvFile(os.Environ(), rawFlags(known, args)["env-file"])
			if err != nil {
				return err
			}
			flags := args
			switch {
			case len(args) > 0 && !strings.HasPrefix(args[0], "-"):
				flags = append([]string{"--backup-store=" + args[0]}, args[1:]...)
			case valueIn(env, envfile.OfFlag("backup-store")) == "" && valueIn(env, envfile.OfFlag("control-store")) == "" && len(rawFlags(known, args)["control-store"]) == 0:
				return usage("such as etcdadm auto file:///var/backups/etcd --cluster-name=etcd --data-dir=/var/lib/etcdadm; see etcdadm auto --help", "etcdadm auto: name the STORE first")
			}
			if err := knownFlags(known, flags); err != nil {
				cfg, _, _ := ParseManager(flags, env) // as far as it goes
				_ = daemon.KeepRefusal(cfg, err)
				return err
			}
			if code := runDaemon("etcdadm auto", flags, env, program, c.OutOrStdout(), c.ErrOrStderr()); code != ExitOK {
				return exitCode(code)
			}
			return nil
		},
	}
}

func asksHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// exitCode is an error that was reported already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
