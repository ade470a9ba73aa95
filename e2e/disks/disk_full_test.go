package disks

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

// The disk of one host is full. The others serve on, nothing that was
// acknowledged is lost, somebody is told, and with room again the host's member
// is a voter again without anybody's help, and is the same one.
func TestDiskIsFull(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	full := c.Host(3)
	full.SmallDisk(400 << 20)
	c.Configure(3)
	c.Start(1, 2, 3)
	before := c.Voters(rig.Soon, 1, 2, 3)
	w := c.Write()
	empty := full.FillUp()
	// etcd's log has room that it reserved, and its database writes pages of its
	// own: so it is given something to write until it ends or stands still.
	c.FillOthers(full, "big/", 80)
	w.WaitFor(100)
	full.Crash()
	full.Start() // a daemon that comes up on a full disk says so, and ends nothing
	w.WaitFor(100)
	rig.Eventually(t, rig.Soon, "the host with the full disk says so", func(context.Context) error {
		said := rig.Tail(full.Log, 400) + rig.Tail(filepath.Join(full.Dir, "logs", "etcd.log"), 100)
		if !strings.Contains(said, "no space left on device") {
			return errors.New("it does not")
		}
		return nil
	})
	empty()
	if !full.Running() {
		full.Start() // its supervisor would
	}
	rig.Same(t, before, c.Voters(rig.RestoreWithin, 1, 2, 3))
	w.Check()
}
