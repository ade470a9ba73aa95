package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/kept"
)

// storeTimeout bounds the opening of a backup store, and what a command reads or writes
// in its control folder. A catalogue of backups has bounds of its own.
const storeTimeout = 30 * time.Second

const ctlUsage = `etcd-manager-ctl writes the spec of a cluster, and commands for it, into its backup store.

  etcd-manager-ctl --backup-store=URL [flags] [command]

Commands:
  get                 print the spec (the default)
  configure-cluster   write the spec: --member-count, --etcd-version or both
  list-commands       print the queue of commands; --all with their names, and those that ended
  delete-command BACKUP
                      take the restores of a backup out of the queue; also by a
                      command's name or timestamp
  list-backups        print the names of the backups, oldest first
  restore-backup NAME restore the cluster from a backup
  create-backup       have the leading daemon take a backup

Flags:
`

// CtlMain is etcd-manager-ctl. It returns the exit code.
func CtlMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if askedVersion("etcd-manager-ctl", args, daemon.Program{}, stdout) {
		return ExitOK
	}
	c, words, err := parseCtl(args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	if err != nil {
		return Report(stderr, "etcd-manager-ctl", err)
	}
	ctx, end := working(ctx, stderr, "etcd-manager-ctl")
	defer end()
	return Report(stderr, "etcd-manager-ctl", c.run(ctx, words, stdout))
}

// parseCtl reads the arguments; flag.ErrHelp: it has printed what was asked for.
func parseCtl(args []string, stdout, stderr io.Writer) (c *ctl, words []string, err error) {
	c = new(ctl)
	fs := flag.NewFlagSet("etcd-manager-ctl", flag.ContinueOnError)
	fs.StringVar(&c.store, "backup-store", "", "URL of the backup store")
	fs.StringVar(&c.control, "control-store", "", "URL of the store of the spec and the queue, if the backup store does not have them")
	fs.IntVar(&c.members, "member-count", 0, "number of members wanted")
	fs.StringVar(&c.version, "etcd-version", "", "etcd version wanted, such as 3.6.16")
	fs.BoolVar(&c.all, "all", false, "with list-commands: their names, and also those that ended, and how")
	ignoreLogging(fs)
	words, warnings, err := parseGoFlags(fs, args, true)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(stdout, ctlUsage, fs)
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, flagsRefused(err)
	}
	c.warn = func(warnings ...string) {
		for _, w := range warnings {
			fmt.Fprintf(stderr, "warning: %s\n", w)
		}
	}
	c.say = stderr
	c.warn(warnings...)
	fs.Visit(func(f *flag.Flag) { c.given = append(c.given, f.Name) })
	return c, words, nil
}

type ctl struct {
	store   string
	control string
	members int
	version string
	all     bool
	given   []string // the flags that were given
	warn    func(...string)
	say     io.Writer // for people: scripts read what goes to the other one

	catalogue *backupstore.Catalogue
}

func (c *ctl) run(ctx context.Context, words []string, out io.Writer) error {
	command := "get"
	if len(words) > 0 {
		command, words = words[0], words[1:]
	}
	if c.store == "" && c.control == "" {
		return usage("name the store, such as --backup-store=file:///var/backups/etcd", "--backup-store is required")
	}
	if c.store == "" && slices.Contains(ofBackups, command) {
		return usage("name the store of the backups, too: --control-store has none", "%s needs --backup-store", command)
	}
	run, ok := map[string]func(context.Context, *control.Folder, []string, io.Writer) error{
		"get": c.get, "configure-cluster": c.configure, "list-commands": c.listCommands, "delete-command": c.deleteCommand,
		"list-backups": c.listBackups, "restore-backup": c.restoreBackup, "create-backup": createBackup,
	}[command]
	if !ok {
		return usage("see --help", "unknown command %q", command)
	}
	fmt.Fprintf(out, "Backup Store: %s\n", daemon.ShownURL(cmp.Or(c.store, c.control)))
	what := toWrite
	switch {
	case slices.Contains(readsOnly, command):
		what = toRead
	case command == "configure-cluster":
		what = toBegin
	}
	store, err := openForWords(ctx, cmp.Or(c.control, c.store), what)
	if err != nil {
		return err
	}
	backups := store
	if c.control != "" && c.store != "" {
		if backups, err = openForWords(ctx, c.store, toRead); err != nil {
			return err
		}
	}
	c.catalogue = backupstore.New(backups)
	if command != "list-backups" { // that has the catalogue's bounds, and as long as the store's answers come on
		work, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		ctx = work
	}
	return run(ctx, control.New(store, ""), words, out)
}

// purpose is what a person's command opens a store for.
type purpose int

const (
	// toRead is also possible where nothing can be written: a copy, a file system that
	// was mounted read-only, somebody else's store.
	toRead purpose = iota
	// toWrite says at once that nothing can be written, before anything is asked.
	toWrite
	// toBegin makes the directory of a store that is not there.
	toBegin
)

