package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A daemon's ports are flooded from several addresses: by thousands of connections that say
// nothing, half of a handshake, garbage, requests that do not end, and messages as large
// as there may be. The cluster goes on as if nothing was, people are answered, the daemon
// takes a bounded amount of memory and files, and its log tells once what it refuses.
func TestFlood(t *testing.T) {
	t.Parallel()
	for _, withTLS := range []bool{true, false} {
		t.Run(fmt.Sprintf("tls=%t", withTLS), func(t *testing.T) {
			if !withTLS && !*rig.Long {
				t.Skip("once is enough for every day: -e2e.long")
			}
			c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: withTLS})
			h := c.Host(1)
			h.Flags = []string{fmt.Sprintf("--etcd-manager-metrics-port=%d", rig.PortMetrics+c.Block.Shift)}
			c.Configure(3)
			c.Start(1, 2, 3)
			members := c.Voters(2*rig.Soon, 1, 2, 3)
			c.Agree()
			w := c.Write()
			pids, daemon := c.Pids(), h.Cmd.Process.Pid
			before, lines := h.Uses(), strings.Count(string(rig.FileAt(t, h.Log)), "\n")

			each, wanted := 32, int64(1000) // well beyond the bound of an address, from two of them
			if *rig.Long {
				each, wanted = 45, 3000
			}
			began := time.Now()
			f, stop := c.FloodAt(h, each)
			most := before
			rig.Eventually(t, 2*rig.Soon, fmt.Sprintf("%d connections", wanted), func(context.Context) error {
				if now := h.Uses(); now.Files > most.Files {
					most = now
				}
				if n := f.Opened.Load(); n < wanted || time.Since(began) < 6*time.Second { // longer than half a handshake may take
					return fmt.Errorf("%d were opened", n)
				}
				return nil
			})
			for _, on := range c.Hosts { // while it goes on
				rig.Eventually(t, rig.Soon, fmt.Sprintf("a person is answered by host %d", on.N), func(context.Context) error {
					if r := c.Etcdadm("status", "--data-dir", on.Dir); r.Code != cli.ExitOK && r.Code != cli.ExitDegraded {
						return fmt.Errorf("%s", r)
					}
					return nil
				})
			}
			w.WaitFor(20)
			led := c.Agree()
			stop()
			after := h.Uses()
			t.Logf("%d connections and %d MiB in %s; memory of the daemon: %d MiB before, %d at most, %d after; files: %d before, %d at most; host %d leads",
				f.Opened.Load(), f.Bytes.Load()>>20, time.Since(began).Round(time.Second), before.Now, after.Most, after.Now, before.Files, most.Files, led.N)
			if after.Most > before.Most+rig.FloodMemory || most.Files > rig.FloodFiles {
				t.Errorf("the flood takes %d MiB and %d files; before it took %d and %d", after.Most, most.Files, before.Most, before.Files)
			}
			if !h.Running() || h.Cmd.Process.Pid != daemon || !slices.Equal(c.Pids(), pids) {
				t.Errorf("processes have ended: etcds had %v and have %v", pids, c.Pids())
			}
			rig.Same(t, members, c.Voters(rig.Soon, 1, 2, 3))
			c.Tells(h, f, lines)
			w.Check()
		})
	}
}
