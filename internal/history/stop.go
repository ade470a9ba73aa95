package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// endDeadline bounds each of the last questions; the cluster is whole by then.
	endDeadline = 60 * time.Second
	pageSize    = 1000
)

// Stop ends the clients, makes one more write, waits until every watcher has seen it, and reads everything back. It returns
// within some minutes; what could not be asked is a finding. The cluster has to serve again.
func (c *Clients) Stop() {
	c.stop.Do(func() {
		c.cancel()
		c.done.Wait()
		ctx := context.Background()
		end, err := c.last(ctx)
		if err == nil {
			c.await(ctx, end)
		}
		c.cancelWatch()
		c.doneWatch.Wait()
		for _, w := range c.watchers {
			c.history.Watches = append(c.history.Watches, w.seen())
		}
		if err == nil {
			err = c.readBack(ctx)
		}
		if err != nil {
			c.unfinished("%v", err)
		} else {
			c.replay(ctx, end)
		}
		c.close()
	})
}

func (c *Clients) unfinished(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.Unfinished = append(c.history.Unfinished, fmt.Sprintf(format, args...))
}

// last makes the last write, whose revision every watcher has to reach.
func (c *Clients) last(ctx context.Context) (revision int64, err error) {
	client, err := c.anyone()
	if err != nil {
		return 0, err
	}
	w := &worker{clients: c, client: client, number: c.cfg.Clients + leaseholders, seen: map[string]int64{}}
	for deadline := time.Now().Add(endDeadline); ; {
		o := Operation{Client: w.number, Kind: Put, Key: c.cfg.Prefix + "last", Value: c.value(w.number), Call: c.now()}
		err := call(ctx, func(ctx context.Context) error {
			o, _, err = w.put(ctx, o, nil)
			return err
		})
		c.record(o, nil, err)
		if err == nil {
			return o.Revision, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("make the last write: %w", err)
		}
	}
}

// anyone connects to all endpoints that are left.
func (c *Clients) anyone() (*clientv3.Client, error) {
	left := slices.DeleteFunc(slices.Clone(c.cfg.Endpoints), c.isRetired)
	return c.dial(left...)
}

// await waits until every watcher has seen a revision.
func (c *Clients) await(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	for _, w := range c.watchers {
		for w.reached() < revision && !c.isRetired(w.endpoint) {
			select {
			case <-ctx.Done():
				c.unfinished("%s has seen revision %d, and the last is %d", w.watch.Name, w.reached(), revision)
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
	}
}

// readBack reads all keys at one revision.
func (c *Clients) readBack(ctx context.Context) error {
	client, err := c.anyone()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	from, end := c.cfg.Prefix, clientv3.GetPrefixRangeEnd(c.cfg.Prefix)
	for more := true; more; {
		got, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(c.history.FinalRevision))
		if err != nil {
			return fmt.Errorf("read back: %w", err)
		}
		if c.history.FinalRevision == 0 {
			c.history.FinalRevision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			c.history.Final = append(c.history.Final, Event{Revision: kv.ModRevision, Key: string(kv.Key), Value: string(kv.Value)})
			from = string(kv.Key) + "\x00"
		}
		more = got.More
	}
	return nil
}

// replay watches the whole history once more, as every member has it.
func (c *Clients) replay(ctx context.Context, until int64) {
	for _, w := range c.watchers {
		if c.isRetired(w.endpoint) {
			continue
		}
		again := &watcher{clients: c, client: w.client, endpoint: w.endpoint, watch: Watch{Name: "all of it by " + w.endpoint, From: w.watch.From}}
		if err := again.all(ctx, until); err != nil {
			c.unfinished("read the history by %s: %v", w.endpoint, err)
		}
		for i := range again.watch.Events { // what was told long after says nothing about times
			again.watch.Events[i].At = 0
		}
		c.history.Watches = append(c.history.Watches, again.watch)
	}
}

// all watches up to a revision.
func (w *watcher) all(ctx context.Context, until int64) error {
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	for next := w.watch.From; w.watch.Reached < until; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("revision %d of %d: %w", w.watch.Reached, until, err)
		}
		next = w.until(ctx, next, until)
	}
	return nil
}

// until watches until a revision was seen or the watch ends.
func (w *watcher) until(ctx context.Context, next, until int64) int64 {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range w.client.Watch(ctx, w.clients.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithRev(next)) {
		switch {
		case r.CompactRevision > 0:
			w.gap(next, r.CompactRevision+1)
			return max(next, r.CompactRevision)
		case r.Err() != nil:
			return next
		}
		next = max(next, w.take(r))
		if w.watch.Reached >= until {
			return next
		}
	}
	return next
}
