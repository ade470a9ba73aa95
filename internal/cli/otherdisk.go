package cli

import (
	"errors"

	"etcdadm.io/internal/console"
)

// otherDisk refuses to ask by a data directory that is not this machine's.
func (r *reach) otherDisk(a console.Access) error {
	err := console.CheckDisk(r.dataDir, a, r.clusterName)
	if told := (*console.DiskError)(nil); errors.As(err, &told) {
		return &Failure{Code: ExitNoCluster, Err: err, Advice: told.Hint()}
	}
	return err
}
