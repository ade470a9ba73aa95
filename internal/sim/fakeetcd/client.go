package fakeetcd

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

// Client is an ordinary client, on a machine of its own (the empty host). It
// tries the hosts in their order and goes on to the next only when a call was
// certainly not sent. Errors are those of package etcd; a put with
// ErrUnknownOutcome may have taken effect.
type Client struct {
	net   *Net
	hosts []cluster.HostID
}

// Client makes a client of the members on the hosts.
func (n *Net) Client(hosts ...cluster.HostID) *Client { return &Client{n, hosts} }

func (c *Client) do(ctx context.Context, op string, mutating, learner bool, run func(p *Proc, r *request)) (any, error) {
	err := errors.New(op + ": no hosts")
	for _, h := range c.hosts {
		var v any
		v, err = c.net.do(ctx, &request{call: Call{Host: h, Op: op, Mutating: mutating}, learner: learner, run: run})
		if !errors.Is(err, etcd.ErrUnreachable) || ctx.Err() != nil {
			return v, err
		}
	}
	return nil, err
}

func (c *Client) number(v any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return v.(int64), nil
}

// Put writes a key and returns its revision.
func (c *Client) Put(ctx context.Context, key, value string) (revision int64, err error) {
	return c.PutWithLease(ctx, key, value, 0)
}

// PutWithLease is Put of a key that goes with its lease.
func (c *Client) PutWithLease(ctx context.Context, key, value string, lease int64) (revision int64, err error) {
	w, err := c.write(ctx, key, value, lease)
	return w.Revision, err
}

// Written is an acknowledged write.
type Written struct {
	Revision int64
	Cluster  cluster.ClusterID // whose member acknowledged it
}

// Write is Put that tells who took the write.
func (c *Client) Write(ctx context.Context, key, value string) (Written, error) {
	return c.write(ctx, key, value, 0)
}

func (c *Client) write(ctx context.Context, key, value string, lease int64) (Written, error) {
	v, err := c.do(ctx, "put", true, false, func(p *Proc, r *request) {
		r.result = func(revision int64) any { return Written{revision, p.cluster} }
		if p.data.file+putCost(key, value) > p.quota {
			// The member that would go beyond its quota raises the alarm.
			p.proposeOwn(op{Kind: opAlarm, Alarm: "NOSPACE", Member: p.member})
			r.finish(nil, etcd.ErrNoSpace)
			return
		}
		p.submit(r, op{Kind: opPut, Key: key, Value: value, Lease: lease})
	})
	if err != nil {
		return Written{}, err
	}
	return v.(Written), nil
}

// Value is what a read found.
type Value struct {
	Value    string
	Found    bool
	Modified int64 // revision of the key's last write
	Revision int64 // the store's
}

// Get reads a key as it is after all that was acknowledged.
func (c *Client) Get(ctx context.Context, key string) (Value, error) {
	return c.value(c.do(ctx, "get", false, false, func(p *Proc, r *request) {
		p.linearizable(func() { r.finish(p.st.get(key), nil) }, func(err error) { r.finish(nil, err) })
	}))
}

// LocalGet reads a key as the member has it, which may be old; learners and
// members without a quorum answer too.
func (c *Client) LocalGet(ctx context.Context, key string) (Value, error) {
	return c.value(c.do(ctx, "get", false, true, func(p *Proc, r *request) { r.finish(p.st.get(key), nil) }))
}

func (c *Client) value(v any, err error) (Value, error) {
	if err != nil {
		return Value{}, err
	}
	return v.(Value), nil
}

func (s *state) get(key string) Value {
	kv, ok := s.kv[key]
	return Value{Value: kv.value, Found: ok, Modified: kv.mod, Revision: s.rev}
}

// Alarm raises (on) or disarms an alarm of a member: NOSPACE or CORRUPT.
func (c *Client) Alarm(ctx context.Context, kind string, member cluster.MemberID, on bool) error {
	o := op{Kind: opDisarm, Alarm: kind, Member: member}
	if on {
		o.Kind = opAlarm
	}
	_, err := c.do(ctx, "alarm", true, false, func(p *Proc, r *request) { p.submit(r, o) })
	return err
}
