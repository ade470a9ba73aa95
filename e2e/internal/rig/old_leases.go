package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// V2Renew puts keys with TTLs of one to twenty seconds, some in each of twenty
// directories, over and over, until the members are halted.
func (c *Cluster) V2Renew(keys int) *v2Writer {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &v2Writer{stop: cancel, Acked: map[string]string{}}
	c.T.Cleanup(w.End)
	w.done.Go(func() {
		for ctx.Err() == nil && !c.halted(ctx) {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
		cancel() // etcd 3.2 would take such keys, too, where nobody looks for them
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: 3 * time.Second}
	for i := range 8 {
		h := c.Hosts[i%len(c.Hosts)]
		w.done.Go(func() {
			for n := i; ctx.Err() == nil; n = (n + 8) % keys {
				key := fmt.Sprintf("/lease/%02d/%05d", n%20, n)
				form := url.Values{"value": {fmt.Sprint(n)}, "ttl": {fmt.Sprint(1 + n/20%20)}}
				request, err := http.NewRequestWithContext(ctx, http.MethodPut, h.ClientURL()+"/v2/keys"+key, strings.NewReader(form.Encode()))
				if err != nil {
					return
				}
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				reply, err := client.Do(request)
				if err != nil {
					continue
				}
				reply.Body.Close()
				if reply.StatusCode/100 == 2 {
					w.mu.Lock()
					w.Acked[key] = fmt.Sprint(n)
					w.mu.Unlock()
				}
			}
		})
	}
	Eventually(c.T, 3*time.Minute, "keys with TTLs", func(context.Context) error {
		if n := w.Count(); n < keys {
			return fmt.Errorf("%d of %d were acknowledged", n, keys)
		}
		return nil
	})
	return w
}
