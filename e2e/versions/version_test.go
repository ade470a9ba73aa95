package versions

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// Up over two lines and down again while clients write: nothing that was
// acknowledged is lost, no write fails for good, and every process but those of
// etcd stays.
func TestVersions(t *testing.T) {
	t.Parallel()
	testetcd.Binary(t, testetcd.V36)
	testetcd.Binary(t, testetcd.V37)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V35})
	w := c.Write()
	c.To(testetcd.V36, 1, 2, 3)
	if *rig.Long {
		c.To(testetcd.V37, 1, 2, 3)
		c.To(testetcd.V35, 1, 2, 3)
	}
	w.Check()
	w.NeverBack()
}

// A cluster of one has no other voter to wait for, and nobody who serves
// meanwhile: it is restarted in place, up and down.
func TestVersionsOfOne(t *testing.T) {
	t.Parallel()
	testetcd.Binary(t, testetcd.V35)
	testetcd.Binary(t, testetcd.V37)
	c := rig.Formed(t, 1, rig.Options{})
	w := c.Write()
	c.To(testetcd.V37, 1)
	if !*rig.Long {
		w.Check()
		w.NeverBack()
		return
	}
	c.To(testetcd.V35, 1)
	c.To(testetcd.V36, 1)
	w.Check()
	w.NeverBack()
}
