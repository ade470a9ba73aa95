package daemon

import (
	"context"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/bounded"
	"golang.org/x/sys/unix"
)

const (
	// roomTimeout bounds a look at the disk.
	roomTimeout = 2 * time.Second
	// leftToEtcd is how much of the disk backups leave free, in bytes: twice etcd's usual quota. Of a small disk it is a tenth.
	leftToEtcd = 4 << 30
)

// roomFor tells why no backup is to be written to the disk of dir, nil if it may. It leaves the last of the disk to etcd: backups
// would fill the disks of all hosts at the same pace.
func roomFor(ctx context.Context, id cluster.HostID, dir string) error {
	st, err := bounded.Do(ctx, dir, roomTimeout, func() (st unix.Statfs_t, err error) { return st, unix.Statfs(dir, &st) })
	if err != nil {
		return fmt.Errorf("look how much room the disk has: %w", err)
	}
	free, left := float64(st.Bavail)*float64(st.Bsize), min(leftToEtcd, float64(st.Blocks)*float64(st.Bsize)/10)
	if free < left {
		return fmt.Errorf("the disk of host %s has %.1f GiB free, and backups leave %.1f GiB to etcd: remove old backups (etcdadm backup prune), or give it a larger disk", id, free/(1<<30), left/(1<<30))
	}
	return nil
}

// keptFor is the environment in which backups are kept for a shorter time where nobody says how long: they lie on etcd's disk.
func keptFor(getenv func(string) string) func(string) string {
	return func(name string) string {
		switch value := getenv(name); {
		case value == "" && name == backupstore.EnvHourly:
			return "24h"
		case value == "" && name == backupstore.EnvDaily:
			return "7d"
		default:
			return value
		}
	}
}
