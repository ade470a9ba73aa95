package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// fileRestore is a restore of a file into a directory.
type fileRestore struct {
	dir, name, token, version string
	peers, releases           []string
	bump                      int64
	dryRun, copied            bool
}

// restoredFile is what it prints for programs.
type restoredFile struct {
	snapshot.Restored
	DataDir  string   `json:"dataDir"`
	Name     string   `json:"name"`
	PeerURLs []string `json:"peerURLs"`
	Token    string   `json:"token"`
	Tool     string   `json:"tool"` // the release whose tool restores
	DryRun   bool     `json:"dryRun,omitempty"`
}

func snapshotRestoreCommand(r *reach, program daemon.Program) *cobra.Command {
	var o fileRestore
	c := &cobra.Command{
		Use: "restore FILE --data-dir-out DIR --name NAME --peer-url URL", Short: "Make the data directory of a new cluster with one member from a snapshot",
		Long: `restore creates a data directory for an etcd that you run by hand. For a cluster run
by daemons use "etcdadm restore NAME". The new cluster has one member; add others as
learners. Revisions continue 1000000000 (or --bump-revision) above the snapshot's, so
that clients which have seen higher ones notice.`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var done restoredFile
			err := tells(c, func(ctx context.Context) (err error) {
				done, err = o.runWithin(ctx, workTimeout, args[0], finderOf(program, o.releases))
				return err
			})
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), done, func(w io.Writer) { printRestored(w, done) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.dir, "data-dir-out", "", "the data directory to create; it must not exist")
	f.StringVar(&o.name, "name", "", "name of the member")
	f.StringSliceVar(&o.peers, "peer-url", nil, "where other members will reach it, such as https://192.0.2.1:2380 (repeatable)")
	f.StringVar(&o.token, "token", "", "token of the new cluster; the default is random, so that it has a cluster ID of its own")
	f.Int64Var(&o.bump, "bump-revision", 1_000_000_000, "by how much revisions are raised; 0 leaves them")
	f.StringVar(&o.version, "etcd-version", "", "the release whose tool restores; the default is the newest at hand that is of the snapshot's minor release")
	f.StringSliceVar(&o.releases, "release-dir", nil, "directory with etcd releases (repeatable)")
	withoutHash(c, &o.copied)
	f.BoolVar(&o.dryRun, "dry-run", false, "check everything and print what would be created, but create nothing")
	return c
}

// runWithin says that it was the bound which ended the restore, and what to do.
func (o *fileRestore) runWithin(ctx context.Context, bound time.Duration, file string, finder *release.Finder) (restoredFile, error) {
	over := fmt.Errorf("the restore was not over in %s: %w", bound, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, over)
	defer cancel()
	done, err := o.run(ctx, file, finder)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), over) {
		return done, err
	}
	if !errors.Is(err, over) {
		err = fmt.Errorf("%w: %w", over, err)
	}
	return done, &Failure{Code: ExitError, Err: err, Advice: "check that the disk answers; etcd's program was stopped, nothing is left behind, and you can run the command again"}
}

func (o *fileRestore) run(ctx context.Context, file string, finder *release.Finder) (restoredFile, error) {
	var out restoredFile
	switch {
	case o.dir == "" || o.name == "" || len(o.peers) == 0:
		return out, usage("such as --data-dir-out /var/lib/etcd --name a --peer-url https://192.0.2.1:2380", "say where to and who it is: --data-dir-out, --name and --peer-url")
	case o.bump < 0:
		return out, usage("revisions never go back", "--bump-revision=%d is negative", o.bump)
	}
	info, err := lookInto(ctx, file, o.copied)
	if err != nil {
		return out, err
	}
	tool, err := o.tool(ctx, finder, info)
	if err != nil {
		return out, err
	}
	o.token = cmp.Or(o.token, "etcdadm-"+host.Mint())
	out = restoredFile{DataDir: o.dir, Name: o.name, PeerURLs: o.peers, Token: o.token, Tool: tool.Version, DryRun: o.dryRun}
	if o.dryRun {
		out.From, out.Revision = info.Revision, info.Revision+o.bump
		_, err := snapshot.RestoreTool(tool)
		return out, err
	}
	options := snapshot.RestoreOptions{
		Snapshot: file, Verified: info.SHA256, DataDir: o.dir, Release: tool, Name: o.name, PeerURLs: o.peers, Token: o.token,
	}
	if o.bump > 0 {
		options.Revision = info.Revision + o.bump
	}
	if info.Copied { // the tools of etcd insist on the hash
		if options.Snapshot, err = hashed(ctx, file, filepath.Dir(filepath.Clean(o.dir))); err != nil {
			return out, err
		}
		defer os.Remove(options.Snapshot)
		options.UseUp = true
	}
	out.Restored, err = snapshot.Restore(ctx, options)
	if errors.Is(err, snapshot.ErrExists) {
		return out, usage("name a directory that does not exist; nothing is overwritten", "%w", err)
	}
	return out, err
}

