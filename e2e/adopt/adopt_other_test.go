package adopt

import (
	"maps"
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

// A cluster that was started by hand, each member in a directory of its own, goes
// over host by host with `etcdadm adopt`, while a client writes.
func TestAdoptOther(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]rig.Options{"plain": {Hosts: 3}, "tls": {Hosts: 3, TLS: true}, "password": {Hosts: 3}} {
		t.Run(name, func(t *testing.T) {
			if name != "plain" {
				rig.TakesLong(t, "half a minute")
			}
			t.Parallel()
			c := rig.NewCluster(t, o)
			c.OneAuthority()
			x := c.FormByHand(1, 2, 3)
			id, members := x.MemberIDs()
			if name == "password" {
				c.AuthByHand()
			}
			w := c.Write()
			for n := 1; n <= 3; n++ {
				c.AdoptByHand(x, n)
				w.WaitFor(10)
			}
			c.Generation(1, 1, 2, 3)
			if gotID, got := x.MemberIDs(); gotID != id || !maps.Equal(got, members) {
				t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
			}
			x.StaysDown(1)
			w.Check()
		})
	}
}