// openForWords opens a store for a person's command: it is not made unless
// the command is one that begins a cluster.
func openForWords(ctx context.Context, url string, p purpose) (blob.Store, error) {
	return openWithin(ctx, storeTimeout, url, p)
}

// openWithin bounds the opening alone: the command may work with the store for longer.
func openWithin(ctx context.Context, bound time.Duration, url string, p purpose) (blob.Store, error) {
	if dir, ok := kept.DataDir(url); ok {
		return console.OpenKept(dir)
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return open.Open(ctx, url, open.Options{Create: p == toBegin, ReadOnly: p == toRead})
}

// readIf is for what writes unless it is a dry run.
func readIf(dryRun bool) purpose {
	if dryRun {
		return toRead
	}
	return toWrite
}

// beginIf is for what only looks until it is told to do it.
func beginIf(do bool) purpose {
	if do {
		return toBegin
	}
	return toRead
}

// ofBackups are the commands that look at backups.
var ofBackups = []string{"list-backups", "restore-backup"}

// readsOnly are the commands that write nothing.
var readsOnly = []string{"get", "list-commands", "list-backups"}

func (c *ctl) get(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	read, err := f.ReadSpec(ctx)
	if err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	if read.Spec == nil {
		return &Failure{Code: ExitNoCluster, Err: errors.New("there is no spec in this store"), Advice: "write one: etcd-manager-ctl --backup-store=… --member-count=3 --etcd-version=… configure-cluster"}
	}
	c.warn(read.Warnings...)
	fmt.Fprintln(out, specText(*read.Spec))
	return nil
}

// configure changes what was given and leaves the rest of the spec as it is. A
// new cluster takes both: a count or a version that nobody named would be found
// out only when it runs.
func (c *ctl) configure(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	var a control.Amend
	if slices.Contains(c.given, "member-count") {
		// Zero is no way to say nothing: it is refused as the count that it is.
		if a.MemberCount = c.members; c.members == 0 {
			return usage("such as --member-count=3", "%w", cluster.Spec{}.Validate())
		}
	}
	if c.version != "" {
		v, err := cluster.ParseVersion(c.version)
		if err != nil {
			return usage("such as --etcd-version=3.6.16", "%w", err)
		}
		a.EtcdVersion = v
	} else if a.MemberCount == 0 || slices.Contains(c.given, "etcd-version") {
		return usage("such as --etcd-version=3.6.16", "--etcd-version is required where no --member-count is given, and is not empty")
	}
	return amending(c.say, func() error { return c.configureAs(ctx, f, a, out) })
}

// configureAs writes what was given over the spec as it is read now, and says what that
// changes.
func (c *ctl) configureAs(ctx context.Context, f *control.Folder, a control.Amend, out io.Writer) error {
	read, unread := f.ReadSpec(ctx) // what cannot be read, the write says
	before := runningIn(ctx, f, read, unread)
	if err := c.consent(ctx, f, a.EtcdVersion); err != nil {
		return err
	}
	if unread == nil || specUnusable(unread) {
		a.Shown = &read
	}
	spec, warnings, err := f.AmendSpec(ctx, a)
	switch {
	case errors.Is(err, cluster.ErrSpec) && spec.EtcdVersion.IsZero():
		return usage("such as --etcd-version=3.6.16", "--etcd-version is required: this store has no spec that names one")
	case errors.Is(err, cluster.ErrSpec):
		return usage("configure-cluster takes --member-count and --etcd-version; what is not given stays as the store has it", "%w", err)
	case err != nil:
		return changedMeanwhile(err)
	}
	c.warn(warnings...)
	if before != nil {
		spec.Hold, spec.Hosts = before.spec.Hold && a.MemberCount == 0, before.spec.Hosts
		before.describe(c.say, spec, fmt.Sprintf("etcd-manager-ctl --backup-store=%s --member-count=%d --etcd-version=%s configure-cluster", cluster.ShellWord(daemon.ShownURL(c.store)), before.spec.MemberCount, before.spec.EtcdVersion))
	}
	if a.MemberCount != 0 { // who asks for a count means it
		if err := f.Settings().Hold(ctx, false); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "set cluster spec to %s\n", specText(spec))
	return nil
}

// consent writes down that another version of a running cluster may take an outage:
// with the predecessor, whose command this is, most changes do. A spec that cannot be
// right is refused by the write of it.
func (c *ctl) consent(ctx context.Context, f *control.Folder, to cluster.Version) error {
	before, err := f.ReadSpec(ctx)
	if err != nil || before.Spec == nil || to.Runnable() != nil {
		return nil //nolint:nilerr // there is no cluster that could be changed, or the spec is what is to be mended
	}
	if before.Spec.EtcdVersion == to && before.Spec.AcceptOutage == "" {
		return nil
	}
	_, err = f.Settings().AcceptOutage(ctx, to)
	return err
}

// listCommands prints the commands that the predecessor has, too, as its own
// program does, and what it has no words for in words of ours.
func (c *ctl) listCommands(ctx context.Context, f *control.Folder, _ []string, out io.Writer) error {
	commands, err := f.Commands(ctx)
	if err != nil {
		return fmt.Errorf("list the commands: %w", err)
	}
	in, _, _, err := f.ReadIntent(ctx)
	if err != nil && !errors.Is(err, control.ErrOtherCluster) {
		in = nil // the queue is shown all the same
	}
	for _, q := range commands {
		if line := commandText(q); line != "" && !c.all {
			fmt.Fprintln(out, line)
			continue
		}
		state := ""
		if in != nil && slices.Contains(in.CommandsRun, q.Name) {
			state = "\trunning"
		}
		switch {
		case q.Unread != nil:
			fmt.Fprintf(out, "%s\tcannot be read: %v\n", q.Name, q.Unread)
		case q.Err != nil:
			fmt.Fprintf(out, "%s\tcannot be run: %v\n", q.Name, q.Err)
		case q.Restore != nil:
			fmt.Fprintf(out, "%s\trestore-backup %s%s\n", q.Name, strings.Join(append([]string{q.Restore.Backup}, moreWords(q.Restore.Flags, q.Restore.Lost, q.Restore.Count)...), " "), state)
		case q.Wish != nil:
			fmt.Fprintf(out, "%s\t%s%s\n", q.Name, wishWords(q.Wish), state)
		default:
			fmt.Fprintf(out, "%s\n", q.Name)
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
		fmt.Fprintf(out, "%s\t%s\t%s at %s: %s\n", e.Name, endedWords(e), e.Result, e.At.Format(time.RFC3339), e.Reason)
	}
	return nil
}

// wishWords is a command of ours as a person would have typed it.
func wishWords(w *control.Wish) string {
	words := []string{string(w.Kind)}
	if w.Host != "" {
		words = append(words, "--from "+string(w.Host))
	}
	if w.Dir != "" {
		words = append(words, "--dir "+w.Dir)
	}
	if w.KeepFor > 0 {
		words = append(words, "--keep-for "+dayDuration{&w.KeepFor}.String())
	}
	return strings.Join(append(words, moreWords(nil, w.Lost, w.Count)...), " ")
}

func moreWords(flags []string, lost []cluster.HostID, count *cluster.CountChange) (words []string) {
	for _, f := range flags {
		words = append(words, "--"+strings.Replace(f, "=", " ", 1))
	}
	if count != nil {
		words = append(words, fmt.Sprintf("--members %d", count.Members))
	}
	for _, h := range lost {
		words = append(words, "--lost "+string(h))
	}
	return words
}

// endedWords is a command that ended. What was written by an earlier release
// names no host and no directory.
func endedWords(e control.Ended) string {
	switch {
	case e.Backup != "" && e.Kind == cluster.CommandBackup:
		return "backup, which is " + e.Backup
	case e.Backup != "":
		return fmt.Sprintf("%s-backup %s", e.Kind, e.Backup)
	case e.Kind == "":
		return "a command that could not be read"
	}
	return wishWords(&control.Wish{Kind: e.Kind, Host: e.Host, Dir: e.Dir})
}

func (c *ctl) listBackups(ctx context.Context, _ *control.Folder, _ []string, out io.Writer) error {
	l, err := c.catalogue.Scan(ctx)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(l.Backups) {
		fmt.Fprintln(out, e.Name)
	}
	for _, odd := range l.Odd {
		c.warn(fmt.Sprintf("%q holds a backup's meta, and its name is no backup's: it is not listed, and not restored from", odd))
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
		return insteadOfPath(words[0], err)
	}
	switch refusal := (&Failure{Code: ExitUnsafe, Err: fmt.Errorf("backup %s cannot be restored from: %s", b.Name, b.Doubt()), Advice: "list-backups prints the others"}); {
	case b.File == "":
		return refusal
	case b.Version().IsZero():
		refusal.Advice += "; etcdadm restore --accept-damage has the daemons read from the snapshot which etcd wrote it"
		return refusal
	}
	if doubt := b.Doubt(); doubt != "" {
		c.warn(fmt.Sprintf("backup %s is BAD: %s. It is restored from if its snapshot agrees with its own checksum", b.Name, doubt))
	}
	spec, err := restoredSpec(ctx, f, b)
	if err != nil {
		return err
	}
	r := control.RestoreBackup{Backup: b.Name.String(), Spec: spec}
	added, err := f.AddRestore(ctx, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "added restore-backup command: %s\n", added)
	fmt.Fprintf(out, "the leading daemon makes the cluster what it was at %s; what was written since is lost to clients\n", b.Name.Time().Format(time.RFC3339))
	fmt.Fprintln(out, "list-commands --all tells how that ends")
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
