package history

import (
	"context"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// worker is one client with one connection.
type worker struct {
	clients *Clients
	client  *clientv3.Client
	number  int
	random  *rand.Rand
	seen    map[string]int64 // the modification revision of keys, as last seen; 0: absent
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.once(ctx)
		w.pause(ctx, w.clients.cfg.Pause)
	}
}

// pause waits for half to one and a half of a time, or the end.
func (w *worker) pause(ctx context.Context, about time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(about/2 + time.Duration(w.random.Int64N(int64(about)))):
	}
}

// once carries out one operation. It is given its time also when everything ends, so that it gets an answer.
func (w *worker) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callDeadline)
	defer cancel()
	k := w.clients.pick(w.random)
	o := Operation{Client: w.number, Key: k.name, Call: w.clients.now()}
	switch n := w.random.IntN(100); {
	case n < 35:
		o.Kind = Get
		w.clients.record(w.get(ctx, o, k))
	case n < 70:
		o.Kind, o.Value = Put, w.clients.value(w.number)
		w.clients.record(w.put(ctx, o, k))
	case n < 90:
		o.Kind, o.Value, o.Expect = CAS, w.clients.value(w.number), w.seen[k.name]
		w.clients.record(w.cas(ctx, o, k))
	default:
		o.Kind = Delete
		w.clients.record(w.delete(ctx, o, k))
	}
}

func (w *worker) put(ctx context.Context, o Operation, k *key) (Operation, *key, error) {
	put, err := w.client.Put(ctx, o.Key, o.Value)
	if err == nil {
		o.Revision = put.Header.Revision
		w.seen[o.Key] = o.Revision
	}
	return o, k, err
}

func (w *worker) get(ctx context.Context, o Operation, k *key) (Operation, *key, error) {
	got, err := w.client.Get(ctx, o.Key)
	if err == nil {
		o.Revision = got.Header.Revision
		w.reads(&o, got.Kvs)
	}
	return o, k, err
}

func (w *worker) delete(ctx context.Context, o Operation, k *key) (Operation, *key, error) {
	gone, err := w.client.Delete(ctx, o.Key)
	if err == nil {
		o.Revision, o.Done = gone.Header.Revision, gone.Deleted > 0
		w.seen[o.Key] = 0
	}
	return o, k, err
}

func (w *worker) cas(ctx context.Context, o Operation, k *key) (Operation, *key, error) {
	done, err := w.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(o.Key), "=", o.Expect)).
		Then(clientv3.OpPut(o.Key, o.Value)).Else(clientv3.OpGet(o.Key)).Commit()
	if err != nil {
		return o, k, err
	}
	o.Revision, o.Done = done.Header.Revision, done.Succeeded
	if done.Succeeded {
		w.seen[o.Key] = o.Revision
	} else {
		w.reads(&o, done.Responses[0].GetResponseRange().Kvs)
	}
	return o, k, nil
}
