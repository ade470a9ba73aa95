package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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

func (h *Host) V2(ctx context.Context, method, path string, form url.Values) (v2Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, h.ClientURL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		return v2Reply{}, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: h.C.ClientTLS()}
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

// V2Voters waits until the members of the hosts are all there are, and each
// serves a read through a quorum; it gives their IDs.
func (c *Cluster) V2Voters(within time.Duration, hosts ...int) []string {
	c.T.Helper()
	var ids []string
	Eventually(c.T, within, fmt.Sprintf("members of 2.x on hosts %v", hosts), func(ctx context.Context) error {
		ids = nil
		for _, n := range hosts {
			if _, err := c.Host(n).V2(ctx, http.MethodGet, "/v2/keys/?quorum=true", nil); err != nil {
				return fmt.Errorf("host %d: %w", n, err)
			}
			said, err := c.Host(n).V2(ctx, http.MethodGet, "/v2/members", nil)
			if err != nil {
				return err
			}
			if len(said.Members) != len(hosts) {
				return fmt.Errorf("host %d lists %d members", n, len(said.Members))
			}
			for _, m := range said.Members {
				if slices.Contains(m.ClientURLs, c.Host(n).ClientURL()) {
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

func (c *Cluster) V2Put(h *Host, key, value string) {
	c.T.Helper()
	Eventually(c.T, Soon, "a write of "+key, func(ctx context.Context) error {
		_, err := h.V2(ctx, http.MethodPut, "/v2/keys/"+key, url.Values{"value": {value}})
		return err
	})
}

func (c *Cluster) V2Has(h *Host, key, value string) {
	c.T.Helper()
	if said, err := h.V2(c.T.Context(), http.MethodGet, "/v2/keys/"+key+"?quorum=true", nil); err != nil || said.Node.Value != value {
		c.T.Errorf("%s is %q: %v", key, said.Node.Value, err)
	}
}
