package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"github.com/spf13/cobra"
)

// extractedFile is what extract prints for programs.
type extractedFile struct {
	snapshot.Extracted
	File    string `json:"file"`
	DataDir string `json:"dataDir"` // etcd's, of the stopped member
	Etcd    string `json:"etcd"`    // the release that applied the log
}

func snapshotExtractCommand(r *reach, program daemon.Program) *cobra.Command {
	var o fileRestore // its releases
	c := &cobra.Command{
		Use: "extract DATA-DIR FILE", Short: "Make a snapshot of the data directory of a stopped member",
		Long: `extract makes a snapshot of all that a stopped member has: its database, and every entry
of its log, since nobody can know which of the last ones were acknowledged. The
directory is etcd's, or a daemon's --data-dir, as of a copied volume; it is not changed.
Of several members of one cluster take the one whose log goes furthest: compare "last"
in -o json. For a cluster with daemons that lost its quorum use "etcdadm recover".`,
		Args: words(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			var done extractedFile
			err := tells(c, func(ctx context.Context) (err error) {
				ctx, cancel := context.WithTimeout(ctx, workTimeout)
				defer cancel()
				done, err = extractFile(ctx, &o, finderOf(program, o.releases), args[0], args[1])
				return err
			})
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), done, func(w io.Writer) {
				s := done.Survivor
				fmt.Fprintf(w, "made %s of member %s of cluster %s: last entry %d of term %d, %d of them not in its database before, revision %d, %s, %s\n",
					done.File, s.Member, s.Cluster, s.Last.Index, s.Last.Term, done.Applied, done.Info.Revision, keysWords(done.Info.Keys), sizeWords(done.Info.Size))
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.version, "etcd-version", "", "the release that the member ran; the default is the newest at hand that is of its minor release")
	f.StringSliceVar(&o.releases, "release-dir", nil, "directory with etcd releases (repeatable)")
	return c
}

func extractFile(ctx context.Context, o *fileRestore, finder *release.Finder, dir, file string) (extractedFile, error) {
	dir, ran, err := memberData(dir)
	if err != nil {
		return extractedFile{}, err
	}
	progress.Begin(ctx, 0, "", "reading the member's log and database")
	s, err := snapshot.SurvivorOf(ctx, dir)
	switch {
	case errors.Is(err, snapshot.ErrRunning):
		return extractedFile{}, &Failure{Code: ExitUnsafe, Err: err, Advice: "stop that etcd, or save a snapshot of it: etcdadm snapshot save"}
	case err != nil:
		return extractedFile{}, err
	}
	wrote := snapshot.Info{StorageVersion: s.StorageVersion, ClusterVersion: s.ClusterVersion}
	if wrote.StorageVersion == "" && !ran.IsZero() { // of a young cluster the database does not say it yet
		wrote.StorageVersion = ran.String()
	}
	with, err := o.tool(ctx, finder, wrote)
	if err != nil {
		return extractedFile{}, err
	}
	out := extractedFile{File: file, DataDir: dir, Etcd: with.Version}
	progress.Begin(ctx, 0, "", "applying the rest of the log")
	out.Extracted, err = snapshot.Extract(ctx, snapshot.ExtractOptions{DataDir: dir, File: file, Release: with})
	if errors.Is(err, snapshot.ErrExists) {
		return out, usage("name a file that does not exist; nothing is overwritten", "%w", err)
	}
	return out, err
}

// memberData is etcd's directory: the one that was named, or that of the member which a daemon's directory has, with the
// release that the daemon ran it by, or the only one up to two levels below, where charts have it on their volumes.
func memberData(dir string) (string, cluster.Version, error) {
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil {
		return dir, cluster.Version{}, nil
	}
	s, err := datadir.KnownState(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		below, err := memberBelow(dir, 2)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", cluster.Version{}, fmt.Errorf("look for a member's data: %w", err)
		case len(below) > 1:
			return "", cluster.Version{}, usage("name the one that is meant", "the data of several members are there: %s", strings.Join(below, ", "))
		case len(below) == 0:
			return "", cluster.Version{}, usage("name etcd's data directory, which has member/ in it, or a daemon's --data-dir", "%s has no member's data", dir)
		}
		return below[0], cluster.Version{}, nil
	case err != nil:
		return "", cluster.Version{}, err
	case s.Local.Token == "":
		return "", cluster.Version{}, usage("look into data-trashcan/ there for what was set aside", "the daemon of %s carries no member", dir)
	}
	return filepath.Join(dir, "data", s.Local.Token), s.Local.Version, nil
}

// memberBelow lists the directories with a member's data so many levels below one. What cannot be looked into is an error: it may have
// one, and so may a link. lost+found is the file system's, and data-trashcan is what a daemon set aside.
func memberBelow(dir string, levels int) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		below := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			if at, err := os.Stat(below); err == nil && !at.IsDir() {
				continue
			}
			return nil, usage("name the directory that is meant", "%s is a link, and may lead to a member's data", below)
		case !e.IsDir(), e.Name() == "lost+found", e.Name() == "data-trashcan":
			continue
		}
		if _, err := os.Stat(filepath.Join(below, "member")); err == nil {
			found = append(found, below)
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if levels > 1 {
			more, err := memberBelow(below, levels-1)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}
