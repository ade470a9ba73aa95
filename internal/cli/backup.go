package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/sources"
	"github.com/spf13/cobra"
)

// backups is how a command finds the backups of a store.
type backups struct {
	queue
	identity string
	begins   bool // a copy may make the directory of its store
	// variables is a directory with those of the store that is copied from, and keepFor how long the copy is kept at least.
	variables string
	keepFor   time.Duration
	// told is the store's URL where a daemon told it; empty: a person did.
	told string
}

func (b *backups) catalogue(ctx context.Context) (*backupstore.Catalogue, error) {
	store, _, err := b.open(ctx, toRead) // what writes, such as a pin, is told when it does
	if err != nil {
		return nil, err
	}
	return backupstore.New(store), nil
}

// open opens the store of the backups that was named, or that the daemons have; these were asked only then.
func (b *backups) open(ctx context.Context, p purpose) (blob.Store, *cluster.Observation, error) {
	var o *cluster.Observation
	if b.variables != "" {
		store, err := b.openGiven(ctx)
		return store, nil, err
	}
	if b.store == "" {
		var err error
		if o, err = b.look(ctx); err != nil {
			return nil, nil, err
		}
		if o != nil {
			b.told = o.Store.BackupsURL()
		}
	}
	store, err := b.openBackups(ctx, o, p)
	return store, o, b.elsewhere(err)
}

// openGiven opens a store by its own variables, and by nothing else of this process's environment.
func (b *backups) openGiven(ctx context.Context) (blob.Store, error) {
	const advice = "name a directory with a file for each variable, such as S3_ACCESS_KEY_ID, and the store that they are of by --store"
	files, err := os.ReadDir(b.variables)
	if err != nil || b.store == "" {
		return nil, usage(advice, "--store-variables: %w", cmp.Or(err, errors.New("--store is missing")))
	}
	given := map[string]string{}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") { // a Secret that is mounted has directories beside its files
			continue
		}
		value, err := regular.Read(filepath.Join(b.variables, f.Name()), regular.SmallSize)
		if err != nil {
			return nil, usage(advice, "--store-variables: %w", err)
		}
		given[f.Name()] = strings.TrimSuffix(string(value), "\n")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return open.Open(ctx, b.store, open.Options{ReadOnly: true, Given: given})
}

// elsewhere says of a store whose URL a daemon told, and that cannot be reached, that the
// rest of the daemon's settings is not told with it: credentials never are.
func (b *backups) elsewhere(err error) error {
	if err == nil || b.told == "" || strings.HasPrefix(b.told, "file:") || errors.As(err, new(*Failure)) {
		return err
	}
	advice := hintOf(err)
	if advice != "" {
		advice += "; "
	}
	return &Failure{Code: ExitError, Err: err, Advice: advice + "the URL is the daemon's, and its other settings of the store are not known to this shell (endpoint, region and credentials, such as AWS_*): give this command those of the daemon's environment or --env-file, too, or run it on a host with them"}
}

// identities reads the secret keys, which a pipe may bring: this is done once a command.
func (b *backups) identities(ctx context.Context) (backupstore.Identities, error) {
	return backupstore.Choices{IdentityFile: b.identity}.IdentitiesBy(func(file string, limit int64) ([]byte, error) {
		data, _, err := regular.ReadOrPipe(ctx, file, limit)
		return data, err
	})
}

// named is a command on one backup.
func (b *backups) named(use, short string, do func(ctx context.Context, c *backupstore.Catalogue, name backup.Name, args []string, out io.Writer) error, more int) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: words(cobra.ExactArgs(1 + more)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := backup.ParseName(args[0])
			if err != nil {
				return usage("etcdadm backup list prints the names", "%w", err)
			}
			return tells(cmd, func(ctx context.Context) error {
				c, err := b.catalogue(ctx)
				if err != nil {
					return err
				}
				return noBackup(do(ctx, c, name, args[1:], cmd.OutOrStdout()))
			})
		},
	}
}

