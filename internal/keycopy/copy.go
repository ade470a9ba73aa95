package keycopy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"etcdadm.io/cluster"
)

// Result is what a copy has done.
type Result struct {
	From cluster.Version `json:"from"`
	To   cluster.Version `json:"to"`
	// At is the source's revision, or index, and Revision the target's, after
	// all was written and verified.
	At       int64 `json:"at"`
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	Leases   int64 `json:"leases"`
	// LeftOut is how many keys and directories were, with LeaveOut.
	LeftOut int64 `json:"leftOut,omitempty"`
	// RanOut is how many keys and directories ran out meanwhile: in a source of
	// version 2, of which those that were read before are carried over to version 3
	// nevertheless, and on leases in a target of version 2 before it was read back.
	RanOut int64 `json:"ranOut,omitempty"`
	// Digest is over the keys, values and leases in the target, in any order; in one of
	// version 2 without those keys that expire.
	Digest string        `json:"digest"`
	Took   time.Duration `json:"took"`
}

// Copy carries all keys that have a place in the target over to it, and reads the
// target back. The clocks of both machines should agree where keys of version 2
// expire. Errors: [ErrNotEmpty], [ErrSourceChanged], [ErrNotPortable],
// [ErrDiffers], [ErrAuth]; after any of them the target is of no use, but to
// Resume.
func Copy(ctx context.Context, source, target Endpoint, o Options) (Result, error) {
	began := time.Now()
	r, err := copied(ctx, source, target, o)
	r.Took = time.Since(began)
	if err != nil {
		return r, fmt.Errorf("copy keys: %w", err)
	}
	return r, nil
}

func copied(ctx context.Context, source, target Endpoint, o Options) (Result, error) {
	from, err := open(ctx, source)
	if err != nil {
		return Result{}, fmt.Errorf("source: %w", err)
	}
	defer from.close()
	to, err := open(ctx, target)
	if err != nil {
		return Result{}, fmt.Errorf("target: %w", err)
	}
	defer to.close()
	c := newCopier(from, to, o)
	defer c.close()
	c.From, c.To = from.release(), to.release()
	if !o.Resume {
		if err := to.empty(ctx); err != nil {
			return c.Result, err
		}
	}
	was, err := from.stand(ctx)
	if err != nil {
		return c.Result, err
	}
	c.At = was.at
	c.terms.renew(ctx)
	if err := c.write(ctx); err != nil {
		return c.Result, err
	}
	if _, err := from.since(ctx, was); err != nil {
		return c.Result, err
	}
	if err := c.verify(ctx); err != nil {
		return c.Result, err
	}
	now, err := from.since(ctx, was)
	c.RanOut += now.expired - was.expired
	return c.Result, err
}

// copier is one copy.
type copier struct {
	telling sync.Mutex // held while progress is told
	Result
	from, to side
	o        Options
	terms    *terms
	read     mark             // of what was read from the source and is to be in the target
	hidden   mark             // the part of it that the target does not list
	brief    map[string]brief // what may run out in a target of version 2 meanwhile; by name
	hasher   *hasher
	batch    []pair
	size     int
	batches  chan []pair
	keys     atomic.Int64 // written
	bytes    atomic.Int64
}

func newCopier(from, to side, o Options) *copier {
	return &copier{from: from, to: to, o: o, terms: newTerms(from, to, o), hasher: newHasher(), brief: map[string]brief{}}
}

func (c *copier) close() { c.terms.close() }

// write reads the source and writes the target, several requests at a time.
func (c *copier) write(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := c.terms.all(ctx); err != nil {
		return err
	}
	c.batches = make(chan []pair)
	var writers sync.WaitGroup
	for range c.to.writers() {
		writers.Go(func() {
			for batch := range c.batches {
				if err := c.put(ctx, batch); err != nil {
					stop(err)
				}
			}
		})
	}
	err := c.feed(ctx)
	close(c.batches)
	writers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause // a writer's error is why the feed ended, not its own
	}
	return err
}

// feed goes through the source, and once more for keys on leases if the target is of
// version 2: there they run out from when they are written on, so that is done last.
func (c *copier) feed(ctx context.Context) error {
	leased := false
	feed := carrier{to: c.to.api(), lose: c.leaveOut, pass: c.leaveOut, carry: func(p pair) error {
		if p.lease != 0 && c.to.api() == V2 {
			leased = true
			return nil
		}
		return c.take(ctx, p)
	}}
	at, err := feed.run(ctx, c.from, c.At)
	if err != nil {
		return err
	}
	c.At = at
	if leased {
		again := carrier{to: V2, lose: c.skip, pass: c.skip, carry: func(p pair) error {
			if p.lease == 0 {
				return nil
			}
			return c.take(ctx, p)
		}}
		if _, err := again.run(ctx, c.from, c.At); err != nil {
			return err
		}
	}
	return c.send(ctx)
}

