package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
)

// storeTimeout bounds one command's work on the backup store.
const storeTimeout = 30 * time.Second

const ctlUsage = `etcd-manager-ctl writes what a cluster should be into its backup store.

  etcd-manager-ctl --backup-store=URL [flags] [command]

Commands:
  get                 print the spec (the default)
  configure-cluster   write the spec: --member-count and --etcd-version
  list-commands       print the queue of commands
  delete-command NAME take a command out of the queue
  list-backups        (with backups, not in this release)
  restore-backup NAME (with backups, not in this release)

Flags:
`

// CtlMain is etcd-manager-ctl. It returns the exit code.
func CtlMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c ctl
	fs := flag.NewFlagSet("etcd-manager-ctl", flag.ContinueOnError)
	fs.StringVar(&c.store, "backup-store", "", "URL of the backup store")
	fs.IntVar(&c.members, "member-count", 0, "number of members wanted")
	fs.StringVar(&c.version, "etcd-version", "", "etcd version wanted, such as 3.6.16")
	words, warnings, err := parseGoFlags(fs, args, true)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, ctlUsage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return ExitOK
	}
	if err != nil {
		return Report(stderr, "etcd-manager-ctl", usage("see --help", "%w", err))
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return Report(stderr, "etcd-manager-ctl", c.run(ctx, words, stdout))
}

type ctl struct {
	store   string
	members int
	version string
}

func (c *ctl) run(ctx context.Context, words []string, out io.Writer) error {
	command := "get"
	if len(words) > 0 {
		command, words = words[0], words[1:]
	}
	if c.store == "" {
		return usage("name the store, such as --backup-store=file:///var/backups/etcd", "--backup-store is required")
	}
	run, ok := map[string]func(context.Context, *control.Folder, []string, io.Writer) error{
		"get": c.get, "configure-cluster": c.configure, "list-commands": listCommands, "delete-command": deleteCommand,
		"list-backups": notYet("list-backups"), "restore-backup": notYet("restore-backup"),
	}[command]
	if !ok {
		return usage("see --help", "unknown command %q", command)
	}
	fmt.Fprintf(out, "Backup Store: %s\n", c.store)
	store, err := openForWords(ctx, c.store, command == "configure-cluster")
	if err != nil {
		return err
	}
	return run(ctx, control.New(store, ""), words, out)
}

// openForWords opens a store for a person's command: it is not made unless
// the command is the one that begins a cluster.
func openForWords(ctx context.Context, url string, create bool) (blob.Store, error) {
	return open.Open(ctx, url, open.Options{Create: create})
}

func (c *ctl) get(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	read, err := f.ReadSpec(ctx)
	if err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	if read.Spec == nil {
		return &Failure{Code: ExitNoCluster, Err: errors.New("there is no spec in this store"), Advice: "write one: etcd-manager-ctl --backup-store=… --member-count=3 --etcd-version=… configure-cluster"}
	}
	fmt.Fprintf(out, "member_count:%d etcd_version:%q\n", read.Spec.MemberCount, read.Spec.EtcdVersion)
	return nil
}

func (c *ctl) configure(ctx context.Context, f *control.Folder, _ []string, _ io.Writer) error {
	v, err := cluster.ParseVersion(c.version)
	if c.version == "" {
		return usage("such as --etcd-version=3.6.16", "--etcd-version is required")
	}
	if err != nil {
		return usage("such as --etcd-version=3.6.16", "%w", err)
	}
	if err := (cluster.Spec{MemberCount: c.members, EtcdVersion: v}).Validate(); err != nil {
		return usage("", "%w", err)
	}
	if err := f.ConfigureCluster(ctx, c.members, v); err != nil {
		return err
	}
	return f.Hold(ctx, false) // who asks for a count means it
}

func listCommands(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	commands, err := f.Commands(ctx)
	if err != nil {
		return fmt.Errorf("list the commands: %w", err)
	}
	for _, c := range commands {
		switch {
		case c.Err != nil:
			fmt.Fprintf(out, "%s\tcannot be run: %v\n", c.Name, c.Err)
		case c.Restore != nil:
			fmt.Fprintf(out, "%s\trestore-backup %s\n", c.Name, c.Restore.Backup)
		default:
			fmt.Fprintf(out, "%s\n", c.Name)
		}
	}
	return nil
}

func deleteCommand(ctx context.Context, f *control.Folder, words []string, out io.Writer) error {
	if len(words) != 1 {
		return usage("list-commands prints the names", "delete-command takes the name of one command")
	}
	if err := f.DeleteCommand(ctx, words[0]); err != nil {
		return err
	}
	fmt.Fprintf(out, "deleted command %s\n", words[0])
	return nil
}

func notYet(command string) func(context.Context, *control.Folder, []string, io.Writer) error {
	return func(context.Context, *control.Folder, []string, io.Writer) error {
		return fmt.Errorf("%s comes with backups, which this release does not have yet", command)
	}
}
