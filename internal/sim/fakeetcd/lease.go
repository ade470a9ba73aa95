package fakeetcd

import (
	"context"
	"slices"
	"time"
)

// minTTL is the shortest lease, in seconds: one and a half election timeouts,
// rounded up. Source: lease.NewLessor's MinLeaseTTL as EtcdServer sets it.
const minTTL = 2

// lessor is the leader's clockwork of leases. Nothing of it is durable: a new
// leader gives every lease its full TTL, and an election timeout, again.
type lessor struct {
	expiry  map[int64]time.Time
	checkAt time.Time
	asked   map[int64]time.Time // revocations proposed, and when to ask again
}

func (p *Proc) promoteLessor() {
	p.lessor = lessor{expiry: make(map[int64]time.Time), asked: make(map[int64]time.Time)}
	extend := electionTicks * p.net.opt.Tick
	for id, l := range p.st.leases {
		p.lessor.expiry[id] = time.Now().Add(time.Duration(l.ttl)*time.Second + extend)
	}
}

func (p *Proc) leaseApplied(o op, err error) {
	if err != nil || p.lessor.expiry == nil {
		return
	}
	if o.Kind == opLeaseGrant {
		p.lessor.expiry[o.Lease] = time.Now().Add(time.Duration(o.TTL) * time.Second)
		return
	}
	delete(p.lessor.expiry, o.Lease)
	delete(p.lessor.asked, o.Lease)
}

// expireLeases revokes what has run out, through raft; under a CORRUPT alarm
// that is refused, so leases do not expire.
func (p *Proc) expireLeases() {
	now := time.Now()
	if now.Before(p.lessor.checkAt) {
		return
	}
	p.lessor.checkAt = now.Add(leaseInterval)
	var due []int64
	for id, at := range p.lessor.expiry {
		if !now.Before(at) && !now.Before(p.lessor.asked[id]) {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	for _, id := range due {
		p.lessor.asked[id] = now.Add(3 * time.Second)
		p.proposeOwn(op{Kind: opLeaseRevoke, Lease: id})
	}
}

// Grant makes a lease. With ID zero the member chooses one. The TTL that was
// given is returned, in seconds; it can be longer than asked for.
func (c *Client) Grant(ctx context.Context, id, ttl int64) (granted, seconds int64, err error) {
	ttl = max(ttl, minTTL)
	v, err := c.do(ctx, "grant lease", true, false, func(p *Proc, r *request) {
		chosen := id
		if chosen == 0 {
			chosen = int64(p.id())
		}
		r.result = func(int64) any { return chosen }
		p.submit(r, op{Kind: opLeaseGrant, Lease: chosen, TTL: ttl})
	})
	granted, err = c.number(v, err)
	return granted, ttl, err
}

// Revoke ends a lease and its keys.
func (c *Client) Revoke(ctx context.Context, id int64) error {
	_, err := c.do(ctx, "revoke lease", true, false, func(p *Proc, r *request) {
		p.submit(r, op{Kind: opLeaseRevoke, Lease: id})
	})
	return err
}

// KeepAlive renews a lease once and returns its TTL in seconds. The leader
// alone renews; another member passes the call on.
func (c *Client) KeepAlive(ctx context.Context, id int64) (ttl int64, err error) {
	return c.number(c.do(ctx, "keep lease alive", false, false, func(p *Proc, r *request) {
		p.renew(r, id, time.Now().Add(reqTimeout))
	}))
}

func (p *Proc) renew(r *request, id int64, until time.Time) {
	if r.over {
		return
	}
	if !time.Now().Before(until) {
		r.finish(nil, errTimeout)
		return
	}
	leader := p
	if p.lead != p.member {
		leader = p.peer(p.lead)
	}
	if p.lead == 0 || leader == nil || leader.paused || leader.lead != leader.member || !p.net.linked(p.host, leader.host) {
		p.later(p.net.opt.Tick/2, func() { p.renew(r, id, until) })
		return
	}
	l, ok := leader.st.leases[id]
	if !ok {
		r.finish(nil, ErrLeaseNotFound)
		return
	}
	if !time.Now().Before(leader.lessor.expiry[id]) {
		// It has run out and is about to be revoked, or, under CORRUPT, never
		// is; the call waits. Source: lessor.Renew.
		p.later(p.net.opt.Tick, func() { p.renew(r, id, until) })
		return
	}
	leader.lessor.expiry[id] = time.Now().Add(time.Duration(l.ttl) * time.Second)
	r.finish(l.ttl, nil)
}
