package rig

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// v2Writer puts keys of version 2, through any member that takes them, and
// remembers which were acknowledged.
type v2Writer struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex // guards what follows
	Acked map[string]string
}

func (c *Cluster) V2Write() *v2Writer {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &v2Writer{stop: cancel, Acked: map[string]string{}}
	c.T.Cleanup(w.End)
	for i, h := range c.Hosts {
		w.done.Go(func() {
			// Etcd 3.2 takes writes of version 2, too, and keeps them where no client of
			// version 3 sees them: so who writes those has to stop at the outage.
			for n := 0; ctx.Err() == nil && !c.halted(ctx); n++ {
				key, value := fmt.Sprintf("/written/%d/%06d", i, n), fmt.Sprint(time.Now().UnixNano())
				_, err := h.V2(ctx, http.MethodPut, "/v2/keys"+key, url.Values{"value": {value}})
				if err != nil {
					continue
				}
				w.mu.Lock()
				w.Acked[key] = value
				w.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	Eventually(c.T, Soon, "writes of version 2", func(context.Context) error {
		if n := w.Count(); n < 50 {
			return fmt.Errorf("%d were acknowledged", n)
		}
		return nil
	})
	return w
}

// halted: the members are to stop for a change of version.
func (c *Cluster) halted(ctx context.Context) bool {
	in, _, _, err := c.Folder().ReadIntent(ctx)
	return err == nil && in.Halted() != nil
}

func (w *v2Writer) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.Acked)
}

func (w *v2Writer) End() {
	w.stop()
	w.done.Wait()
}

// killLeaderAmid kills the leading daemon once the members are halted.
func (c *Cluster) killLeaderAmid() (done func()) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(c.T.Context())
	killed := ""
	wg.Go(func() {
		for ctx.Err() == nil {
			if !c.halted(ctx) {
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				continue
			}
			h := c.Leader(Soon, c.Host(1))
			h.Kill()
			killed = fmt.Sprint("the daemon of host ", h.N)
			h.Start()
			return
		}
	})
	return func() {
		c.T.Helper()
		cancel()
		wg.Wait()
		if killed == "" {
			c.T.Error("no daemon was killed while the members were halted")
		}
		c.T.Log(killed)
	}
}

func (c *Cluster) Disturbed(kill bool, change func()) {
	c.T.Helper()
	done := func() {}
	if kill {
		done = c.killLeaderAmid()
	}
	began := time.Now()
	change()
	c.T.Logf("etcd %s after %s", c.Options.Version, time.Since(began).Round(10*time.Millisecond))
	done()
}
