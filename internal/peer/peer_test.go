package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler answers with what it was asked, unless the test says otherwise.
type handler struct {
	mu      sync.Mutex
	callers []Caller // guarded by mu
	apply   func(context.Context, cluster.ApplyRequest) (cluster.ApplyReply, error)
	ping    func(cluster.Ping) cluster.Ping
}

func (h *handler) saw(c Caller) {
	h.mu.Lock()
	h.callers = append(h.callers, c)
	h.mu.Unlock()
}

func (h *handler) Ping(_ context.Context, c Caller, p cluster.Ping) (cluster.Ping, error) {
	h.saw(c)
	return h.ping(p), nil
}

func (h *handler) Observe(_ context.Context, c Caller, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	h.saw(c)
	return cluster.ObserveReply{Refused: &cluster.Refused{Promised: r.Fence, Age: time.Second}, Stamp: "s"}, nil
}

func (h *handler) Apply(ctx context.Context, c Caller, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	h.saw(c)
	if h.apply != nil {
		return h.apply(ctx, r)
	}
	return cluster.ApplyReply{Outcome: cluster.OutcomeDone, Reason: string(r.Op.Kind)}, nil
}

func (h *handler) Goal(_ context.Context, c Caller, wish json.RawMessage) (json.RawMessage, error) {
	h.saw(c)
	return wish, nil
}

func (h *handler) Report(_ context.Context, c Caller, question json.RawMessage) (json.RawMessage, error) {
	h.saw(c)
	return question, nil
}

func (h *handler) Authority(_ context.Context, c Caller, r AuthorityRequest) (AuthorityReply, error) {
	h.saw(c)
	return AuthorityReply{Key: []byte("key of " + r.Name)}, nil
}

func (h *handler) Keep(_ context.Context, c Caller, _ KeepRequest) (KeepReply, error) {
	h.saw(c)
	return KeepReply{}, nil
}

// site is one authority, and what its tests make of it.
type site struct {
	t   *testing.T
	all *pki.Authorities
	now time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	now := time.Now()
	all, err := pki.Create(filepath.Join(t.TempDir(), "pki"), now.Add(-72*time.Hour)) // old enough for leaves that have expired
	must(t, err)
	return &site{t, all, now}
}

func as(role pki.Role, id string) pki.Identity {
	return pki.Identity{Cluster: "c1", Role: role, ID: id}
}

// live is a certificate for id, issued at a time relative to now and good for a day.
func (s *site) live(id pki.Identity, issuedAt time.Duration) *pki.Live {
	s.t.Helper()
	life := pki.Lifetime{Duration: 24 * time.Hour, MinTimeLeft: time.Hour}
	r, err := pki.CallerRequest(id, life)
	if id.Role == pki.RoleHost {
		r, err = pki.HostRequest(id, []string{"127.0.0.1"}, life)
	}
	must(s.t, err)
	then := s.now.Add(issuedAt)
	a := s.all.Manager
	pair, err := a.Issue(r, then)
	must(s.t, err)
	l := pki.NewLive(nil)
	l.Swap(pair, a)
	return l
}

func (s *site) host(id string) *pki.Live { return s.live(as(pki.RoleHost, id), 0) }

// running is a server on loopback, at the endpoint or, when that is empty, at a free one.
type running struct {
	endpoint string
	handler  *handler
	log      *bytes.Buffer // read it after stop only
	server   *Server
	stop     func() error
}

func start(t *testing.T, host string, live *pki.Live, endpoint string, adjust ...func(*Server)) *running {
	t.Helper()
	var l net.Listener
	if endpoint == "" {
		l = listen(t)
	} else {
		var err error
		l, err = net.Listen("tcp", endpoint)
		must(t, err)
	}
	r := &running{endpoint: l.Addr().String(), log: new(bytes.Buffer)}
	r.handler = &handler{ping: func(p cluster.Ping) cluster.Ping {
		p.Host = cluster.HostID(host)
		return p
	}}
	s, err := NewServer(ServerOptions{Cluster: "c1", Host: cluster.HostID(host), Handler: r.handler, Live: live, Log: slog.New(slog.NewTextHandler(r.log, nil))})
	must(t, err)
	r.server = s
	for _, with := range adjust {
		with(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("the server does not stop")
		}
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// listen opens a free port below the ephemeral range, where no outgoing connection can be in the way of listening
// on it again.
func listen(t *testing.T) net.Listener {
	t.Helper()
	for range 200 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l
		}
	}
	t.Fatal("no free port")
	return nil
}

