package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/cluster"
)

// copyTries is how often the files of a running member are listed again, when one
// of them was taken away meanwhile: etcd 2 keeps five of each kind.
const copyTries = 5

// CopyV2 copies the log and raft's snapshots of a member of etcd 2, as its own
// `etcdctl backup` does. The member may be running: the log is copied first, so
// there is a raft snapshot that it goes on from, and what is being written at this
// moment may be missing at its end. Nothing may be at the place of the copy.
func CopyV2(ctx context.Context, dataDir, to string) (err error) {
	for range copyTries {
		if err = copyV2(ctx, dataDir, to); !errors.Is(err, os.ErrNotExist) {
			break
		}
		if e := os.RemoveAll(to); e != nil { // of this very call
			return e
		}
	}
	if err != nil {
		return fmt.Errorf("copy the data of etcd 2 in %s: %w", dataDir, err)
	}
	return nil
}

func copyV2(ctx context.Context, dataDir, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, part := range []string{"wal", "snap"} {
		from, dir := filepath.Join(dataDir, "member", part), filepath.Join(to, "member", part)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(from, "*."+part))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := copyFile(ctx, f, filepath.Join(dir, filepath.Base(f))); err != nil {
				return err
			}
		}
	}
	return nil
}

// RoomV2 refuses, with [ErrNoSpace], to begin on data of etcd 2 what the disk of a
// directory cannot hold: carried over key by key, they are copied, written again by an
// etcd of their own release and by the one of the other, and sealed or moved: four times
// the log and the newest raft snapshot, and the older ones once.
func RoomV2(dataDir, dir string) error {
	all, newest, err := sizesV2(dataDir)
	if err != nil {
		return err
	}
	return needSpace(dir, 3*newest+all)
}

// sizesV2 is how many bytes the log and all raft snapshots have, and the log and the
// newest one.
func sizesV2(dataDir string) (all, newest int64, err error) {
	for _, part := range []string{"wal", "snap"} {
		files, err := filepath.Glob(filepath.Join(dataDir, "member", part, "*."+part))
		if err != nil {
			return 0, 0, err
		}
		for i, f := range files {
			info, err := os.Stat(f)
			if errors.Is(err, os.ErrNotExist) { // taken away by the member that runs
				continue
			}
			if err != nil {
				return 0, 0, fmt.Errorf("see how large the data of etcd 2 are: %w", err)
			}
			all += info.Size()
			if part == "wal" || i == len(files)-1 { // names are in the order of terms and indexes
				newest += info.Size()
			}
		}
	}
	return all, newest, nil
}

// IdentityOf tells whose log lies in a data directory. It changes nothing.
func IdentityOf(dataDir string) (cluster.MemberID, cluster.ClusterID, error) {
	log, err := readLog(filepath.Join(dataDir, "member", "wal"), 0)
	if err != nil {
		return 0, 0, err
	}
	return log.member, log.cluster, nil
}
