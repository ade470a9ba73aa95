package backups

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// Etcd 3.4 restores with etcdctl, raises no revisions, and tells no hash without
// credentials: its backups are taken, tried out and restored all the same.
func TestBackupsOfOldEtcd(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	rig.BackUpAndRestore(t, testetcd.V34)
}
