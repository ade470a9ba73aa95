package history

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watcher watches all keys through one endpoint. When its watch ends it begins again behind the last revision that it saw.
type watcher struct {
	clients  *Clients
	client   *clientv3.Client
	endpoint string

	mu    sync.Mutex // guards watch
	watch Watch
}

func (w *worker) reads(o *Operation, kvs []*mvccpb.KeyValue) {
	w.seen[o.Key] = 0
	for _, kv := range kvs {
		o.Found, o.Read, o.Mod = true, string(kv.Value), kv.ModRevision
		w.seen[o.Key] = kv.ModRevision
	}
}

func (w *watcher) run(ctx context.Context) {
	for next := w.watch.From; ctx.Err() == nil; {
		next = w.once(ctx, next)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // a member that turns watchers away is not asked without a pause
		}
	}
}

// once watches until the watch ends, and returns from where the next one has to go on.
func (w *watcher) once(ctx context.Context, next int64) int64 {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	w.mu.Lock()
	w.watch.Opened = append(w.watch.Opened, w.clients.now())
	w.mu.Unlock()
	for r := range w.client.Watch(ctx, w.clients.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithProgressNotify()) {
		if r.CompactRevision > 0 {
			w.gap(next, r.CompactRevision+1)
			return max(next, r.CompactRevision)
		}
		if r.Err() != nil {
			return next
		}
		next = max(next, w.take(r))
	}
	return next
}

// take writes down what was told, and returns the revision behind it.
func (w *watcher) take(r clientv3.WatchResponse) (next int64) {
	at := w.clients.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.IsProgressNotify() {
		w.watch.Promises = append(w.watch.Promises, Promise{len(w.watch.Events), r.Header.Revision})
	}
	for _, e := range r.Events {
		w.watch.Events = append(w.watch.Events, Event{At: at, Revision: e.Kv.ModRevision, Key: string(e.Kv.Key), Value: string(e.Kv.Value), Deleted: e.Type == mvccpb.DELETE})
		next = e.Kv.ModRevision + 1
		w.watch.Reached = e.Kv.ModRevision
	}
	return next
}

func (w *watcher) gap(from, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.Gaps = append(w.watch.Gaps, Gap{from, to, w.clients.now()})
}

// reached is the highest revision seen.
func (w *watcher) reached() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch.Reached
}

// seen is what was seen until now.
func (w *watcher) seen() Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch
}