// hashed makes a file in dir of a copied database with its SHA-256 behind it.
func hashed(ctx context.Context, file, dir string) (string, error) {
	from, err := regular.Open(file)
	if err != nil {
		return "", fmt.Errorf("copy the database: %w", err)
	}
	defer from.Close()
	st, err := from.Stat()
	if err != nil {
		return "", fmt.Errorf("copy the database: %w", err)
	}
	if err := snapshot.NeedSpace(dir, st.Size(), 0); err != nil {
		return "", fmt.Errorf("copy the database: %w", err)
	}
	to, err := os.CreateTemp(dir, ".etcdadm-copied-*")
	if err != nil {
		return "", fmt.Errorf("copy the database: %w", err)
	}
	step := progress.Begin(ctx, st.Size(), progress.Bytes, "copying %s", file)
	_, err = io.Copy(to, snapshot.WithHash(&counting{interruptible{ctx, from}, step}))
	if err = errors.Join(err, to.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("copy the database: %w", err), os.Remove(to.Name()))
	}
	return to.Name(), nil
}

// interruptible ends a copy with its context.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// tool is the release that restores: the one that was named, or the newest at
// hand of the minor release that the database is of.
func (o *fileRestore) tool(ctx context.Context, finder *release.Finder, info snapshot.Info) (release.Release, error) {
	progress.Begin(ctx, 0, "", "looking for the etcd to restore with")
	wrote, err := cluster.ParseVersion(cmp.Or(info.StorageVersion, info.ClusterVersion))
	if o.version != "" {
		named, wrong := cluster.ParseVersion(o.version)
		if wrong != nil {
			return release.Release{}, usage("such as --etcd-version 3.6.16", "%w", wrong)
		}
		// Its tool would make a directory all the same, and what becomes of it is not known.
		if why := plan.RestoresTo(wrote, named); err == nil && why != "" {
			return release.Release{}, &Failure{Code: ExitUnsafe, Err: errors.New(why), Advice: fmt.Sprintf("name a release of etcd %d.%d, or none; change the version of the cluster afterwards", wrote.Major, wrote.Minor)}
		}
		return finder.Find(ctx, o.version)
	}
	if err != nil {
		return release.Release{}, usage("name the release that wrote it: --etcd-version", "the snapshot does not say which etcd wrote it")
	}
	look, cancel := context.WithTimeout(ctx, releasesTimeout)
	defer cancel()
	list, passed, err := finder.List(look)
	if err != nil {
		return release.Release{}, err
	}
	var best cluster.Version
	for _, r := range list {
		if v, err := cluster.ParseVersion(r.Asked); err == nil && v.SameMinor(wrote) && v.Compare(best) > 0 {
			best = v
		}
	}
	if best.IsZero() {
		none := fmt.Errorf("there is no etcd %d.%d at hand, which wrote the snapshot", wrote.Major, wrote.Minor)
		for _, p := range passed {
			if v, err := cluster.ParseVersion(p.Version); err == nil && v.SameMinor(wrote) {
				none = fmt.Errorf("%w; %s will not do: %w", none, p.Path, p.Reason)
			}
		}
		return release.Release{}, &Failure{Code: ExitError, Err: none, Advice: "name a directory that has it with --release-dir, or another release with --etcd-version"}
	}
	return finder.Find(ctx, best.String())
}

func printRestored(w io.Writer, r restoredFile) {
	verb := "made"
	if r.DryRun {
		verb = "would make"
	}
	fmt.Fprintf(w, "%s %s with etcd %s's tool: revision %d becomes %d\n", verb, r.DataDir, r.Tool, r.From, r.Revision)
	if r.RevisionsGoBack {
		fmt.Fprintln(w, "this release cannot raise revisions: restart every client that watches or caches")
	}
	if r.DryRun {
		return
	}
	fmt.Fprintf(w, "member %s of cluster %s\n", r.Member, r.Cluster)
	fmt.Fprintf(w, "start it: etcd --name %s --data-dir %s --initial-advertise-peer-urls %s --listen-peer-urls … --advertise-client-urls … --listen-client-urls …\n", r.Name, r.DataDir, r.PeerURLs[0])
}
