package peer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
)

// Whoever answers at a seed's address speaks for the host that its certificate names,
// and for no other.
func TestAnswersInAnothersName(t *testing.T) {
	s := newSite(t)
	h2 := as(pki.RoleHost, "h2")
	for name, c := range map[string]struct {
		says string // host
		live *pki.Live
		want error
	}{
		"its own":      {"h1", s.host("h1"), nil},
		"another's":    {"h1", s.host("h3"), ErrIdentity},
		"the caller's": {"h2", s.host("h3"), ErrIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, c.says, c.live, "")
			client := pool(t, h2, s.host("h2")).at(t, srv.endpoint, "")
			ctx := within(t, 20*time.Second)
			for call, do := range map[string]func() error{
				"hello":   func() error { return second(client.Hello(ctx)) },
				"ping":    func() error { return second(client.Ping(ctx, pingOf("h2"))) },
				"observe": func() error { return second(client.Observe(ctx, cluster.ObserveRequest{})) },
			} {
				switch err := do(); {
				case c.want == nil && err != nil:
					t.Errorf("%s: %v", call, err)
				case c.want != nil:
					wantFailure(t, err, c.want, true)
					var told *Error
					if !errors.As(err, &told) || told.Hint() == "" {
						t.Errorf("%s: there is no hint: %v", call, err)
					}
				}
			}
		})
	}
}

// A hello is about the cluster of the certificate, too, and gossip about the caller's.
func TestAnswersAboutAnotherCluster(t *testing.T) {
	s := newSite(t)
	h2 := as(pki.RoleHost, "h2")
	srv := start(t, "h1", s.live(pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h1"}, 0), "")
	asked, err := pool(t, h2, s.host("h2")).Ask(srv.endpoint)
	must(t, err)
	defer asked.Close()
	_, err = asked.Hello(within(t, 20*time.Second)) // it says c1
	wantFailure(t, err, ErrIdentity, true)

	srv = start(t, "h1", s.host("h1"), "")
	srv.handler.ping = func(p cluster.Ping) cluster.Ping {
		p.Host, p.Cluster = "h1", "c2"
		return p
	}
	_, err = pool(t, h2, s.host("h2")).at(t, srv.endpoint, "h1").Ping(within(t, 20*time.Second), pingOf("h2"))
	wantFailure(t, err, ErrIdentity, true)
}

// What a certificate was good for when the connection was made it is good for as long
// as it lasts: each call looks at the clock, whoever calls and whatever is asked.
func TestCertificateThatExpiresOnAnOpenConnection(t *testing.T) {
	s := newSite(t)
	var later atomic.Int64 // how far the server's clock goes ahead
	live := pki.NewLive(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	r, err := pki.HostRequest(as(pki.RoleHost, "h1"), []string{"127.0.0.1"}, pki.Lifetime{Duration: 24 * time.Hour, MinTimeLeft: time.Hour})
	must(t, err)
	pair, err := s.all.Manager.Issue(r, s.now)
	must(t, err)
	live.Swap(pair, s.all.Manager)
	srv := start(t, "h1", live, "")
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	ctx := within(t, 20*time.Second)
	calls := map[string]func(context.Context) error{
		"hello": func(ctx context.Context) error { return second(c.Hello(ctx)) },
		"ping":  func(ctx context.Context) error { return second(c.Ping(ctx, pingOf("h2"))) },
		"apply": func(ctx context.Context) error { return second(c.Apply(ctx, cluster.ApplyRequest{})) },
	}
	for _, do := range calls {
		must(t, do(ctx))
	}
	seen := len(srv.handler.callers)
	later.Store(int64(25 * time.Hour))
	for name, do := range calls {
		err := do(ctx)
		if err == nil {
			t.Errorf("%s: it was answered", name)
			continue
		}
		wantFailure(t, err, ErrIdentity, false)
		var told interface{ Hint() string }
		if !errors.As(err, &told) || !strings.Contains(told.Hint(), "clocks") || !strings.Contains(err.Error(), "the certificate is not accepted") {
			t.Errorf("%s: a clock is not what is told: %v", name, err)
		}
	}
	if len(srv.handler.callers) != seen {
		t.Error("the handler was called")
	}
}
