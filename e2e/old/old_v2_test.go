package old

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// Members of 2.3 have version 2 of the API only: three form a cluster, one grows
// to three, one that was killed and one whose disk was wiped come back.
func TestOldV2Members(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	for name, tls := range map[string]bool{"plain": false, "tls": true} {
		t.Run("three/"+name, func(t *testing.T) {
			t.Parallel()
			c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23, TLS: tls})
			c.Configure(3)
			c.Start(1, 2, 3)
			before := c.V2Voters(rig.Soon, 1, 2, 3)
			c.V2Put(c.Host(1), "a", "1")
			c.Host(2).KillEtcd()
			if after := c.V2Voters(rig.Soon, 1, 2, 3); !slices.Equal(before, after) {
				t.Errorf("the members were %v and are %v", before, after)
			}
			c.V2Has(c.Host(2), "a", "1")
		})
	}
	t.Run("one to three", func(t *testing.T) {
		t.Parallel()
		c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23})
		c.Configure(1)
		c.Start(1)
		c.V2Voters(rig.Soon, 1)
		c.V2Put(c.Host(1), "a", "1")
		c.Start(2, 3)
		c.Configure(3)
		before := c.V2Voters(90*time.Second, 1, 2, 3)
		c.V2Put(c.Host(3), "b", "2")
		c.Host(1).Crash()
		c.Host(1).Wipe(true)
		c.V2Put(c.Host(2), "c", "3")
		c.Host(1).Start()
		after := c.V2Voters(90*time.Second, 1, 2, 3)
		if before[0] == after[0] {
			t.Errorf("the wiped host 1 is member %s again", before[0])
		}
		for key, value := range map[string]string{"a": "1", "b": "2", "c": "3"} {
			c.V2Has(c.Host(1), key, value)
		}
	})
}
