package e2e

import (
	"os"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// The backup store goes away when a change of version was asked for, and again amid
// it, with one member of the new release. A person reads that, clients write on, no
// second member is down, and the change ends by itself once the store is back.
func TestStoreIsGoneAmidAVersionChange(t *testing.T) {
	if !*long {
		t.Skip("TestVersions is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{version: testetcd.V35})
	leader := c.leader(soon, c.host(1))
	w := c.write()
	away := c.store + ".away"
	outage := func() {
		t.Helper()
		if err := os.Rename(c.store, away); err != nil {
			t.Fatal(err)
		}
		c.blocked(leader, "the backup store cannot be read")
		w.waitFor(200)
		c.passes(8 * time.Second) // longer than between two restarts
		c.blocked(leader, "the backup store cannot be read")
		if up := c.answering(1, 2, 3); up < 2 {
			t.Errorf("%d members answer without the store", up)
		}
		if err := os.RemoveAll(c.store); err != nil { // nobody makes it anew
			t.Fatal(err)
		}
		if err := os.Rename(away, c.store); err != nil {
			t.Fatal(err)
		}
	}
	c.asks(testetcd.V36, 3)
	outage()
	c.midway(testetcd.V36, 1, 2, 3)
	outage()
	c.runs(2*time.Minute, 1, 2, 3)
	c.voters(soon, 1, 2, 3)
	w.check()
}

// answering counts the members that say how they are.
func (c *testCluster) answering(hosts ...int) (n int) {
	c.t.Helper()
	for _, h := range hosts {
		if _, err := c.status(c.t.Context(), h); err == nil {
			n++
		}
	}
	return n
}
