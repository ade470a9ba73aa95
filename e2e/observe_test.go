package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"etcdadm.io/internal/console"
)

// fetch reads a page of a host's metrics port.
func (h *host) fetch(ctx context.Context, path string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.c.block.at(h.place, portMetrics)+path, nil)
	if err != nil {
		return 0, "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(body), err
}

// The metrics port tells whether the daemon lives, whether its member serves,
// what is wanted and what blocks it; it is off unless it is asked for.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 2})
	h := c.host(1)
	h.flags = []string{fmt.Sprintf("--etcd-manager-metrics-port=%d", portMetrics+c.block.shift)}
	page := func(path string, fits func(code int, body string) bool) {
		t.Helper()
		eventually(t, soon, path, func(ctx context.Context) error {
			code, body, err := h.fetch(ctx, path)
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
	h.start()
	page("/healthz", has("ok"))
	page("/metrics", has("etcdadm_leading 1", `etcdadm_blocked{code="no-spec"} 1`))
	c.configure(1)
	c.voters(soon, 1)
	page("/readyz", has("ok"))
	page("/metrics", has(`etcdadm_voters{up="true"} 1`, `etcdadm_voters{up="false"} 0`, "etcdadm_voters_wanted 1", "etcdadm_decisions_total", "etcdadm_actions_total", "go_goroutines"))
	page("/metrics", func(code int, body string) bool {
		return code == http.StatusOK && !strings.Contains(body, "etcdadm_blocked{")
	})
	page("/status", func(code int, body string) bool {
		var r console.Report
		return code == http.StatusOK && json.Unmarshal([]byte(body), &r) == nil && r.Leading && r.Observation != nil
	})
	// A member that is wanted and does not serve.
	if err := stopProcess(h.etcdPID()); err != nil {
		t.Fatal(err)
	}
	page("/readyz", func(code int, _ string) bool { return code == http.StatusServiceUnavailable })
	page("/healthz", has("ok"))
	if err := continueProcess(h.etcdPID()); err != nil {
		t.Fatal(err)
	}
	page("/readyz", has("ok"))

	c.start(2) // without the flag
	c.leader(soon, c.host(2))
	if _, _, err := c.host(2).fetch(t.Context(), "/healthz"); err == nil {
		t.Error("the metrics port is open without being asked for")
	}
}
