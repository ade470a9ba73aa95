package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"github.com/spf13/cobra"
)

// extraction is what backup extract was asked for.
type extraction struct {
	*backups
	releases fileRestore
	name     string
	fewer    bool
}

func (b *backups) extract(program daemon.Program) *cobra.Command {
	x := extraction{backups: b}
	c := &cobra.Command{
		Use: "extract DATA-DIR...", Short: "Make a backup of what stopped members of one cluster have",
		Long: `extract compares the data of stopped members of one cluster, and makes a backup of all that the
furthest of them has: its database, and every entry of its log. The directories are etcd's, or
daemons' --data-dir, as of copied volumes; they are not changed. What was acknowledged is on most of
the voters: of so many that one of those is among them the directories are needed.`,
		Args: words(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var done backupstore.Backup
			var of string
			err := tells(c, func(ctx context.Context) (err error) {
				ctx, cancel := context.WithTimeout(ctx, workTimeout)
				defer cancel()
				done, of, err = x.run(ctx, finderOf(program, x.releases.releases), args)
				return err
			})
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "made backup %s of %s\n", done.Name, of)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&x.name, "name", "", "name of the backup; else one of this time")
	f.BoolVar(&x.fewer, "accept-fewer", false, "also where the directories are of too few voters to know of all that was acknowledged; what only others have is lost")
	f.Var(dayDuration{&b.keepFor}, "keep-for", "keep it at least for so long, such as 1d, whatever the cluster keeps")
	f.StringVar(&x.releases.version, "etcd-version", "", "the release that the members ran; the default is the newest at hand that is of their minor release")
	f.StringSliceVar(&x.releases.releases, "release-dir", nil, "directory with etcd releases (repeatable)")
	return c
}

// stopped is a directory with what its member knows.
type stopped struct {
	dir string
	snapshot.Survivor
}

// furthest is the one of which the log goes furthest, with the members whose directories are named. All are of one cluster, and
// were not removed from it.
func furthest(ctx context.Context, dirs []string) (best stopped, of map[cluster.MemberID]bool, err error) {
	of = map[cluster.MemberID]bool{}
	for _, named := range dirs {
		dir, _, err := memberData(named)
		if err != nil {
			return best, nil, err
		}
		s, err := snapshot.SurvivorOf(ctx, dir)
		switch {
		case errors.Is(err, snapshot.ErrRunning):
			return best, nil, &Failure{Code: ExitUnsafe, Err: err, Advice: "stop that etcd first; of one that serves etcdadm backup create makes a backup"}
		case err != nil:
			return best, nil, err
		case s.Removed:
			return best, nil, &Failure{Code: ExitUnsafe, Err: fmt.Errorf("the member of %s was removed from its cluster", named), Advice: "leave that directory out"}
		case best.dir != "" && s.Cluster != best.Cluster:
			return best, nil, &Failure{Code: ExitUnsafe, Err: fmt.Errorf("%s is of cluster %s, and %s of cluster %s", best.dir, best.Cluster, named, s.Cluster), Advice: "name the directories of one cluster; what a cluster was before it was restored is another one"}
		case best.dir == "" || s.Last.Compare(best.Last) > 0:
			best = stopped{named, s}
		}
		of[s.Member] = true
	}
	return best, of, nil
}

// enough is nil where among the members that are known is one of each majority of the voters, so that the furthest of them has
// all that was acknowledged (SAFETY.md, rule 13).
func (s stopped) enough(known map[cluster.MemberID]bool) error {
	voters, seen := 0, 0
	for _, m := range s.Members {
		if m.Learner {
			continue
		}
		if voters++; known[m.ID] {
			seen++
		}
	}
	if need := voters - voters/2; seen < need {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("the data of %d of %d voters is named, and what was acknowledged is known to be in that of %d", seen, voters, need), Advice: "name the directories of the others; --accept-fewer gives up what only they have"}
	}
	return nil
}

func (x *extraction) run(ctx context.Context, finder *release.Finder, dirs []string) (done backupstore.Backup, of string, err error) {
	name := backup.Name(x.name)
	if x.name != "" {
		if name, err = backup.ParseName(x.name); err != nil {
			return done, "", usage("a name is as etcdadm backup list prints it", "%w", err)
		}
	}
	best, known, err := furthest(ctx, dirs)
	if err == nil && !x.fewer {
		err = best.enough(known)
	}
	if err != nil {
		return done, "", err
	}
	store, err := x.openBackups(ctx, nil, toWrite)
	if err != nil {
		return done, "", err
	}
	catalogue, at := backupstore.New(store), backup.Position{Revision: best.Revision, Term: best.Last.Term, Index: best.Last.Index}
	of = fmt.Sprintf("member %s of cluster %s, in %s: last entry %d of term %d", best.Member, best.Cluster, best.dir, at.Index, at.Term)
	if name != "" { // it may have been made before
		there, err := catalogue.Get(ctx, name)
		switch m := there.Manifest; {
		case err == nil && m != nil && m.Reason == backup.ReasonExtracted && m.ClusterID == best.Cluster && m.Position == at:
			return there, of, nil
		case err == nil:
			return done, "", fmt.Errorf("%w: %s is of something else", backupstore.ErrExists, name)
		case !errors.Is(err, backupstore.ErrNoBackup):
			return done, "", err
		}
	}
	work, err := os.MkdirTemp("", "extract-")
	if err != nil {
		return done, "", err
	}
	defer os.RemoveAll(work)
	file, err := extractFile(ctx, &x.releases, finder, best.dir, filepath.Join(work, "snapshot.db"))
	if err != nil {
		return done, "", err
	}
	done, err = x.upload(ctx, catalogue, name, at, file)
	return done, of, err
}

// upload makes a backup of a snapshot that was made of a member's data.
func (x *extraction) upload(ctx context.Context, to *backupstore.Catalogue, name backup.Name, at backup.Position, file extractedFile) (backupstore.Backup, error) {
	version, err := cluster.ParseVersion(file.Etcd)
	if err != nil {
		return backupstore.Backup{}, err
	}
	f, err := regular.Open(file.File)
	if err != nil {
		return backupstore.Backup{}, err
	}
	defer f.Close()
	s := file.Survivor
	return to.Write(ctx, backupstore.Request{
		Name: name, KeepFor: x.keepFor, Meta: backup.Meta{EtcdVersion: version},
		Manifest: backup.Manifest{ClusterID: s.Cluster, MemberID: s.Member, Reason: backup.ReasonExtracted, StorageVersion: file.Info.StorageVersion, Position: at},
	}, f)
}