func (c *copier) leaveOut(k Kind, name []byte) error {
	if !c.o.LeaveOut {
		return fmt.Errorf("%w: %s: %s", ErrNotPortable, show(name), k)
	}
	if !k.carried() {
		c.LeftOut++
	}
	return nil
}

// overhead is what a key takes in a request beside its name and value, in bytes
// and generously.
const overhead = 64

func (c *copier) take(ctx context.Context, p pair) error {
	c.note(p)
	most, bytes := c.to.batch()
	if len(c.batch) == most || len(c.batch) > 0 && c.size+p.size()+overhead > bytes {
		if err := c.send(ctx); err != nil {
			return err
		}
	}
	c.batch = append(c.batch, p)
	c.size += p.size() + overhead
	return nil
}

// note keeps what the target will be held against.
func (c *copier) note(p pair) {
	c.Keys++
	c.Bytes += int64(p.size())
	m := &c.read
	switch {
	case c.to.api() != V2:
	case p.lease != 0 || p.expires != 0:
		c.brief[string(p.key)] = brief{sum: c.hasher.of(0, p.value), lease: p.lease, expires: p.expires}
		return
	case isHidden(p.key):
		m = &c.hidden
	}
	m.add(c.hasher, p.key, p.value, c.terms.lease(p))
}

func (c *copier) send(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	select {
	case c.batches <- c.batch:
		c.batch, c.size = nil, 0
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *copier) put(ctx context.Context, batch []pair) error {
	if ctx.Err() != nil {
		return nil // another writer has failed
	}
	if err := c.to.put(ctx, batch, c.terms); err != nil {
		return err
	}
	for _, p := range batch {
		c.keys.Add(1)
		c.bytes.Add(int64(p.size()))
	}
	if c.o.Progress != nil {
		c.telling.Lock()
		defer c.telling.Unlock()
		c.o.Progress(c.keys.Load(), c.bytes.Load())
	}
	return nil
}

// carried says that things of the kind are carried over, though not as they were.
func (k Kind) carried() bool { return k == Hidden || k == MaybeBinary || k == DirectoryTTL }

// Version 3: transactions of as many keys as any etcd takes, and of less than
// 1.5 MiB.
const (
	v3Writers    = 8
	v3BatchKeys  = 128
	v3BatchBytes = 1 << 20
)

func (s *v3) writers() int             { return v3Writers }
func (s *v3) batch() (keys, bytes int) { return v3BatchKeys, v3BatchBytes }

func (s *v3) empty(ctx context.Context) error {
	reply, err := s.rangeOnce(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true})
	if err != nil {
		return err
	}
	ids, err := s.leases(ctx)
	if err != nil && !errors.Is(err, errNoLeaseList) {
		return err
	}
	if reply.Count+int64(len(ids)) > 0 {
		return fmt.Errorf("%w: it has %d keys and %d leases", ErrNotEmpty, reply.Count, len(ids))
	}
	return nil
}

func (s *v3) put(ctx context.Context, batch []pair, t *terms) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	txn := &pb.TxnRequest{Success: make([]*pb.RequestOp, 0, len(batch))}
	for _, p := range batch {
		lease := t.lease(p)
		if lease != 0 {
			if err := t.have(ctx, p); err != nil {
				return err
			}
		}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: p.key, Value: p.value, Lease: lease},
		}})
	}
	err := s.call(ctx, "write keys from "+show(batch[0].key)+" on", func(ctx context.Context) error {
		_, err := s.kv.Txn(ctx, txn)
		return err
	})
	if says(errors.Unwrap(err), rpctypes.ErrGRPCLeaseNotFound) {
		err = fmt.Errorf("%w: a lease ended before its keys were written", ErrSourceChanged)
	}
	return err
}

// Version 2: one key in a request, so many at a time.
const v2Writers = 64

func (s *v2) writers() int             { return v2Writers }
func (s *v2) batch() (keys, bytes int) { return 8, 64 << 10 }

func (s *v2) empty(ctx context.Context) error {
	keys, dirs := int64(0), int64(0)
	_, err := s.walk(ctx, v2Visitor{
		key: func(string, string, int64) error { keys++; return nil },
		dir: func(v2Dir) error { dirs++; return nil },
	})
	if err == nil && keys+dirs > 0 {
		err = fmt.Errorf("%w: it has %d keys and %d directories", ErrNotEmpty, keys, dirs)
	}
	return err
}

func (s *v2) put(ctx context.Context, batch []pair, t *terms) error {
	for _, p := range batch {
		ttl, over, err := t.left(ctx, p)
		if err != nil {
			return err
		}
		if over {
			continue // etcd would take it away at once
		}
		node, err := s.put1(ctx, string(p.key), p.value, ttl)
		if err != nil {
			return fmt.Errorf("write key %s: %w", show(p.key), err)
		}
		if node.Key != string(p.key) || node.Value != string(p.value) || !node.expiresIn(ttl) {
			return fmt.Errorf("%w: etcd took key %s for %s, or its value or TTL for another", ErrDiffers, show(p.key), show([]byte(node.Key)))
		}
	}
	return nil
}
