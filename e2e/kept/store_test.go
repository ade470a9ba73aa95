package kept

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/console"
)

// Who keeps the record is told, and who of them is not heard.
func TestStoreStatus(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true})
	c.Host(1).FoundRecord(3)
	c.Host(2).Named()
	c.Host(3).Named()
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	status := func(code, heard int, well bool) {
		t.Helper()
		rig.Eventually(t, rig.Soon, fmt.Sprintf("%d of 3 hosts that keep the record are heard", heard), func(context.Context) error {
			r := c.Etcdadm("store", "status", "-o", "json", "--data-dir", c.Host(2).Dir)
			var w console.Whereabouts
			if err := json.Unmarshal([]byte(r.Stdout), &w); err != nil {
				return fmt.Errorf("%w: %s", err, r)
			}
			if all, of := w.Keepers(); r.Code != code || w.In != console.KeptByHosts || !w.Read || all != 3 || of != heard || w.Well() != well {
				return fmt.Errorf("%s", r)
			}
			for _, h := range w.Hosts {
				if h.Same != h.Heard {
					return fmt.Errorf("%s", r)
				}
			}
			return nil
		})
	}
	status(cli.ExitOK, 3, true)
	c.Host(3).Crash()
	status(cli.ExitDegraded, 2, false)
	c.Start(3)
	status(cli.ExitOK, 3, true)
}