// backupCommand is about the backups in a store.
func backupCommand(program daemon.Program) *cobra.Command {
	var b backups
	c := group("backup", "Take, list, prove and prune backups")
	b.flags(c)
	f := c.PersistentFlags()
	b.storeFlags(f)
	f.StringVar(&b.identity, "identity", "", "file with the secret keys of encrypted backups")
	c.AddCommand(
		b.create(), b.run(), b.list(),
		b.named("show NAME", "Show all details of a backup", b.show, 0),
		b.named("verify NAME", "Download a backup and verify all of it", b.verify, 0),
		b.drill(program), b.prune(),
		b.named("download NAME FILE", "Write a backup's snapshot into a file, unpacked and checked", b.download, 1),
		b.copyCommand(), b.extract(program),
		b.named("pin NAME REASON", "Keep a backup from being pruned; an empty reason ends that", b.pin, 1),
	)
	return c
}

func (b *backups) create() *cobra.Command {
	var keepFor time.Duration
	c := &cobra.Command{
		Use: "create", Short: "Have the leading daemon take a backup now", Args: words(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Where --wait may stand alone, "--wait 1m" comes as a flag and a word.
			if len(args) > 0 {
				if !cmd.Flags().Changed("wait") {
					return usage("it is called as: "+cmd.UseLine(), "do not know what %q means", args[0])
				}
				var err error
				if b.wait, err = duration.Parse(args[0]); err != nil {
					return usage("such as --wait=5m", "%w", err)
				}
			}
			f, _, err := b.storeFolder(cmd.Context(), toWrite)
			if err != nil {
				return err
			}
			return b.wish(cmd.Context(), f, control.Wish{Kind: cluster.CommandBackup, KeepFor: keepFor, By: whoTypes()}, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().Var(dayDuration{&keepFor}, "keep-for", "keep it at least for so long, such as 90d, whatever the cluster keeps")
	c.Flags().DurationVar(&b.wait, "wait", 0, "wait so long for the backup; --wait alone waits five minutes")
	c.Flags().Lookup("wait").NoOptDefVal = "5m"
	return c
}

func (b *backups) verify(ctx context.Context, c *backupstore.Catalogue, name backup.Name, _ []string, out io.Writer) error {
	ids, err := b.identities(ctx)
	if err != nil {
		return err
	}
	v, err := c.Verify(ctx, name, ids)
	if err != nil && !errors.Is(err, backupstore.ErrDamaged) {
		return err
	}
	v.Host = ""
	if recordErr := c.Record(ctx, name, v); recordErr != nil {
		fmt.Fprintf(out, "the result could not be kept beside the backup: %v\n", recordErr)
	}
	if err != nil {
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "do not rely on it; take another: etcdadm backup create"}
	}
	fmt.Fprintf(out, "%s is good (%s)", name, v.Depth)
	if v.Revision > 0 {
		fmt.Fprintf(out, ", and goes to revision %d", v.Revision)
	}
	fmt.Fprintln(out)
	return nil
}

func (b *backups) pin(ctx context.Context, c *backupstore.Catalogue, name backup.Name, args []string, out io.Writer) error {
	if err := c.Pin(ctx, name, args[0]); err != nil {
		return err
	}
	if args[0] == "" {
		fmt.Fprintf(out, "%s is not pinned any longer: it goes when the policy says so\n", name)
	} else {
		fmt.Fprintf(out, "pinned %s: it is not removed until \"backup pin %s ''\"\n", name, name)
	}
	return nil
}

func (b *backups) download(ctx context.Context, c *backupstore.Catalogue, name backup.Name, args []string, out io.Writer) error {
	ids, err := b.identities(ctx)
	if err != nil {
		return err
	}
	x, err := c.Download(ctx, name, args[0], ids, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s, a snapshot of %s\n", args[0], etcdWords(x))
	if doubt := x.Doubt(); doubt != "" {
		fmt.Fprintf(out, "the snapshot agrees with its own checksum; but %s\n", doubt)
	}
	return nil
}

func (b *backups) copyCommand() *cobra.Command {
	c := b.named("copy NAME STORE", "Copy a backup into another store", b.copy, 1)
	c.Flags().BoolVar(&b.begins, "create-store", false, "make the directory of a file:// store that does not exist")
	c.Flags().StringVar(&b.variables, "store-variables", "", "directory with a file for each variable by which --store is reached, where those of the environment are of STORE alone")
	c.Flags().Var(dayDuration{&b.keepFor}, "keep-for", "keep the copy at least for so long, such as 1d, whatever the cluster of STORE keeps")
	return c
}

func (b *backups) copy(ctx context.Context, c *backupstore.Catalogue, name backup.Name, args []string, out io.Writer) error {
	ids, err := b.identities(ctx)
	if err != nil {
		return err
	}
	what := toWrite // a directory that is not there may be a share that is not mounted
	if b.begins {
		what = toBegin
	}
	store, err := openForWords(ctx, args[0], what)
	if err != nil {
		return notMounted(err)
	}
	var until time.Time
	if b.keepFor > 0 {
		until = time.Now().Add(b.keepFor)
	}
	if _, err := c.Copy(ctx, name, backupstore.New(store), ids, until); err != nil {
		return err
	}
	fmt.Fprintf(out, "copied %s\n", name)
	return nil
}

func (b *backups) prune() *cobra.Command {
	var dryRun bool
	policy := backup.DefaultPolicy()
	c := &cobra.Command{
		Use: "prune", Short: "Remove the backups that need not be kept any longer, with the reason for each", Args: words(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var verdicts []backup.Verdict
			err := tells(cmd, func(ctx context.Context) error {
				store, o, err := b.open(ctx, readIf(dryRun))
				if err != nil {
					return err
				}
				record, err := b.openRecord(ctx, o, toRead)
				if err != nil {
					return err
				}
				used, err := usedBackups(ctx, record)
				if err != nil && !errors.Is(err, control.ErrOtherCluster) { // a person's command names no cluster
					return fmt.Errorf("see which backups are used: %w", err)
				}
				c := backupstore.New(store)
				do := c.Prune
				if dryRun {
					do = c.Expire
				}
				verdicts, err = do(ctx, policy, used, time.Now())
				return err
			})
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, v := range verdicts {
				word := "keep"
				if !v.Keep {
					word = "remove"
				}
				fmt.Fprintf(t, "%s\t%s\t%v\n", word, v.Name, v.Rules)
			}
			_ = t.Flush()
			return err
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be removed")
	for _, w := range []struct {
		name, text string
		field      *time.Duration
	}{{"keep-all", "keep every backup for so long", &policy.All}, {"keep-hourly", "keep the first of each hour for so long", &policy.Hourly}, {"keep-daily", "keep the first of each day for so long", &policy.Daily}} {
		c.Flags().Var(dayDuration{w.field}, w.name, w.text)
	}
	c.Flags().IntVar(&policy.Last, "keep-last", policy.Last, "keep the newest so many, however old")
	return c
}

// usedBackups are those that a generation was made from.
func usedBackups(ctx context.Context, store blob.Store) (map[backup.Name]string, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return sources.UsedBackups(ctx, control.New(store, ""))
}

// drill restores a backup into an etcd that is thrown away.
func (b *backups) drill(program daemon.Program) *cobra.Command {
	var dirs []string
	c := b.named("drill NAME", "Restore a backup into an etcd that is thrown away, and compare what it serves", func(ctx context.Context, c *backupstore.Catalogue, name backup.Name, _ []string, out io.Writer) error {
		return b.runDrill(ctx, c, name, finderOf(program, dirs), out)
	}, 0)
	c.Flags().StringSliceVar(&dirs, "release-dir", nil, "directory with etcd releases (repeatable)")
	return c
}

func (b *backups) runDrill(ctx context.Context, c *backupstore.Catalogue, name backup.Name, finder *release.Finder, out io.Writer) error {
	ids, err := b.identities(ctx)
	if err != nil {
		return err
	}
	x, d, note, err := sources.Drill{Catalogue: c, Identities: ids, Finder: finder, Within: workTimeout}.Run(ctx, name)
	switch {
	case errors.Is(err, sources.ErrBadBackup):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "take another: etcdadm backup create"}
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "%s is good: etcd %s served it after %s, at revision %d with %s", name, x.Version(), d.Took.Round(time.Millisecond), d.Info.Revision, keysWords(d.Info.Keys))
	if note != "" {
		fmt.Fprintf(out, " (%s)", note)
	}
	fmt.Fprintln(out)
	return nil
}
