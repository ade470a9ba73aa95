package peer

import (
	"context"
	"sync"
	"time"

	"etcdadm.io/internal/pki"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Bounds of one caller, so that none can take what the others need.
const (
	maxCallsOf = 64  // calls at once of one caller
	maxPeople  = 128 // calls at once of all who are no hosts: the rest is kept for those that keep the cluster going
	callRate   = 100 // calls a second of one caller, for long
	callBurst  = 256 // calls of one caller beyond that
	maxCallers = 1024

	// bodyTimeout is for the message of a call that has begun. Ours comes with the call.
	bodyTimeout = 10 * time.Second
	maxBodies   = maxCalls   // calls that wait for their message, of all callers: each may hold most of one
	maxBodiesOf = maxStreams // … of one certificate
)

// callers counts what each caller does. A caller is its identity and, where no
// certificate proves that, the address that it comes from.
type callers struct {
	now func() time.Time

	mu     sync.Mutex
	known  map[string]*usage // guarded by mu
	people int               // guarded by mu
}

// usage is of one caller.
type usage struct {
	running int
	tokens  float64
	at      time.Time // of tokens
}

func newCallers(now func() time.Time) *callers {
	return &callers{now: now, known: make(map[string]*usage)}
}

// begin counts a call, or says why it is one too many. The call ends with end.
func (c *callers) begin(from Caller) (end func(), refused string) {
	key := from.Identity.String()
	if !from.Verified {
		key = remoteHost(from.Remote) + " " + key
	}
	person := from.Identity.Role != pki.RoleHost
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	u := c.known[key]
	if u == nil {
		if !c.roomLocked(now) {
			return nil, "too many callers"
		}
		u = &usage{tokens: callBurst, at: now}
		c.known[key] = u
	}
	u.refill(now)
	switch {
	case u.tokens < 1:
		return nil, "too many calls a second by this caller"
	case u.running >= maxCallsOf:
		return nil, "too many calls at once by this caller"
	case person && c.people >= maxPeople:
		return nil, "too many calls at once by people"
	}
	u.tokens--
	u.running++
	if person {
		c.people++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		u.running--
		if person {
			c.people--
		}
	}, ""
}

func (u *usage) refill(now time.Time) {
	u.tokens = min(callBurst, u.tokens+callRate*max(0, now.Sub(u.at).Seconds()))
	u.at = now
}

// roomLocked makes room for another caller by forgetting those that are as new.
func (c *callers) roomLocked(now time.Time) bool {
	if len(c.known) < maxCallers {
		return true
	}
	for key, u := range c.known {
		if u.refill(now); u.running == 0 && u.tokens >= callBurst {
			delete(c.known, key)
		}
	}
	return len(c.known) < maxCallers
}

// bodies ends calls whose message does not come: gRPC would wait for it as long
// as the connection lives. One timer is for all of them, and runs only while
// there are any, because an idle daemon does little else than answer pings.
//
// Who waits for long gives way: above the bound of all, the call that waits longest is
// broken off for a new one, whose message is there within milliseconds if it is ours.
type bodies struct {
	timeout time.Duration
	log     *onceLog

	mu      sync.Mutex
	waiting map[*body]struct{} // guarded by mu
	of      map[string]int     // guarded by mu; how many of them each caller has
	armed   bool               // guarded by mu
}

type body struct {
	from   string
	remote string
	ctx    context.Context //nolint:containedctx // it is the call
	cancel context.CancelFunc
	since  time.Time
}

type bodyKey struct{}

func newBodies(timeout time.Duration, log *onceLog) *bodies {
	return &bodies{timeout: timeout, log: log, waiting: make(map[*body]struct{}), of: make(map[string]int)}
}

// begun is told each call when its headers have come.
func (b *bodies) begun(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &body{from: shown(ctx), remote: remoteOf(ctx), ctx: ctx, cancel: cancel, since: time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[w.from] >= maxBodiesOf || len(b.waiting) >= maxBodies {
		b.sweepLocked(w.since)
	}
	if b.of[w.from] >= maxBodiesOf {
		cancel()
		b.log.warn("call refused", "remote", w.remote, "reason", tooManyBodies+" of this caller")
		return ctx, status.Error(codes.ResourceExhausted, tooManyBodies+" of this caller")
	}
	if len(b.waiting) >= maxBodies {
		b.breakOffLocked()
	}
	b.waiting[w] = struct{}{}
	b.of[w.from]++
	if !b.armed {
		b.armed = true
		time.AfterFunc(b.timeout, b.sweep)
	}
	return context.WithValue(ctx, bodyKey{}, w), nil
}

const tooManyBodies = "too many calls wait for their messages"

// breakOffLocked ends the call that has waited longest.
func (b *bodies) breakOffLocked() {
	var oldest *body
	for w := range b.waiting {
		if oldest == nil || w.since.Before(oldest.since) {
			oldest = w
		}
	}
	oldest.cancel()
	b.dropLocked(oldest)
	b.log.warn("call broken off", "remote", oldest.remote, "reason", tooManyBodies)
}

func (b *bodies) dropLocked(w *body) {
	if _, waits := b.waiting[w]; !waits {
		return
	}
	delete(b.waiting, w)
	if b.of[w.from]--; b.of[w.from] == 0 {
		delete(b.of, w.from)
	}
}

// shown is the certificate that the connection was made with. Whether it still says
// who this is, the call itself finds out. Without TLS nobody is held apart from others
// at the same address, and each connection stands for itself.
func shown(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return ""
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		return string(info.State.PeerCertificates[0].RawSubjectPublicKeyInfo)
	}
	return p.Addr.String()
}

// remoteOf is the address that a call comes from, without its port.
func remoteOf(ctx context.Context) string {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		return remoteHost(p.Addr.String())
	}
	return ""
}

// came is told that the message is there. What it returns frees the call's context at its end.
func (b *bodies) came(ctx context.Context) (free func()) {
	w, ok := ctx.Value(bodyKey{}).(*body)
	if !ok {
		return func() {}
	}
	b.mu.Lock()
	b.dropLocked(w)
	b.mu.Unlock()
	return w.cancel
}

func (b *bodies) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(time.Now())
	if b.armed = len(b.waiting) > 0; b.armed {
		time.AfterFunc(b.timeout, b.sweep)
	}
}

// sweepLocked ends what has waited for too long, and forgets what its caller gave up.
func (b *bodies) sweepLocked(now time.Time) {
	for w := range b.waiting {
		if w.ctx.Err() != nil || now.Sub(w.since) >= b.timeout {
			w.cancel()
			b.dropLocked(w)
		}
	}
}
