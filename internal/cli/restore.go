package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// restoration is what restore was asked for.
type restoration struct {
	queue
	members                                   int
	version, from, dir, loss                  string
	noBackup, back, acceptDamage, acceptOlder bool
}

// restoreCommand makes a new generation of the cluster from a backup, or from
// data that was set aside.
func restoreCommand() *cobra.Command {
	var r restoration
	c := &cobra.Command{
		Use:   "restore NAME | restore --undo --from HOST --dir DIRECTORY",
		Short: "Make the cluster what it was in a backup, or before it was restored",
		Long: `restore queues a command in the backup store. The leading daemon checks the backup
first, backs up the running cluster, stops it, starts a new generation on one host
from the backup, and lets the others join. Revisions continue above those that
clients have seen; leases and users are kept. Writes since the backup are not in it.
The replaced data is set aside, and "restore --undo" goes back to it.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if r.back == (len(args) == 1) || r.back && (r.from == "" || r.dir == "") {
				return usage("etcdadm backup list prints the names of backups, etcdadm status what was set aside", "name a backup, or what to go back to: --undo --from HOST --dir DIRECTORY")
			}
			if c.Flags().Changed("members") && !membersOf(r.members) {
				return usage("a cluster has 1, 3, 5, 7 or 9 members", "--members %d is no number of members", r.members)
			}
			return r.run(c.Context(), first(args), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	r.queueFlags(c)
	r.lostFlag(c)
	c.Flags().IntVar(&r.members, "members", 0, "number of members wanted from then on; it is changed together with the data, and not when the command is refused")
	c.Flags().StringVar(&r.version, "to-version", "", "etcd version of the restored cluster")
	c.Flags().StringVar(&r.loss, "accept-loss", "", "with --to-version, from a backup of etcd 2 to version 3: accept the list of what cannot be carried over key by key, by its digest; the refused command tells both")
	c.Flags().BoolVar(&r.noBackup, "no-backup", false, "do not back up the running cluster before")
	c.Flags().BoolVar(&r.acceptDamage, "accept-damage", false, "allow a backup that backup list shows as BAD; its snapshot is checked against its checksum first")
	c.Flags().BoolVar(&r.acceptOlder, "accept-older", false, "with --undo: also where another host set aside data of the same cluster that goes further")
	c.Flags().BoolVar(&r.back, "undo", false, "go back to data that was set aside; what was written since is not in it")
	c.Flags().StringVar(&r.from, "from", "", "with --undo: the host that set it aside")
	c.Flags().StringVar(&r.dir, "dir", "", "with --undo: the directory, as etcdadm status shows it")
	return c
}

// run says what the command gives up, and queues it with --yes.
func (r *restoration) run(ctx context.Context, name string, out, say io.Writer) error {
	o, err := r.look(ctx)
	if err != nil && r.store == "" && r.control == "" {
		return err
	}
	asks := !r.yes || r.dryRun
	if !asks {
		if err := r.refuseAlive(ctx); err != nil {
			return err
		}
	}
	f, err := r.folder(ctx, o, readIf(asks))
	if err != nil {
		return err
	}
	store, err := r.openBackups(ctx, o, toRead)
	if err != nil {
		return err
	}
	var b backupstore.Backup
	if !r.back {
		if b, err = r.find(ctx, store, name, say); err != nil {
			return err
		}
	}
	if _, err := r.flags(); err != nil {
		return err
	}
	if err := r.remake(ctx, o, say, asks); err != nil { // after all that a slip in the command would end
		return err
	}
	var spec cluster.Spec
	var drops givenUp
	var aside undoing
	if r.back {
		aside, drops.what, err = r.setAside(ctx, o, say)
	} else {
		spec, drops, err = r.backup(ctx, store, f, b, say)
	}
	if err != nil {
		return err
	}
	if asks {
		drops.print(say, o, r.servedNow(ctx, o))
	}
	remindOfAPIServer(say)
	if asks && !r.dryRun {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued"), Advice: "add --yes to go on"}
	}
	if err := aside.refuse(); err != nil && !r.acceptOlder {
		return err
	}
	if asks {
		if err := r.refuseAlive(ctx); err != nil {
			return err
		}
	}
	count, err := askForMembers(ctx, f, r.members)
	switch {
	case err != nil:
		return err
	case r.dryRun:
		would := wouldQueue{Command: cluster.CommandRestore, Of: drops.what, Lost: r.lostHosts(), Members: r.members}
		if r.back {
			would.Command = cluster.CommandUndo
		}
		return r.print(out, would, would.print)
	case r.back:
		return r.wish(ctx, f, control.Wish{Kind: cluster.CommandUndo, Host: cluster.HostID(r.from), Dir: r.dir, Lost: r.lostHosts(), Count: count, Seen: aside.seen(o, r.acceptOlder), By: whoTypes()}, out, say)
	}
	asked := control.RestoreBackup{Backup: name, Spec: spec, Lost: r.lostHosts(), Count: count, By: whoTypes()}
	if asked.Flags, err = r.flags(); err != nil {
		return err
	}
	return r.restore(ctx, f, asked, out, say)
}

// find looks the backup up, and refuses one that cannot be restored.
func (r *restoration) find(ctx context.Context, store blob.Store, name string, say io.Writer) (backupstore.Backup, error) {
	b, err := findBackup(ctx, backupstore.New(store), name)
	if err == nil {
		err = doubts(say, b, r.acceptDamage)
	}
	if err == nil {
		err = restorable(b, r.version)
	}
	return b, err
}

// backup says what a restore of the backup comes to, and warns of what comes with it.
func (r *restoration) backup(ctx context.Context, store blob.Store, f *control.Folder, b backupstore.Backup, say io.Writer) (spec cluster.Spec, drops givenUp, err error) {
	if !r.yes || r.dryRun {
		drops = ofBackup(ctx, backupstore.New(store), b)
	}
	drops.what = "the backup " + b.Name.String()
	warnOther(ctx, say, f, b)
	if spec, err = restoredSpec(ctx, f, b); err != nil {
		return spec, drops, err
	}
	warnIndexes(say, b.Version(), r.version)
	warnWanted(say, b, spec.EtcdVersion, r.version)
	return spec, drops, nil
}

// setAside looks the directory up to go back to, and says what that drops.
func (r *restoration) setAside(ctx context.Context, o *cluster.Observation, say io.Writer) (back undoing, of string, err error) {
	known, inSight := setAsideBy(o, cluster.HostID(r.from))
	if r.dir, err = r.asideName(r.dir, known, inSight); err != nil {
		return back, "", err
	}
	back = r.undo(ctx, r.from, r.dir)
	back.tell(say)
	warnIndexes(say, back.aside.Version, "")
	return back, fmt.Sprintf("what host %s set aside as %s", r.from, r.dir), nil
}

// flags are those of the command in the store.
func (r *restoration) flags() (flags []string, err error) {
	if r.noBackup {
		flags = append(flags, control.FlagNoBackup)
	}
	if r.version != "" {
		v, err := cluster.ParseVersion(r.version)
		if err != nil {
			return nil, usage("such as --to-version 3.6.16", "%w", err)
		}
		flags = append(flags, control.VersionFlag(v))
	}
	if r.loss != "" {
		flags = append(flags, control.AcceptLossFlag(r.loss))
	}
	return flags, nil
}

// restorable refuses a release that cannot begin with the backup.
func restorable(b backupstore.Backup, version string) error {
	if version == "" {
		return nil
	}
	to, err := cluster.ParseVersion(version)
	if err != nil {
		return usage("such as --to-version 3.6.16", "%w", err)
	}
	if why := plan.RestoresTo(b.Version(), to); why != "" {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued: " + why), Advice: "restore without --to-version, then run etcdadm upgrade"}
	}
	return nil
}

// doubts refuses a backup without a snapshot, and says what speaks against one:
// that has to be accepted in so many words. Whether the snapshot itself is good
// the daemons see, before they touch anything.
func doubts(w io.Writer, b backupstore.Backup, accept bool) error {
	doubt := b.Doubt()
	switch {
	case b.File == "":
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("backup %s cannot be restored from: %s", b.Name, doubt), Advice: "etcdadm backup list prints the others"}
	case doubt == "":
		return nil
	case !accept:
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("nothing was queued: backup %s is BAD: %s", b.Name, doubt),
			Advice: "etcdadm backup list prints the others; etcdadm backup drill " + b.Name.String() + " tries this one out; --accept-damage restores from it if its snapshot agrees with its own checksum"}
	}
	warnDoubt(w, b)
	return nil
}

func warnDoubt(w io.Writer, b backupstore.Backup) {
	if doubt := b.Doubt(); doubt != "" {
		fmt.Fprintf(w, "warning: backup %s is BAD: %s. It is restored from if its snapshot agrees with its own checksum\n", b.Name, doubt)
	}
}

// warnWanted says that the release that is wanted does not read the backup, which does not
// keep it from being restored.
func warnWanted(w io.Writer, b backupstore.Backup, wanted cluster.Version, asked string) {
	wrote := b.Version()
	if asked != "" || wrote.IsZero() || wanted.IsZero() || plan.RestoresTo(wrote, wanted) == "" {
		return
	}
	fmt.Fprintf(w, "etcd %s, which the spec asks for, cannot read this backup of etcd %s: it is restored with etcd %d.%d, and then changed to %s as far as etcd can go\n", wanted, wrote, wrote.Major, wrote.Minor, wanted)
}

// warnOther says that a backup is of a cluster that this store has no record of: it can be
// restored, and everything that this cluster holds is replaced by another one's data.
// Where the record cannot be read, or is not there, nothing is known against it.
func warnOther(ctx context.Context, w io.Writer, f *control.Folder, b backupstore.Backup) {
	m := b.Manifest
	if m == nil || m.ClusterID == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r, err := f.ReadRecord(ctx)
	if err != nil || len(r.Clusters) == 0 || slices.ContainsFunc(r.Clusters, func(c control.ClusterRecord) bool { return c.Cluster == m.ClusterID }) {
		return
	}
	fmt.Fprintf(w, "warning: backup %s is of cluster %s, named %q, which this store's record does not list: it is another cluster's, or older than the record. It would replace the keys of this cluster\n", b.Name, m.ClusterID, m.Cluster)
}

// warnIndexes says what no tool can spare clients of version 2. A backup of it begins one
// of its own line unless a person asks for another.
func warnIndexes(w io.Writer, wrote cluster.Version, to string) {
	if to == "" && !wrote.IsZero() && !wrote.Has(cluster.V3API) {
		to = wrote.String()
	}
	if v, err := cluster.ParseVersion(to); err == nil && !v.Has(cluster.V3API) {
		fmt.Fprintf(w, "warning: etcd %s has no tool that raises indexes, so indexes start over. A client that waits from an index it saw before will miss writes: restart clients that watch\n", v)
	}
}
