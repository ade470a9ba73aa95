package adopt

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A cluster of etcd-manager whose spec asks for 4 members of a later release is taken
// over, and runs on as it is. A host that is lost is replaced by the spare one, under the
// refused spec; nothing else comes of that, until it is one that is taken.
func TestAdoptionWithRefusedSpec(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 4, Flags: []string{"--dead-after=5s"}})
	x := c.FormTheirs(1, 2, 3)
	rig.Put(t, filepath.Join(c.Store, "control", "etcd-cluster-spec"), []byte(`{"memberCount": 4, "etcdVersion": "3.7.3"}`), 0o600)
	w := c.Write()
	for n := 1; n <= 3; n++ {
		c.TakeOver(x, n)
		w.WaitFor(10)
	}
	c.Generation(1, 1, 2, 3)
	c.Start(4)
	c.Blocked(c.Host(1), "a member count of 4 is even", "a dead voter is replaced after 5s")
	lost := c.Host(3)
	lost.Crash()
	lost.Wipe(false)
	began := time.Now()
	c.Voters(time.Minute, 1, 2, 4)
	t.Logf("the member was replaced %s after its host was lost", time.Since(began).Round(time.Second))
	c.Blocked(c.Host(1), "a member count of 4 is even", "a dead voter is replaced after 5s")
	// The record of the voters follows the change by a step; until then, status tells that step.
	rig.Eventually(t, rig.Soon, "status counts the voters", func(context.Context) error {
		if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); !strings.Contains(r.Stdout, "spec-refused") || !strings.Contains(r.Stdout, "3 of 3 voters are up") {
			return fmt.Errorf("the status is %s", r)
		}
		return nil
	})
	w.Check()
}
