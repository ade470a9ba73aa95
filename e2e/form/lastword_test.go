package form

import (
	"context"
	"errors"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/host/datadir"
)

// A daemon that does not start tells the others why, and status on any host says it of that
// host until its daemon runs.
func TestDaemonThatDoesNotStartSaysSoElsewhere(t *testing.T) {
	for name, tls := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			if !tls {
				rig.TakesLong(t, "20 s")
			}
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{TLS: tls, Flags: []string{"--on-sigterm=leave"}})
			h := c.Host(3)
			says := func(what string, is bool, words ...string) {
				t.Helper()
				rig.Eventually(t, rig.Soon, what, func(context.Context) error {
					r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir)
					for _, w := range words {
						if strings.Contains(r.Stdout, w) != is {
							return errors.New(r.String())
						}
					}
					return nil
				})
			}
			rig.Eventually(t, rig.Soon, "the others written down", func(context.Context) error { // with a beat
				state, err := datadir.KnownState(h.Dir)
				if err == nil && len(state.Peers) < 2 {
					err = errors.New("not yet")
				}
				return err
			})
			h.Term()
			for _, x := range []struct{ flag, words string }{{"--env-file=" + c.Dir + "/none.env", "no such file"}, {"--backup-interval=soon", "backup-interval"}} {
				h.Flags = []string{x.flag}
				h.Refused(x.words)
				says("why host 3 has no daemon", true, string(h.ID()), "that it does not run", x.words)
			}
			h.Flags = nil
			h.Start()
			c.Voters(rig.Soon, 1, 2, 3)
			says("that host 3 is there again", false, "said at")
		})
	}
}
