package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"etcdadm.io/backup"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/release"
	"github.com/spf13/cobra"
)

const coprocessUsage = `%s backs up an etcd run by another program. Run one beside each member: the one
whose member is raft's leader takes a backup at every interval and removes expired
ones. SIGINT and SIGTERM end it, also in the middle of a backup.

Flags:
`

// coprocessFlags defines etcd-backup's flags over a configuration.
func coprocessFlags(fs *flag.FlagSet, c *daemon.Coprocess) {
	fs.StringVar(&c.ClusterName, "cluster-name", c.ClusterName, "name of the cluster")
	fs.StringVar(&c.BackupStore, "backup-store", c.BackupStore, "URL of the store that holds the backups")
	fs.Var(ignored{}, "data-dir", "accepted and ignored: this program writes only to the store")
	fs.Var(&listFlag{values: &c.ClientURLs}, "client-url", "client URLs of the member beside which it stands")
	fs.Func("interval", "how often a backup is taken (default 15m)", durationInto(&c.Interval))
	fs.StringVar(&c.Etcd.CA, "client-ca-file", "", "certificate of the authority that etcd's is checked against")
	fs.StringVar(&c.Etcd.Cert, "client-cert-file", "", "client certificate to show to etcd")
	fs.StringVar(&c.Etcd.Key, "client-key-file", "", "its key")
	fs.StringVar(&c.User, "etcd-user", "", "user with the root role, when etcd's authentication is on")
	fs.StringVar(&c.PasswordFile, "etcd-password-file", "", "file with that user's password")
	fs.StringVar(&c.Backups.Compression, "backup-compression", "", "how backups are packed: gzip, zstd or none (default gzip)")
	fs.Var(&listFlag{values: &c.Backups.Recipients}, "backup-recipient", "public key of age that backups are encrypted to; may be repeated")
	fs.IntVar(&c.Backups.KeepLast, "backup-keep-last", 0, "keep the newest so many backups, however old")
	fs.BoolVar(&c.Once, "once", false, "take one backup now, whoever leads raft, and end")
	ignoreLogging(fs)
}

// BackupMain is etcd-backup. It returns the exit code.
func BackupMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if askedVersion("etcd-backup", args, daemon.Program{}, stdout) {
		return ExitOK
	}
	return runCoprocess(ctx, "etcd-backup", args, stdout, stderr)
}

func runCoprocess(ctx context.Context, name string, args []string, stdout, stderr io.Writer) int {
	c := daemon.Coprocess{ClientURLs: []string{"http://127.0.0.1:4001"}, Interval: backup.DefaultInterval}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	coprocessFlags(fs, &c)
	ignored, warnings, err := parseGoFlags(fs, args, false)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout, fmt.Sprintf(coprocessUsage, name), fs)
		return ExitOK
	case err != nil:
		return Report(stderr, name, flagsRefused(err))
	case len(ignored) > 0:
		return Report(stderr, name, usage("see --help", "do not know what %q means", ignored[0]))
	}
	log, queue := openLog(daemon.Default(), stderr)
	defer queue.Flush(logFlush)
	for _, w := range warnings {
		log.Warn(w)
	}
	if err := c.Validate(); err != nil {
		Report(queue, name, err)
		return ExitUsage
	}
	if err := c.Run(ctx, log); err != nil {
		return Report(queue, name, err)
	}
	return ExitOK
}

// run is the coprocess under its other name.
func (b *backups) run() *cobra.Command {
	return &cobra.Command{
		Use: "run --cluster-name NAME --backup-store URL --client-url URL", Short: "Take backups of an etcd that somebody else runs, as etcd-backup does",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			known := flag.NewFlagSet("etcdadm backup run", flag.ContinueOnError)
			coprocessFlags(known, new(daemon.Coprocess))
			if err := knownFlags(known, args); err != nil {
				return err
			}
			if code := runCoprocess(c.Context(), "etcdadm backup run", args, c.OutOrStdout(), c.ErrOrStderr()); code != ExitOK {
				return exitCode(code)
			}
			return nil
		},
	}
}

const backupCtlUsage = `etcd-backup-ctl looks into a store of backups.

  etcd-backup-ctl --backup-store=URL [flags] [command]

Commands:
  list                print the names of the backups, oldest first (the default)
  show NAME           print all details of a backup
  verify NAME         download a backup and verify all of it
  drill NAME          restore a backup into a throwaway etcd, and compare
  download NAME FILE  write a backup's snapshot into a file, unpacked and checked

Flags:
`

// BackupCtlMain is etcd-backup-ctl. It returns the exit code.
func BackupCtlMain(ctx context.Context, args []string, program daemon.Program, stdout, stderr io.Writer) int {
	const name = "etcd-backup-ctl"
	if askedVersion(name, args, program, stdout) {
		return ExitOK
	}
	var b backups
	b.output = "table"
	var dirs []string
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&b.store, "backup-store", "", "URL of the backup store")
	fs.StringVar(&b.identity, "identity", "", "file with the secret keys of encrypted backups")
	fs.StringVar(&b.output, "output", "table", "of show: json or yaml")
	fs.Var(&listFlag{values: &dirs}, "release-dir", "directories with etcd releases, for drills")
	ignoreLogging(fs)
	given, warnings, err := parseGoFlags(fs, args, true)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout, backupCtlUsage, fs)
		return ExitOK
	}
	if err != nil {
		return Report(stderr, name, flagsRefused(err))
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	command := "list"
	if len(given) > 0 {
		command, given = given[0], given[1:]
	}
	ctx, end := working(ctx, stderr, name+" "+command)
	defer end()
	return Report(stderr, name, b.ctl(ctx, command, given, finderOf(program, dirs), stdout))
}

func (b *backups) ctl(ctx context.Context, command string, args []string, finder *release.Finder, out io.Writer) error {
	type does func(context.Context, *backupstore.Catalogue, backup.Name, []string, io.Writer) error
	commands := map[string]struct {
		more int // words beside the name
		do   does
	}{
		"show": {0, b.show}, "verify": {0, b.verify}, "download": {1, b.download},
		"drill": {0, func(ctx context.Context, c *backupstore.Catalogue, name backup.Name, _ []string, out io.Writer) error {
			return b.runDrill(ctx, c, name, finder, out)
		}},
	}
	how, named := commands[command]
	switch {
	case b.store == "":
		return usage("name the store, such as --backup-store=file:///var/backups/etcd", "--backup-store is required")
	case command == "list" && len(args) == 0:
		return b.names(ctx, out)
	case !named:
		return usage("see --help", "unknown command %q", command)
	case len(args) != 1+how.more:
		return usage("see --help", "%s takes %d words", command, 1+how.more)
	}
	name, err := backup.ParseName(args[0])
	if err != nil {
		return usage("list prints the names", "%w", err)
	}
	c, err := b.catalogue(ctx)
	if err != nil {
		return err
	}
	return noBackup(how.do(ctx, c, name, args[1:], out))
}

func (b *backups) names(ctx context.Context, out io.Writer) error {
	c, err := b.catalogue(ctx)
	if err != nil {
		return err
	}
	entries, err := c.List(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "etcd-backup-ctl") // as the predecessor's begins
	for _, e := range slices.Backward(entries) {
		fmt.Fprintln(out, e.Name)
	}
	return nil
}
