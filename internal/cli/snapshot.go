package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/snapshot"
	"github.com/spf13/cobra"
)

// savedSnapshot is what save prints for programs.
type savedSnapshot struct {
	File string `json:"file"`
	// From is the client URL of the member that was read.
	From    string          `json:"from"`
	Version cluster.Version `json:"etcdVersion"`
	// Stale: the member had no quorum, and others may have had more.
	Stale bool `json:"stale,omitempty"`
	snapshot.Info
}

func saveCommand(r *reach) *cobra.Command {
	e := etcdFlags{reach: r}
	c := &cobra.Command{
		Use: "save FILE", Short: "Save a snapshot of a running etcd into a file, and check all of it",
		Long: `save copies one member's database, a follower's if possible, into a new file that
etcd's own tools can read. The file appears once it is complete and checked. Name the
member by a daemon's --data-dir or by --etcd-endpoints.`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var saved savedSnapshot
			err := tells(c, func(ctx context.Context) (err error) {
				saved, err = e.save(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), saved, func(w io.Writer) {
				fmt.Fprintf(w, "saved %s of %s: etcd %s, revision %d, %s, %s\n", saved.File, saved.From, saved.Version, saved.Revision, keysWords(saved.Keys), sizeWords(saved.Size))
				if saved.Stale {
					fmt.Fprintln(w, "that member has no quorum: what the others acknowledged without it is missing")
				}
			})
		},
	}
	e.flags(c)
	return c
}

func (e *etcdFlags) save(ctx context.Context, file string) (savedSnapshot, error) {
	var out savedSnapshot
	if _, err := os.Lstat(file); err == nil {
		return out, usage("name a file that does not exist", "%s exists already", file)
	}
	m, err := e.pick(ctx)
	if err != nil {
		return out, err
	}
	defer m.client.Close()
	s, err := m.client.Snapshot(ctx)
	if err != nil {
		return out, fmt.Errorf("read the database of %s: %w", m.url, err)
	}
	defer s.Close()
	out = savedSnapshot{File: file, From: m.url, Version: m.status.Version, Stale: !m.status.Healthy && !m.status.Auth}
	out.Info, err = saveNew(ctx, file, &counting{s, progress.Begin(ctx, 0, progress.Bytes, "reading the database of %s", m.url)})
	return out, err
}

// counting counts what is read.
type counting struct {
	io.Reader
	step *progress.Step
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.step.Add(int64(n))
	return n, err
}

// saveNew makes a file of a snapshot's stream, once all of it was checked.
func saveNew(ctx context.Context, file string, s io.Reader) (snapshot.Info, error) {
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*") // for its owner only
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) { // its name is another each time, and tells nothing
			err = path.Err
		}
		return snapshot.Info{}, &Failure{Code: ExitError, Err: fmt.Errorf("save the snapshot: make a file in %s: %w", dir, err), Advice: "name a file in an existing directory that this user can write"}
	}
	defer os.Remove(f.Name()) // what is left of a failure, and the second name of what was saved
	defer f.Close()
	if _, err := io.Copy(f, s); err != nil {
		return snapshot.Info{}, fmt.Errorf("save the snapshot: %w", err)
	}
	if err := f.Sync(); err != nil {
		return snapshot.Info{}, fmt.Errorf("save the snapshot: %w", err)
	}
	info, err := snapshot.Verify(ctx, f.Name())
	if err != nil {
		return snapshot.Info{}, err
	}
	// A link, unlike a rename, never replaces what is there.
	if err := os.Link(f.Name(), file); err != nil {
		return snapshot.Info{}, fmt.Errorf("save the snapshot: %w", err)
	}
	return info, durable.SyncDir(dir)
}

func snapshotStatusCommand(r *reach) *cobra.Command {
	var copied bool
	c := &cobra.Command{
		Use: "status FILE", Short: "Check a snapshot, and show what is in it",
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var info snapshot.Info
			err := tells(c, func(ctx context.Context) (err error) {
				info, err = lookInto(ctx, args[0], copied)
				return err
			})
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), info, func(w io.Writer) { printInfo(w, info) })
		},
	}
	withoutHash(c, &copied)
	return c
}

// withoutHash is the flag of commands that take a copied database for a snapshot.
func withoutHash(c *cobra.Command, on *bool) {
	c.Flags().BoolVar(on, "without-hash", false, "take a copied database file (member/snap/db), which has no SHA-256 of its own: all of its pages and records are checked instead; writes that only the member's log had are missing in it")
}

// verifier checks a snapshot, and, where copied is set, also a copied database.
func verifier(copied bool) func(context.Context, string) (snapshot.Info, error) {
	if copied {
		return snapshot.VerifyCopied
	}
	return snapshot.Verify
}

// lookInto verifies a file; one that cannot be relied on is refused with its own
// exit code.
func lookInto(ctx context.Context, file string, copied bool) (snapshot.Info, error) {
	info, err := verifier(copied)(ctx, file)
	switch {
	case errors.As(err, new(*snapshot.PackedError)):
		return info, packedFailure(err)
	case errors.Is(err, snapshot.ErrNoHash):
		return info, &Failure{Code: ExitUnsafe, Err: err, Advice: "take a snapshot: etcdadm snapshot save FILE. If only the copied database is left, --without-hash checks all of its pages and takes it; writes that only the member's log had are missing in it"}
	case errors.Is(err, snapshot.ErrDamaged):
		return info, &Failure{Code: ExitUnsafe, Err: err, Advice: "do not rely on it; etcdadm backup list shows others"}
	}
	return info, err
}

// packedFailure is what to do about a file that a backup is kept in.
func packedFailure(err error) error {
	return &Failure{Code: ExitError, Err: err, Advice: "unpack it first, or have etcdadm backup download NAME FILE do that"}
}

func printInfo(w io.Writer, i snapshot.Info) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if i.Copied {
		row("verified", "every page and every record was read; it has no SHA-256 of its own, and writes that only the member's log had are missing")
	} else {
		row("verified", "the database agrees with its SHA-256, and every record was read")
	}
	row("sha256", "%s (of the file)", i.FileSHA256)
	row("size", "%s of the database", sizeWords(i.Size))
	row("revision", "%d", i.Revision)
	if i.CompactRevision >= 0 {
		row("compacted", "%d", i.CompactRevision)
	}
	if i.Keys < 0 {
		row("keys", "more than can be counted")
	} else {
		row("keys", "%d", i.Keys)
	}
	row("records", "%d", i.Records)
	if i.HashKVTold {
		row("hashkv", "%d (as etcdctl endpoint hashkv prints it)", i.HashKV)
	}
	row("version", "cluster %s, storage %s", orNone(i.ClusterVersion), cmp.Or(i.StorageVersion, "before 3.6"))
	auth := "off"
	if i.AuthEnabled {
		auth = "on"
	}
	row("auth", "%s, %s, %s", auth, counted(i.Users, "user"), counted(i.Roles, "role"))
	row("leases", "%d", i.Leases)
	if i.Alarms > 0 {
		row("alarms", "%d: a restored member has them, too", i.Alarms)
	}
	for _, m := range i.Members {
		row("member", "%s %s %s", m.ID, m.Name, first(m.PeerURLs))
	}
}
