package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// v2Reply is what a member answers by version 2 of the API.
type v2Reply struct {
	Members []struct {
		ID         string   `json:"id"`
		ClientURLs []string `json:"clientURLs"`
	} `json:"members"`
	Node struct {
		Value string `json:"value"`
		TTL   int64  `json:"ttl"`
	} `json:"node"`
}

func (h *host) v2(ctx context.Context, method, path string, form url.Values) (v2Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, h.clientURL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		return v2Reply{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: h.c.clientTLS()}
	reply, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return v2Reply{}, err
	}
	defer reply.Body.Close()
	var said v2Reply
	if reply.StatusCode/100 != 2 {
		return said, fmt.Errorf("%s %s: %s", method, path, reply.Status)
	}
	return said, json.NewDecoder(reply.Body).Decode(&said)
}

// v2Voters waits until the members of the hosts are all there are, and each
// serves a read through a quorum; it gives their IDs.
func (c *testCluster) v2Voters(within time.Duration, hosts ...int) []string {
	c.t.Helper()
	var ids []string
	eventually(c.t, within, fmt.Sprintf("members of 2.x on hosts %v", hosts), func(ctx context.Context) error {
		ids = nil
		for _, n := range hosts {
			if _, err := c.host(n).v2(ctx, http.MethodGet, "/v2/keys/?quorum=true", nil); err != nil {
				return fmt.Errorf("host %d: %w", n, err)
			}
			said, err := c.host(n).v2(ctx, http.MethodGet, "/v2/members", nil)
			if err != nil {
				return err
			}
			if len(said.Members) != len(hosts) {
				return fmt.Errorf("host %d lists %d members", n, len(said.Members))
			}
			for _, m := range said.Members {
				if slices.Contains(m.ClientURLs, c.host(n).clientURL()) {
					ids = append(ids, m.ID)
				}
			}
		}
		if len(ids) != len(hosts) {
			return fmt.Errorf("not all have told their client URLs: %v", ids)
		}
		return nil
	})
	return ids
}

func (c *testCluster) v2Put(h *host, key, value string) {
	c.t.Helper()
	eventually(c.t, soon, "a write of "+key, func(ctx context.Context) error {
		_, err := h.v2(ctx, http.MethodPut, "/v2/keys/"+key, url.Values{"value": {value}})
		return err
	})
}

func (c *testCluster) v2Has(h *host, key, value string) {
	c.t.Helper()
	if said, err := h.v2(c.t.Context(), http.MethodGet, "/v2/keys/"+key+"?quorum=true", nil); err != nil || said.Node.Value != value {
		c.t.Errorf("%s is %q: %v", key, said.Node.Value, err)
	}
}

// Members of 2.3 have version 2 of the API only: three form a cluster, one grows
// to three, one that was killed and one whose disk was wiped come back.
func TestOldV2Members(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	for name, tls := range map[string]bool{"plain": false, "tls": true} {
		t.Run("three/"+name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: 3, version: testetcd.V23, tls: tls})
			c.configure(3)
			c.start(1, 2, 3)
			before := c.v2Voters(soon, 1, 2, 3)
			c.v2Put(c.host(1), "a", "1")
			c.host(2).killEtcd()
			if after := c.v2Voters(soon, 1, 2, 3); !slices.Equal(before, after) {
				t.Errorf("the members were %v and are %v", before, after)
			}
			c.v2Has(c.host(2), "a", "1")
		})
	}
	t.Run("one to three", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, options{hosts: 3, version: testetcd.V23})
		c.configure(1)
		c.start(1)
		c.v2Voters(soon, 1)
		c.v2Put(c.host(1), "a", "1")
		c.start(2, 3)
		c.configure(3)
		before := c.v2Voters(90*time.Second, 1, 2, 3)
		c.v2Put(c.host(3), "b", "2")
		c.host(1).crash()
		c.host(1).wipe(true)
		c.v2Put(c.host(2), "c", "3")
		c.host(1).start()
		after := c.v2Voters(90*time.Second, 1, 2, 3)
		if before[0] == after[0] {
			t.Errorf("the wiped host 1 is member %s again", before[0])
		}
		for key, value := range map[string]string{"a": "1", "b": "2", "c": "3"} {
			c.v2Has(c.host(1), key, value)
		}
	})
}
