package form

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/console"
)

// The metrics port tells whether the daemon lives, whether its member serves,
// what is wanted and what blocks it; it is off unless it is asked for.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 2})
	h := c.Host(1)
	h.Flags = []string{fmt.Sprintf("--etcd-manager-metrics-port=%d", rig.PortMetrics+c.Block.Shift)}
	page := func(path string, fits func(code int, body string) bool) {
		t.Helper()
		rig.Eventually(t, rig.Soon, path, func(ctx context.Context) error {
			code, body, err := h.Fetch(ctx, path)
			if err == nil && !fits(code, body) {
				err = fmt.Errorf("%d %s", code, body)
			}
			return err
		})
	}
	has := func(words ...string) func(int, string) bool {
		return func(code int, body string) bool {
			for _, w := range words {
				if !strings.Contains(body, w) {
					return false
				}
			}
			return code == http.StatusOK
		}
	}
	h.Start()
	page("/healthz", has("ok"))
	page("/voterz", func(code int, body string) bool {
		return code == http.StatusServiceUnavailable && strings.Contains(body, "carries no member")
	})
	page("/metrics", has(`etcdadm_leading{cluster="test"} 1`, `etcdadm_blocked{cluster="test",code="no-spec"} 1`))
	c.Configure(1)
	c.Voters(rig.Soon, 1)
	page("/readyz", has("ok"))
	page("/voterz", has("ok"))
	page("/metrics", has(`etcdadm_voters{cluster="test",up="true"} 1`, `etcdadm_voters{cluster="test",up="false"} 0`, `etcdadm_voters_wanted{cluster="test"} 1`, "etcdadm_decisions_total", "etcdadm_actions_total", "go_goroutines"))
	page("/metrics", func(code int, body string) bool {
		return code == http.StatusOK && !strings.Contains(body, "etcdadm_blocked{")
	})
	page("/status", func(code int, body string) bool {
		var r console.Report
		return code == http.StatusOK && json.Unmarshal([]byte(body), &r) == nil && r.Leading && r.Observation != nil
	})
	// A member that is wanted and does not serve.
	if err := rig.StopProcess(h.EtcdPID()); err != nil {
		t.Fatal(err)
	}
	page("/readyz", func(code int, _ string) bool { return code == http.StatusServiceUnavailable })
	page("/voterz", func(code int, _ string) bool { return code == http.StatusServiceUnavailable })
	page("/healthz", has("ok"))
	if err := rig.ContinueProcess(h.EtcdPID()); err != nil {
		t.Fatal(err)
	}
	page("/readyz", has("ok"))
	page("/voterz", has("ok"))

	c.Start(2) // without the flag
	c.Leader(rig.Soon, c.Host(2))
	if _, _, err := c.Host(2).Fetch(t.Context(), "/healthz"); err == nil {
		t.Error("the metrics port is open without being asked for")
	}
}
