package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/kept"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// remadeTimeout bounds the wait for a record that was made again: hosts go over within two seconds of hearing of it.
const remadeTimeout = 15 * time.Second

// queue is how a command finds the store's queue, and the daemons that take
// from it: a command is written into the store, and the leading daemon runs it.
type queue struct {
	reach
	store   string
	control string
	lost    []string
	yes     bool
	wait    time.Duration

	dryRun bool
}

// wouldQueue is what --dry-run tells of a command that may be queued: whether it is
// carried out the leading daemon says, which knows more.
type wouldQueue struct {
	Command cluster.CommandKind `json:"command"`
	Of      string              `json:"of"`
	Lost    []cluster.HostID    `json:"lost,omitempty"`
	Members int                 `json:"members,omitempty"`
}

func (q wouldQueue) print(w io.Writer) {
	fmt.Fprintf(w, "would queue: %s, of %s", q.Command, q.Of)
	if len(q.Lost) > 0 {
		fmt.Fprintf(w, ", giving up what only %s had", join(q.Lost))
	}
	if q.Members > 0 {
		fmt.Fprintf(w, ", with %s wanted from then on", counted(q.Members, "member"))
	}
	fmt.Fprintln(w, "; nothing was queued")
}

// queueEvery is how often a command that waits looks whether it was run.
const queueEvery = 500 * time.Millisecond

func (q *queue) queueFlags(c *cobra.Command) {
	q.flags(c)
	f := c.Flags()
	q.storeFlags(f)
	f.DurationVar(&q.wait, "wait", 0, "wait so long for the command to be run, and for clients to be let in")
}

// storeFlags name the stores of a cluster.
func (q *queue) storeFlags(f *pflag.FlagSet) {
	storeFlag(f, &q.store, "URL of the backup store; else it is asked of a daemon ($ETCDADM_STORE)")
	controlFlag(f, &q.control)
}

// controlFlag is --control-store, or its variable, which is the daemon's, too.
func controlFlag(f *pflag.FlagSet, store *string) {
	name := envfile.OfFlag("control-store")
	f.StringVar(store, "control-store", os.Getenv(name), "URL of the store of the control record, if the backup store does not have it ($"+name+")")
	f.Lookup("control-store").DefValue = ""
}

// storeFlag is --store, or $ETCDADM_STORE. A help text shows defaults, and there
// may be a credential in this one.
func storeFlag(f *pflag.FlagSet, store *string, words string) {
	f.StringVar(store, "store", os.Getenv("ETCDADM_STORE"), words)
	f.Lookup("store").DefValue = ""
}

func (q *queue) lostFlag(c *cobra.Command) {
	c.Flags().StringSliceVar(&q.lost, "lost", nil, "a host that is gone for good (repeatable); the command does not wait for it, and data that only it had is lost")
	c.Flags().BoolVar(&q.yes, "yes", false, "do it; without it, what would happen is shown")
	c.Flags().BoolVar(&q.dryRun, "dry-run", false, "check and print what the command would do, and queue nothing, also with --yes")
}

func (q *queue) lostHosts() []cluster.HostID {
	var out []cluster.HostID
	for _, l := range q.lost {
		out = append(out, cluster.HostID(l))
	}
	return out
}

// look is the leader's observation, nil when no daemon is named, and this machine's agent
// does not have to be asked for the store.
func (q *queue) look(ctx context.Context) (*cluster.Observation, error) {
	if q.dataDir == "" && len(q.endpoints) == 0 {
		if q.store != "" || q.control != "" {
			return nil, nil
		}
		dir, err := agentsDir()
		if dir == "" || err != nil {
			return nil, err
		}
		q.dataDir = dir
	}
	return q.observation(ctx, "")
}

// openRecord opens the store with the control record that was named, or that the daemons have. Where these have the record and the
// backups in two stores, a --store that was named is that of the backups; ConfigMaps never have any.
func (q *queue) openRecord(ctx context.Context, o *cluster.Observation, p purpose) (blob.Store, error) {
	url := cmp.Or(q.control, q.store)
	if o != nil && (url == "" || q.control == "" && (o.Store.Backups != "" || open.InKubernetes(o.Store.URL))) {
		url = o.Store.URL
	}
	return openNamed(ctx, url, p)
}

