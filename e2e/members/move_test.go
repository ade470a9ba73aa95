package members

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// All three voters are moved to three other hosts while clients write: the spec names those,
// and the daemons do the rest, with a voter more at times and never one less.
func TestVotersMoveToTheHostsThatAreNamed(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 6})
	c.Start(4, 5, 6)
	w := c.Write()
	c.Voters(rig.Soon, 1, 2, 3)
	var names []string
	for _, n := range []int{4, 5, 6} {
		c.Leader(rig.Soon, c.Host(n)) // it is up
		names = append(names, string(c.Host(n).ID()))
	}
	r := c.Etcdadm("seed", c.StoreURL(), "--hosts", strings.Join(names, ","), "--yes")
	if r.Code != 0 || !strings.Contains(r.Stderr, "hosts: any → ") {
		t.Fatal(r)
	}
	c.Voters(2*time.Minute, 4, 5, 6)
	for _, n := range []int{1, 2, 3} {
		c.Free(rig.Soon, c.Host(n), c.Host(4))
	}
	failed := w.Failed()
	w.Check()
	if w.Longest > 2*time.Second { // who tries again at once succeeds
		t.Errorf("nothing could be written for %s", w.Longest)
	}
	if failed > 3*3 { // what was under way through a member that ends, once for each
		t.Errorf("%d writes failed", failed)
	}
}