func pool(t *testing.T, self pki.Identity, live *pki.Live) *Pool {
	t.Helper()
	p, err := NewPool(self, live)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func (p *Pool) at(t *testing.T, endpoint, host string) *Client {
	t.Helper()
	c, err := p.To(cluster.Contact{Endpoint: endpoint, Host: cluster.HostID(host)})
	must(t, err)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pingOf(id string) cluster.Ping {
	return cluster.Ping{Cluster: "c1", Host: cluster.HostID(id), Endpoint: "x:1", Epoch: 7}
}

// wantFailure checks the sentinel, that the text is one line naming the endpoint, and whether the call may have had an effect.
func wantFailure(t *testing.T, err, want error, delivered bool) {
	t.Helper()
	var e *Error
	if !errors.Is(err, want) || !errors.As(err, &e) {
		t.Fatalf("got %v, want %v in an *Error", err, want)
	}
	if e.Delivered != delivered || !strings.Contains(err.Error(), e.Endpoint) || strings.Contains(err.Error(), "\n") {
		t.Errorf("delivered: %v, text: %q", e.Delivered, err)
	}
}

func TestCalls(t *testing.T) {
	s := newSite(t)
	for name, lives := range map[string][2]*pki.Live{"mutual TLS": {s.host("h1"), s.host("h2")}, "no TLS": {nil, nil}} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, "h1", lives[0], "")
			c := pool(t, as(pki.RoleHost, "h2"), lives[1]).at(t, srv.endpoint, "h1")
			ctx := within(t, 20*time.Second)

			h, err := c.Hello(ctx)
			if must(t, err); h != (Hello{Protocol, "c1", "h1"}) {
				t.Errorf("hello: %+v", h)
			}
			sent := pingOf("h2")
			sent.View = []cluster.Contact{{Host: "h3", Endpoint: "y:2"}}
			sent.Clock = time.Now().UTC()
			got, err := c.Ping(ctx, sent)
			sent.Host = "h1"
			if must(t, err); cmp.Diff(sent, got) != "" {
				t.Error(cmp.Diff(sent, got))
			}
			fence := cluster.Fence{Number: 1<<63 + 1, Host: "h2"} // more than a float can carry
			o, err := c.Observe(ctx, cluster.ObserveRequest{Fence: fence})
			if must(t, err); o.Refused == nil || o.Refused.Promised != fence || o.Stamp != "s" {
				t.Errorf("observe: %+v", o)
			}
			a, err := c.Apply(ctx, cluster.ApplyRequest{Fence: fence, Op: cluster.Op{Kind: cluster.OpStop}})
			if must(t, err); a.Outcome != cluster.OutcomeDone || a.Reason != string(cluster.OpStop) {
				t.Errorf("apply: %+v", a)
			}
			for _, do := range []func(context.Context, json.RawMessage) (json.RawMessage, error){c.Goal, c.Report} {
				reply, err := do(ctx, json.RawMessage(`{"a":1}`))
				if must(t, err); string(reply) != `{"a":1}` {
					t.Errorf("got %s", reply)
				}
			}
			must(t, srv.stop())
			for _, from := range srv.handler.callers {
				if from.Identity != as(pki.RoleHost, "h2") || from.Verified != (lives[0] != nil) || !strings.HasPrefix(from.Remote, "127.0.0.1:") {
					t.Errorf("caller: %+v", from)
				}
			}
			if len(srv.handler.callers) != 5 || srv.log.Len() != 0 {
				t.Errorf("%d callers, log: %s", len(srv.handler.callers), srv.log)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	h := &handler{}
	for _, opt := range []ServerOptions{{Cluster: "c1", Host: "h1"}, {Cluster: "c 1", Host: "h1", Handler: h}, {Cluster: "c1", Handler: h}} {
		if _, err := NewServer(opt); err == nil {
			t.Errorf("%+v passed", opt)
		}
	}
	if _, err := NewPool(as("root", "x"), nil); err == nil {
		t.Error("an unknown role passed")
	}
	p := pool(t, as(pki.RoleHost, "h1"), nil)
	for _, endpoint := range []string{"", "h1", ":8000", "h1:"} {
		if _, err := p.To(cluster.Contact{Endpoint: endpoint}); err == nil {
			t.Errorf("%q passed", endpoint)
		}
	}
	must(t, p.Close())
	_, err := p.To(cluster.Contact{Endpoint: "h1:1"})
	wantFailure(t, err, ErrClosed, false)
}

// A record is heard of from hosts only, also where its caller is refused for it.
func TestRecordIsHeard(t *testing.T) {
	s := newSite(t)
	for role, heard := range map[pki.Role]string{pki.RoleHost: "N", pki.RoleOperator: ""} {
		got := ""
		r := start(t, "h1", s.host("h1"), "", func(s *Server) {
			s.opt.Record = func() string { return "S" }
			s.opt.Heard = func(record string) { got = record }
		})
		p, err := NewPool(as(role, "h2"), s.live(as(role, "h2"), 0))
		must(t, err)
		defer p.Close()
		p.Record = func() string { return "N" }
		c, err := p.To(cluster.Contact{Host: "h1", Endpoint: r.endpoint})
		must(t, err)
		if _, err := c.Ping(t.Context(), cluster.Ping{}); err == nil {
			t.Error("it is not refused")
		}
		must(t, r.stop())
		if got != heard {
			t.Errorf("%s: %q", role, got)
		}
	}
}

// Who has its record in a store is no host of a record that the hosts keep, and says so; who joins names none. What either remembers of the
// other's disk goes beside a refusal, and nothing else.
func TestRecordInAStore(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		ours, theirs     string
		atHosts, refused bool
	}{
		"both in a store":                  {theirs: InStore},
		"both in a store that has a name":  {ours: "S", theirs: "S"},
		"one store after another":          {ours: "S", theirs: InStore, refused: true},
		"the hosts keep it":                {ours: "N", theirs: InStore, atHosts: true, refused: true},
		"the hosts keep it, and one joins": {ours: "N", atHosts: true},
		"this one joins":                   {theirs: InStore, atHosts: true, refused: true},
		"in a store, by a host at home":    {theirs: "N"},
	} {
		r := start(t, "h1", s.host("h1"), "", func(s *Server) { s.opt.Record, s.opt.AtHosts = func() string { return c.ours }, c.atHosts })
		p, err := NewPool(as(pki.RoleHost, "h2"), s.live(as(pki.RoleHost, "h2"), 0))
		must(t, err)
		p.Record = func() string { return c.theirs }
		to, err := p.To(cluster.Contact{Host: "h1", Endpoint: r.endpoint})
		must(t, err)
		said := cluster.Ping{Cluster: "c1", Host: "h2", Disk: "d", Epoch: 3, RememberedDisk: "e", Remembered: 7, Generation: 2}
		r.handler.ping = func(p cluster.Ping) cluster.Ping {
			if p.Epoch != said.Epoch || p.Remembered != said.Remembered || (p.Generation == 0) != c.refused || (p.Refused != "") != c.refused {
				t.Errorf("%s: it hears %+v", name, p)
			}
			said.Host = "h1"
			return said
		}
		told, err := to.Ping(t.Context(), said)
		if (err != nil) != c.refused || c.refused && (!errors.Is(err, ErrWrongCluster) || !strings.Contains(err.Error(), adviceOtherRecord)) {
			t.Errorf("%s: %v", name, err)
		}
		if told.Remembered != 7 || told.RememberedDisk != "e" || (told.Generation == 0) != c.refused {
			t.Errorf("%s: it tells %+v", name, told)
		}
		if _, err := to.Keep(t.Context(), KeepRequest{Where: true}); err != nil && strings.Contains(err.Error(), "record") {
			t.Errorf("%s: it is not told where the record is: %v", name, err)
		}
		must(t, p.Close())
		must(t, r.stop())
	}
}