// openBackups opens the store with the backups.
func (q *queue) openBackups(ctx context.Context, o *cluster.Observation, p purpose) (blob.Store, error) {
	url := q.store
	if url == "" && o != nil {
		if url = o.Store.BackupsURL(); open.InKubernetes(url) {
			return nil, &Failure{Code: ExitError, Err: errors.New("this cluster has no backup store: its daemons keep the record in ConfigMaps, and no backups"), Advice: "give the daemons --backup-store; --store names another store to read"}
		}
	}
	return openNamed(ctx, url, p)
}

func openNamed(ctx context.Context, url string, p purpose) (blob.Store, error) {
	if url == "" {
		return nil, usage("--store names it, or --data-dir a daemon that knows", "say which store")
	}
	return openForWords(ctx, url, p)
}

// folder is the control folder of the store with the record.
func (q *queue) folder(ctx context.Context, o *cluster.Observation, p purpose) (*control.Folder, error) {
	store, err := q.openRecord(ctx, o, p)
	if err != nil {
		return nil, err
	}
	return control.New(store, ""), nil
}

// storeFolder is the control folder of the store that was named, or that the leader's
// observation, which is told as well, names.
func (q *queue) storeFolder(ctx context.Context, p purpose) (*control.Folder, *cluster.Observation, error) {
	o, err := q.look(ctx)
	if err != nil && q.store == "" && q.control == "" {
		return nil, nil, err
	}
	f, err := q.folder(ctx, o, p)
	return f, o, err
}

// membersOf tells whether a cluster may have so many.
func membersOf(n int) bool { return n >= 1 && n <= 9 && n%2 == 1 }

// remake has the daemon make the record of a cluster without a store again, if a majority of the hosts that keep it is gone: the
// queue lies in it. With dryRun it tells whether the daemon would.
func (q *queue) remake(ctx context.Context, o *cluster.Observation, say io.Writer, dryRun bool) error {
	url := q.store
	if url == "" && o != nil {
		url = o.Store.URL
	}
	if _, ok := kept.DataDir(url); !ok || len(q.lost) == 0 {
		return nil
	}
	conn, err := q.open()
	if err != nil {
		return err
	}
	defer conn.Close()
	made, err := conn.Again(ctx, q.lostHosts(), dryRun)
	switch {
	case err != nil:
		return fmt.Errorf("ask the daemon to make the record of the cluster again: %w", err)
	case made.Refused != "":
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued: the hosts that keep the record of the cluster have no majority, and it is not made again: " + made.Refused)}
	case made.Host != "" && dryRun:
		fmt.Fprintf(say, "the hosts that keep the record of the cluster have no majority: host %s would make it again\n", made.Host)
	case made.Host != "":
		fmt.Fprintf(say, "the record of the cluster was made again: host %s keeps it alone until others do\n", made.Host)
		return recordAnswers(ctx, conn.Kept())
	}
	return nil
}

// recordAnswers waits until the record answers: the daemon that is asked may have to go over to the one that was made first.
func recordAnswers(ctx context.Context, store blob.Store) error {
	ctx, cancel := context.WithTimeout(ctx, remadeTimeout)
	defer cancel()
	t := time.NewTicker(queueEvery)
	defer t.Stop()
	for {
		_, err := control.New(store, "").ReadSpec(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("the record does not answer %s after it was made again: %w; run the command again", remadeTimeout, err)
		}
	}
}

// askForMembers is a member count for the command to carry; nothing is changed
// before its generation is.
func askForMembers(ctx context.Context, f *control.Folder, n int) (*cluster.CountChange, error) {
	if n == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c, err := f.AskForMembers(ctx, n)
	switch {
	case errors.Is(err, control.ErrNoSpec):
		return nil, usage("etcdadm seed STORE --version V --nodes N", "%w", err)
	case errors.Is(err, cluster.ErrSpec):
		return nil, usage("a cluster has 1, 3, 5, 7 or 9 members", "%w", err)
	}
	return c, err
}

// restore queues a restore of a backup.
func (q *queue) restore(ctx context.Context, f *control.Folder, r control.RestoreBackup, out, say io.Writer) error {
	adding, added := context.WithTimeout(ctx, storeTimeout)
	defer added()
	name, err := f.AddRestore(adding, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "added restore-backup command: %s\n", name)
	return q.await(ctx, f, name, out, say)
}

// wish queues a command of ours.
func (q *queue) wish(ctx context.Context, f *control.Folder, w control.Wish, out, say io.Writer) error {
	adding, added := context.WithTimeout(ctx, storeTimeout)
	defer added()
	name, err := f.AddWish(adding, w)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "added %s command: %s\n", w.Kind, name)
	return q.await(ctx, f, name, out, say)
}
