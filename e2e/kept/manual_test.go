package kept

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// Self-management is off: an etcd that was killed starts again, and a wiped host's member is not replaced until a person
// types what status offers. Turned on, the next one is replaced without a word.
func TestSelfManagementOff(t *testing.T) {
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true, Flags: []string{"--dead-after=8s"}})
	c.Host(1).FoundRecord(3)
	for n := 2; n <= 3; n++ {
		c.Host(n).Named()
	}
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	types := func(code int, words ...string) rig.Result {
		t.Helper()
		r := c.Etcdadm(append(words, "--data-dir", c.Host(1).Dir)...)
		if r.Code != code {
			t.Fatalf("%v: %s", words, r)
		}
		return r
	}
	types(cli.ExitOK, "auto-manage", "off", "--dry-run")
	if r := types(cli.ExitOK, "auto-manage", "status"); !strings.Contains(r.Stdout, "self-management: on") {
		t.Errorf("%s", r)
	}
	types(cli.ExitOK, "auto-manage", "off")
	w := c.Write()
	w.WaitFor(20)
	c.Host(3).KillEtcd()
	c.Host(3).Serves(rig.Soon)

	offered := func(n int, words ...string) {
		t.Helper()
		before := c.Listed()
		c.Host(n).Crash()
		c.Host(n).Wipe(false)
		c.Start(n)
		rig.Eventually(t, rig.Soon, "it is offered to replace it", func(context.Context) error {
			r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir)
			for _, words := range append(words, "self-management: off since", "! manual") {
				if r.Code != cli.ExitDegraded || !strings.Contains(r.Stdout, words) {
					return fmt.Errorf("%s", r)
				}
			}
			return nil
		})
		if after := c.Listed(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("the members were %x, and are %x", before, after)
		}
	}
	offered(3, "→ etcdadm apply replace-dead")
	types(cli.ExitOK, "apply", "replace-dead", "--dry-run")
	types(cli.ExitOK, "apply", "replace-dead", "--yes", "--wait", "60s")
	c.Voters(time.Minute, 1, 2, 3)
	c.KeptBy(time.Minute, 1, 2, 3)

	offered(2, "→ etcdadm apply replace-dead")
	w.WaitFor(20)
	types(cli.ExitOK, "auto-manage", "on")
	c.Voters(time.Minute, 1, 2, 3)
	if r := types(cli.ExitOK, "apply"); !strings.Contains(r.Stdout, "nothing waits for a person") {
		t.Errorf("%s", r)
	}
	w.End()
}
