package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
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
  list-commands       print the queue of commands; --all those that ended, too
  delete-command NAME take a command out of the queue
  list-backups        print the names of the backups, oldest first
  restore-backup NAME make the cluster what it was in a backup
  create-backup       have the leading daemon take a backup

Flags:
`

// CtlMain is etcd-manager-ctl. It returns the exit code.
func CtlMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c ctl
	fs := flag.NewFlagSet("etcd-manager-ctl", flag.ContinueOnError)
	fs.StringVar(&c.store, "backup-store", "", "URL of the backup store")
	fs.IntVar(&c.members, "member-count", 0, "number of members wanted")
	fs.StringVar(&c.version, "etcd-version", "", "etcd version wanted, such as 3.6.16")
	fs.BoolVar(&c.all, "all", false, "with list-commands: also those that ended, and how")
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
	all     bool

	catalogue *backupstore.Catalogue
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
		"get": c.get, "configure-cluster": c.configure, "list-commands": c.listCommands, "delete-command": deleteCommand,
		"list-backups": c.listBackups, "restore-backup": c.restoreBackup, "create-backup": createBackup,
	}[command]
	if !ok {
		return usage("see --help", "unknown command %q", command)
	}
	fmt.Fprintf(out, "Backup Store: %s\n", c.store)
	store, err := openForWords(ctx, c.store, command == "configure-cluster")
	if err != nil {
		return err
	}
	c.catalogue = backupstore.New(store)
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

func (c *ctl) listCommands(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	commands, err := f.Commands(ctx)
	if err != nil {
		return fmt.Errorf("list the commands: %w", err)
	}
	in, _, _, err := f.ReadIntent(ctx)
	if err != nil && !errors.Is(err, control.ErrOtherCluster) {
		in = nil // the queue is shown all the same
	}
	for _, c := range commands {
		state := ""
		if in != nil && slices.Contains(in.CommandsRun, c.Name) {
			state = "\trunning"
		}
		switch {
		case c.Err != nil:
			fmt.Fprintf(out, "%s\tcannot be run: %v\n", c.Name, c.Err)
		case c.Restore != nil:
			fmt.Fprintf(out, "%s\trestore-backup %s%s\n", c.Name, c.Restore.Backup, state)
		case c.Wish != nil:
			fmt.Fprintf(out, "%s\t%s %s%s\n", c.Name, c.Wish.Kind, c.Wish.Host, state)
		default:
			fmt.Fprintf(out, "%s\n", c.Name)
		}
	}
	if !c.all {
		return nil
	}
	ended, err := f.EndedCommands(ctx)
	if err != nil {
		return err
	}
	for _, e := range ended {
		fmt.Fprintf(out, "%s\t%s %s\t%s at %s: %s\n", e.Name, e.Kind, e.Backup, e.Result, e.At.Format(time.RFC3339), e.Reason)
	}
	return nil
}

func (c *ctl) listBackups(ctx context.Context, _ *control.Folder, _ []string, out io.Writer) error {
	entries, err := c.catalogue.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(entries) {
		fmt.Fprintln(out, e.Name)
	}
	return nil
}

// restoreBackup queues a restore. The command is its own consent, as its users
// know it, so what is given up is said.
func (c *ctl) restoreBackup(ctx context.Context, f *control.Folder, words []string, out io.Writer) error {
	if len(words) != 1 {
		return usage("list-backups prints the names", "restore-backup takes the name of one backup")
	}
	b, err := findBackup(ctx, c.catalogue, words[0])
	if err != nil {
		return err
	}
	r := control.RestoreBackup{Backup: b.Name.String(), Spec: cluster.Spec{MemberCount: b.Meta.MemberCount, EtcdVersion: b.Meta.SpecVersion}}
	if r.Spec.EtcdVersion.IsZero() {
		r.Spec.EtcdVersion = b.Meta.EtcdVersion
	}
	added, err := f.AddRestore(ctx, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "added restore-backup command: %s\n", added)
	fmt.Fprintf(out, "the leading daemon makes the cluster what it was at %s; what was written since is lost to clients\n", b.Name.Time().Format(time.RFC3339))
	return nil
}

func createBackup(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	name, err := f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "added backup command: %s\n", name)
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
