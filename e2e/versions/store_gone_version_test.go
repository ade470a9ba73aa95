package versions

import (
	"os"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// The backup store goes away when a change of version was asked for, and again amid
// it, with one member of the new release. A person reads that, clients write on, no
// second member is down, and the change ends by itself once the store is back.
func TestStoreIsGoneAmidAVersionChange(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestVersions is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V35})
	leader := c.Leader(rig.Soon, c.Host(1))
	w := c.Write()
	away := c.Store + ".away"
	outage := func() {
		t.Helper()
		if err := os.Rename(c.Store, away); err != nil {
			t.Fatal(err)
		}
		c.Blocked(leader, "the backup store cannot be read")
		w.WaitFor(200)
		c.Passes(8 * time.Second) // longer than between two restarts
		c.Blocked(leader, "the backup store cannot be read")
		if up := c.Answering(1, 2, 3); up < 2 {
			t.Errorf("%d members answer without the store", up)
		}
		if err := os.RemoveAll(c.Store); err != nil { // nobody makes it anew
			t.Fatal(err)
		}
		if err := os.Rename(away, c.Store); err != nil {
			t.Fatal(err)
		}
	}
	c.Asks(testetcd.V36, 3)
	outage()
	c.Midway(testetcd.V36, 1, 2, 3)
	outage()
	c.Runs(2*time.Minute, 1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
}
