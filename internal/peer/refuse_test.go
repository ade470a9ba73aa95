package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestRoles(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	for _, role := range []pki.Role{pki.RoleHost, pki.RoleOperator, pki.RoleReader} {
		id := as(role, "x")
		c := pool(t, id, s.live(id, 0)).at(t, srv.endpoint, "h1")
		ctx := within(t, 20*time.Second)
		isHost, mayAsk := role == pki.RoleHost, role != pki.RoleReader
		for call, one := range map[string]struct {
			err     error
			allowed bool
		}{
			"hello":   {second(c.Hello(ctx)), true},
			"ping":    {second(c.Ping(ctx, pingOf("x"))), isHost},
			"observe": {second(c.Observe(ctx, cluster.ObserveRequest{})), isHost},
			"apply":   {second(c.Apply(ctx, cluster.ApplyRequest{})), isHost},
			"goal":    {second(c.Goal(ctx, json.RawMessage(`1`))), mayAsk},
			"report":  {second(c.Report(ctx, json.RawMessage(`1`))), true},
		} {
			t.Run(string(role)+" "+call, func(t *testing.T) {
				if one.allowed {
					must(t, one.err)
				} else {
					wantFailure(t, one.err, ErrRole, false)
				}
			})
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestIdentities(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	foreign := newSite(t)
	h2 := as(pki.RoleHost, "h2")
	for name, c := range map[string]struct {
		self pki.Identity
		live *pki.Live
		host string // that is dialled
		want error
		log  string
	}{
		"claims another host":            {as(pki.RoleHost, "h3"), s.host("h2"), "h1", ErrIdentity, "h3"},
		"claims the server itself":       {as(pki.RoleHost, "h1"), s.host("h2"), "h1", ErrIdentity, ""},
		"claims another role":            {h2, s.live(as(pki.RoleReader, "h2"), 0), "h1", ErrIdentity, "reader"},
		"claims our cluster, is another": {h2, s.live(pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h2"}, 0), "h1", ErrIdentity, "c2"},
		"expects another host":           {h2, s.host("h2"), "h9", ErrWrongHost, ""},
		"expects another cluster":        {pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h2"}, s.host("h2"), "h1", ErrWrongCluster, ""},
		"expired":                        {h2, s.live(h2, -48*time.Hour), "h1", ErrNotTrusted, "has expired"},
		"not yet valid":                  {h2, s.live(h2, time.Hour), "h1", ErrNotTrusted, "is not valid yet"},
		"foreign authority":              {h2, foreign.host("h2"), "h1", ErrCertificate, ""},
		"no TLS against TLS":             {h2, nil, "h1", ErrUnreachable, "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(srv.handler.callers)
			client := pool(t, c.self, c.live).at(t, srv.endpoint, c.host)
			_, err := client.Apply(within(t, 10*time.Second), cluster.ApplyRequest{})
			wantFailure(t, err, c.want, false)
			if another := errors.Is(c.want, ErrWrongHost); IsThere(err) == another {
				t.Errorf("whether it is there: %t: %v", IsThere(err), err)
			}
			if len(srv.handler.callers) != before {
				t.Error("the handler was called")
			}
		})
	}
	must(t, srv.stop())
	for _, want := range []string{"h3", "reader", "c2", "has expired", "is not valid yet", "does not speak TLS"} {
		if !strings.Contains(srv.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, srv.log)
		}
	}
}

// The server is the one that is not what it should be.
func TestServersThatAreRefused(t *testing.T) {
	s := newSite(t)
	h2 := as(pki.RoleHost, "h2")
	for name, c := range map[string]struct {
		live *pki.Live
		want error
	}{
		"expired":      {s.live(as(pki.RoleHost, "h1"), -48*time.Hour), ErrCertificate},
		"another host": {s.host("h3"), ErrWrongHost},
		"clear text":   {nil, ErrClearText},
		"another name": {s.live(pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h1"}, 0), ErrWrongCluster},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, "h1", c.live, "")
			_, err := pool(t, h2, s.host("h2")).at(t, srv.endpoint, "h1").Apply(within(t, 10*time.Second), cluster.ApplyRequest{})
			wantFailure(t, err, c.want, false)
			var e *Error
			if errors.As(err, &e); e.Hint() == "" {
				t.Errorf("no hint: %v", err)
			}
			if another := name == "another host"; IsThere(err) == another {
				t.Errorf("whether it is there: %t: %v", IsThere(err), err)
			}
		})
	}
}

func TestClaimsWithoutTLS(t *testing.T) {
	srv := start(t, "h1", nil, "")
	ctx := within(t, 20*time.Second)
	h2 := as(pki.RoleHost, "h2")
	_, err := pool(t, pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h2"}, nil).at(t, srv.endpoint, "h1").Ping(ctx, pingOf("h2"))
	wantFailure(t, err, ErrWrongCluster, false)
	_, err = pool(t, h2, nil).at(t, srv.endpoint, "h9").Apply(ctx, cluster.ApplyRequest{})
	wantFailure(t, err, ErrWrongHost, false)
	_, err = pool(t, h2, nil).at(t, srv.endpoint, "h1").Ping(ctx, pingOf("h3"))
	wantFailure(t, err, ErrIdentity, false)
	srv.handler.ping = func(p cluster.Ping) cluster.Ping { return p } // answers in the caller's name
	_, err = pool(t, h2, nil).at(t, srv.endpoint, "").Ping(ctx, pingOf("h2"))
	wantFailure(t, err, ErrIdentity, true)
}

// A daemon that knows nothing but an address learns whose it is, even of another cluster.
func TestAsk(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	other := pki.Identity{Cluster: "c2", Role: pki.RoleHost, ID: "h2"}
	c, err := pool(t, other, s.live(other, 0)).Ask(srv.endpoint)
	must(t, err)
	defer c.Close()
	h, err := c.Hello(within(t, 10*time.Second))
	if must(t, err); h != (Hello{Protocol, "c1", "h1"}) {
		t.Errorf("got %+v", h)
	}
	_, err = c.Ping(within(t, 10*time.Second), cluster.Ping{})
	wantFailure(t, err, ErrWrongCluster, false)
}

// A certificate that was good when the connection was made is looked at again at each call.
func TestWithdrawnAuthorityEndsAnOpenConnection(t *testing.T) {
	s := newSite(t)
	srvLive := s.host("h1")
	srv := start(t, "h1", srvLive, "")
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	ctx := within(t, 10*time.Second)
	must(t, second(c.Ping(ctx, pingOf("h2"))))
	next, err := pki.Create(filepath.Join(t.TempDir(), "pki"), s.now)
	must(t, err)
	r, err := pki.HostRequest(as(pki.RoleHost, "h1"), nil, pki.DefaultLifetime())
	must(t, err)
	pair, err := next.Manager.Issue(r, s.now)
	must(t, err)
	srvLive.Swap(pair, next.Manager)
	_, err = c.Ping(ctx, pingOf("h2"))
	wantFailure(t, err, ErrIdentity, false)
}

func TestBodies(t *testing.T) {
	srv := start(t, "h1", nil, "")
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1")
	ctx := within(t, 20*time.Second)
	header := &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: "host", Caller: "h2"}
	send := func(m method, do func(context.Context, *peerpb.Call, ...grpc.CallOption) (*peerpb.Answer, error), h *peerpb.Header, body string) error {
		return second(invoke(ctx, c, m, func(ctx context.Context) (*peerpb.Answer, error) {
			return do(ctx, &peerpb.Call{Header: h, Body: []byte(body)})
		}))
	}
	for _, body := range []string{"", "{", "[]", "{}x", "{}{}", "{}}", `{"fence":{"number":-1}}`, `{"fence":{"number":1e99}}`} {
		wantFailure(t, send(observe, c.rpc.Observe, header, body), ErrBody, false)
	}
	must(t, send(observe, c.rpc.Observe, header, `{"added by a later release":1}`))
	wantFailure(t, send(apply, c.rpc.Apply, header, `{"guard":{"added by a later release":1}}`), ErrBody, false)
	wantFailure(t, send(apply, c.rpc.Apply, nil, `{}`), ErrProtocol, false)
	wantFailure(t, send(apply, c.rpc.Apply, &peerpb.Header{Protocol: Protocol + 1, Cluster: "c1"}, `{}`), ErrProtocol, false)
	wantFailure(t, send(apply, c.rpc.Apply, &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: "god", Caller: "x"}, `{}`), ErrIdentity, false)
	wantFailure(t, send(apply, c.rpc.Apply, &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: "host"}, `{}`), ErrIdentity, false)
	wantFailure(t, second(c.Goal(ctx, json.RawMessage(`{`))), ErrBody, false)
}

func TestOversize(t *testing.T) {
	srv := start(t, "h1", nil, "")
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1")
	ctx := within(t, 20*time.Second)
	header := &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: "host", Caller: "h2"}
	sized := func(bytes int) *peerpb.Call { // a call of so many bytes in all
		t.Helper()
		one := &peerpb.Call{Header: header, Body: make([]byte, bytes)}
		one.Body = make([]byte, bytes-(proto.Size(one)-bytes))
		for i := range one.Body {
			one.Body[i] = 'x'
		}
		one.Body[0], one.Body[len(one.Body)-1] = '"', '"'
		if got := proto.Size(one); got != bytes {
			t.Fatalf("the call has %d bytes, want %d", got, bytes)
		}
		return one
	}
	send := func(one *peerpb.Call, opts ...grpc.CallOption) error {
		return second(invoke(ctx, c, report, func(ctx context.Context) (*peerpb.Answer, error) { return c.rpc.Report(ctx, one, opts...) }))
	}
	tooLarge := sized(maxRequestBytes + 1)
	wantFailure(t, send(tooLarge), ErrTooLarge, false)
	// A caller that does not hold itself back is stopped by the server.
	wantFailure(t, send(tooLarge, grpc.MaxCallSendMsgSize(2*maxRequestBytes)), ErrTooLarge, true)
	if len(srv.handler.callers) != 0 {
		t.Error("the handler saw an oversize message")
	}
	must(t, send(sized(maxRequestBytes-1)))
	if len(srv.handler.callers) != 1 {
		t.Error("the handler did not see the largest message")
	}
}

// Bytes that are no TLS, none at all, and half a handshake do not keep the server from its callers.
func TestNoiseOnThePort(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	for _, noise := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", strings.Repeat("\x00", 1<<16)} {
		conn, err := net.Dial("tcp", srv.endpoint)
		must(t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn, noise)
	}
	must(t, second(pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1").Ping(within(t, 10*time.Second), pingOf("h2"))))
}

func TestOnceLog(t *testing.T) {
	var out bytes.Buffer
	o := newOnceLog(logTo(&out))
	for range 5 {
		o.warn("refused", "remote", "a", "reason", "x")
		o.warn("refused", "remote", "b", "reason", "x")
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, &out)
	}
	for i := range 5 {
		o.warn("refused", "remote", "a", "reason", fmt.Sprintf("not valid yet: valid from 2026-11-24T00:10:10Z, now 2026-11-23T00:15:0%dZ", i))
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("what is the same a second later is said again, %d lines:\n%s", got, &out)
	}
	for i := range 3 * remembered {
		o.warn("refused", "remote", strings.Repeat("x", i))
	}
	if len(o.said) > remembered {
		t.Errorf("remembers %d", len(o.said))
	}
}

// liar answers every op in another host's name.
type liar struct {
	peerpb.UnimplementedPeerServer
}

func (liar) Apply(context.Context, *peerpb.Call) (*peerpb.Answer, error) {
	return &peerpb.Answer{Host: "h9", Body: []byte(`{"outcome":"done"}`)}, nil
}

// Without TLS the client still notices an answer by another host than the one it meant, and an older one that lacks a call.
func TestAnswersByAnotherHost(t *testing.T) {
	l := listen(t)
	g := grpc.NewServer()
	peerpb.RegisterPeerServer(g, liar{})
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	defer func() { g.Stop(); must(t, <-done) }()
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, l.Addr().String(), "h1")
	reply, err := c.Apply(within(t, 10*time.Second), cluster.ApplyRequest{})
	wantFailure(t, err, ErrWrongHost, true)
	if reply.Outcome != "" {
		t.Errorf("its word was passed on: %+v", reply)
	}
	_, err = c.Observe(within(t, 10*time.Second), cluster.ObserveRequest{})
	wantFailure(t, err, ErrProtocol, false)
}

// The daemon of etcd-manager has the same port and no call of ours: nobody is told to
// change what is right while a cluster is taken over.
func TestADaemonOfEtcdManagerNeedsNoCure(t *testing.T) {
	l := listen(t)
	g := grpc.NewServer()
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	defer func() { g.Stop(); must(t, <-done) }()
	_, err := pool(t, as(pki.RoleHost, "h2"), nil).at(t, l.Addr().String(), "h1").Observe(within(t, 10*time.Second), cluster.ObserveRequest{})
	wantFailure(t, err, ErrProtocol, false)
	var told *Error
	advice, _ := explainHandshake(fmt.Errorf("its certificate: %w", pki.ErrIdentity))
	if errors.As(err, &told); !strings.HasPrefix(told.Hint(), "while kubernetes-sigs/etcd-manager runs there, nothing") || !strings.HasPrefix(advice, "while kubernetes-sigs/etcd-manager runs there, nothing") {
		t.Errorf("it is told %q, and with TLS %q", told.Hint(), advice)
	}
}
