package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// v2Renew puts keys with TTLs of one to twenty seconds, some in each of twenty
// directories, over and over, until the members are halted.
func (c *testCluster) v2Renew(keys int) *v2Writer {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &v2Writer{stop: cancel, acked: map[string]string{}}
	c.t.Cleanup(w.end)
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
		h := c.hosts[i%len(c.hosts)]
		w.done.Go(func() {
			for n := i; ctx.Err() == nil; n = (n + 8) % keys {
				key := fmt.Sprintf("/lease/%02d/%05d", n%20, n)
				form := url.Values{"value": {fmt.Sprint(n)}, "ttl": {fmt.Sprint(1 + n/20%20)}}
				request, err := http.NewRequestWithContext(ctx, http.MethodPut, h.clientURL()+"/v2/keys"+key, strings.NewReader(form.Encode()))
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
					w.acked[key] = fmt.Sprint(n)
					w.mu.Unlock()
				}
			}
		})
	}
	eventually(c.t, 3*time.Minute, "keys with TTLs", func(context.Context) error {
		if n := w.count(); n < keys {
			return fmt.Errorf("%d of %d were acknowledged", n, keys)
		}
		return nil
	})
	return w
}

// Thousands of keys with TTLs of seconds, renewed up to the halt, keep nothing from going
// on: neither do they change the list that was accepted, nor end the copy. What lasts is
// all there, and what is left of the others runs out then.
func TestOldKeysThatRunOut(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	t.Parallel()
	testetcd.Binary(t, testetcd.V32)
	c := newCluster(t, options{hosts: 3, version: testetcd.V23})
	c.configure(3)
	c.start(1, 2, 3)
	c.v2Voters(soon, 1, 2, 3)
	w, leases := c.v2Write(), c.v2Renew(4000)
	c.options.version = testetcd.V32
	r := c.upgrade(c.host(1), testetcd.V32, "--accept-outage", "--wait=100s")
	if r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "empty-directory") || !strings.Contains(r.stderr, "--accept-loss=") {
		t.Fatalf("directories were lost without a word: %s", r)
	}
	_, digest, _ := strings.Cut(r.stderr, "--accept-loss=")
	digest, _, _ = strings.Cut(digest, " ")
	if r := c.upgrade(c.host(1), testetcd.V32, "--accept-outage", "--accept-loss="+strings.TrimSpace(digest), "--wait=4m"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.runs(oldWithin, 1, 2, 3)
	w.end()
	leases.end()
	c.voters(soon, 1, 2, 3)
	got := c.keysOfThree()
	client := c.newClient()
	defer client.Close()
	c.holds("after keys ran out", got, w.sofar())
	left := 0
	for key, value := range leases.sofar() {
		switch {
		case got[key] == value:
			left++
		case got[key] != "":
			t.Errorf("%s is %q", key, got[key])
		}
	}
	t.Logf("%d of 4000 keys with TTLs are there yet", left)
	eventually(t, time.Minute, "end of the leases", func(ctx context.Context) error {
		said, err := client.Get(ctx, "/lease/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && said.Count > 0 {
			err = fmt.Errorf("%d keys are left", said.Count)
		}
		return err
	})
}
