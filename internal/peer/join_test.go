package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// gatekeeper takes in who has the right token.
type gatekeeper struct {
	mu    sync.Mutex // guards asked
	asked []JoinRequest
}

func (g *gatekeeper) Join(_ context.Context, _ string, r JoinRequest) (JoinReply, error) {
	g.mu.Lock()
	g.asked = append(g.asked, r)
	g.mu.Unlock()
	if r.Token != goodToken {
		return JoinReply{}, hinted{errors.New("token abcdef has a wrong secret")}
	}
	return JoinReply{Cluster: "c1", Host: "h1", Authorities: map[string][]byte{"x.key": []byte("secret")}}, nil
}

const goodToken = "abcdef.the-secret-of-a-token"

func admitting(g Admitter) func(*Server) { return func(s *Server) { s.opt.Admitter = g } }

func request(token string) JoinRequest {
	return JoinRequest{Token: token, Host: "h9", Address: "127.0.0.9", Build: "test", Clock: time.Now(), Try: "1"}
}

// joinLook is how soon a joiner is told what is wrong.
const joinLook = 3 * time.Second

func TestJoin(t *testing.T) {
	s := newSite(t)
	g := new(gatekeeper)
	srv := start(t, "h1", s.host("h1"), "", admitting(g))
	ctx := within(t, 20*time.Second)
	hash := s.all.Manager.Hash()

	reply, id, err := Join(ctx, srv.endpoint, hash, request(goodToken))
	must(t, err)
	if reply.Cluster != "c1" || string(reply.Authorities["x.key"]) != "secret" || id != as(pki.RoleHost, "h1") {
		t.Errorf("%+v by %s", reply, id)
	}
	_, _, err = Join(ctx, srv.endpoint, hash, request("abcdef.another-secret"))
	var told *Error
	if !errors.Is(err, ErrJoin) || !strings.Contains(err.Error(), "has a wrong secret") || !errors.As(err, &told) || told.Hint() != "do this" {
		t.Errorf("%v", err)
	}
	must(t, srv.stop())
	for _, secret := range []string{"the-secret-of-a-token", "another-secret"} {
		if strings.Contains(srv.log.String(), secret) || strings.Contains(err.Error(), secret) {
			t.Errorf("a secret is told:\n%s\n%v", srv.log, err)
		}
	}
	if !strings.Contains(srv.log.String(), "a host was not let join") || !strings.Contains(srv.log.String(), "remote=127.0.0.1") {
		t.Errorf("not told:\n%s", srv.log)
	}
}

// What a joiner is told when it cannot join, and that it is told soon and gives nothing away before.
func TestJoinRefused(t *testing.T) {
	s, foreign := newSite(t), newSite(t)
	hash := s.all.Manager.Hash()
	g := new(gatekeeper)
	ctx := within(t, 60*time.Second)
	at := func(host string, live *pki.Live, adjust ...func(*Server)) string {
		return start(t, host, live, "", append(adjust, admitting(g))...).endpoint
	}
	nobody := listen(t)
	nobody.Close()
	mute := listen(t)
	t.Cleanup(func() { mute.Close() })
	odd := listen(t)
	t.Cleanup(func() { odd.Close() })
	go func() {
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			c.Close()
		}
	}()
	ahead := pki.NewLive(nil)
	r, err := pki.HostRequest(as(pki.RoleHost, "h1"), []string{"127.0.0.1"}, pki.Lifetime{Duration: time.Hour, MinTimeLeft: time.Minute})
	must(t, err)
	pair, err := s.all.Manager.Issue(r, s.now.Add(2*time.Hour))
	must(t, err)
	ahead.Swap(pair, s.all.Manager)
	for name, c := range map[string]struct {
		endpoint string
		want     error
		says     string
	}{
		"another authority":       {at("h1", foreign.host("h1")), pki.ErrOtherAuthority, "--ca-hash"},
		"a person's certificate":  {at("h1", s.live(as(pki.RoleOperator, "p"), 0)), pki.ErrOtherAuthority, "--ca-hash"}, // it serves nobody
		"a clock that is ahead":   {at("h1", ahead), pki.ErrClock, "NTP"},
		"a clock that is behind":  {at("h1", s.live(as(pki.RoleHost, "h1"), -30*time.Hour)), pki.ErrClock, "NTP"},
		"without TLS":             {at("h1", nil), ErrClearText, "--insecure"},
		"nobody":                  {nobody.Addr().String(), ErrUnreachable, "systemctl"},
		"who does not answer":     {mute.Addr().String(), ErrUnreachable, "firewalls"},
		"another program's port":  {odd.Addr().String(), ErrClearText, "another program"},
		"an address without port": {"127.0.0.1", nil, "host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, _, err := Join(ctx, c.endpoint, hash, request(goodToken))
			var told *Error
			if !errors.As(err, &told) || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(told.Hint(), c.says) {
				t.Errorf("%v; want %v, with %q", err, c.want, c.says)
			}
			if took := time.Since(began); took > joinLook {
				t.Errorf("told after %s", took)
			}
			if err != nil && strings.Contains(err.Error(), "the-secret-of-a-token") {
				t.Errorf("the token is told: %v", err)
			}
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) > 0 {
		t.Errorf("%d tokens were sent", len(g.asked))
	}
}

// Who is in between with an authority of another hash, even if it shows the true certificate beside its own, gets
// no token.
func TestManInTheMiddleGetsNoToken(t *testing.T) {
	s, foreign := newSite(t), newSite(t)
	genuineCA := s.all.Manager
	r, err := pki.HostRequest(as(pki.RoleHost, "h1"), []string{"127.0.0.1"}, pki.DefaultLifetime())
	must(t, err)
	pair, err := foreign.all.Manager.Issue(r, s.now)
	must(t, err)
	genuine, err := genuineCA.Issue(r, s.now)
	must(t, err)
	// The certificate that the person's hash is of, as anybody can read it from any handshake.
	var shown []byte
	{
		srv := start(t, "h1", s.host("h1"), "", admitting(new(gatekeeper)))
		conn, err := tls.Dial("tcp", srv.endpoint, &tls.Config{ServerName: pki.JoinName, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		must(t, err)
		shown = conn.ConnectionState().PeerCertificates[1].Raw
		conn.Close()
	}
	own, stolen := pair.TLS(), pair.TLS()
	own.Certificate = append(own.Certificate, shown)
	stolen.Certificate = [][]byte{genuine.Leaf().Raw, shown} // with a key that is another one's
	onlyCA := pair.TLS()
	onlyCA.Certificate = [][]byte{pair.Leaf().Raw, shown, shown}
	for name, cert := range map[string]*tls.Certificate{"its own leaf beside the true authority": own, "the true leaf without its key": stolen, "the authority twice": onlyCA} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			t.Cleanup(func() { l.Close() })
			got := make(chan string, 1)
			go func() {
				raw, err := l.Accept()
				if err != nil {
					got <- ""
					return
				}
				defer raw.Close()
				_ = raw.SetDeadline(time.Now().Add(2 * time.Second))
				conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
				data, _ := io.ReadAll(conn)
				got <- string(data)
			}()
			_, _, err := Join(within(t, 10*time.Second), l.Addr().String(), genuineCA.Hash(), request(goodToken))
			if err == nil {
				t.Fatal("it was believed")
			}
			if data := <-got; strings.Contains(data, "abcdef") || len(data) > 0 {
				t.Errorf("%d bytes were sent to it", len(data))
			}
		})
	}
}

// joiner is a connection for joining, over which anything may be asked.
func joiner(t *testing.T, endpoint string, hash string, change ...func(*tls.Config)) peerpb.PeerClient {
	t.Helper()
	var id pki.Identity
	cfg := pki.JoinerConfig(hash, time.Now, &id)
	for _, c := range change {
		c(cfg)
	}
	cc, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	must(t, err)
	t.Cleanup(func() { cc.Close() })
	return peerpb.NewPeerClient(cc)
}

// On a connection for joining nothing but Join is answered, whatever the caller claims and shows, and Join nowhere else.
func TestOnlyJoinIsAnsweredToJoiners(t *testing.T) {
	s := newSite(t)
	g := new(gatekeeper)
	srv := start(t, "h1", s.host("h1"), "", admitting(g))
	ctx := within(t, 20*time.Second)
	hash := s.all.Manager.Hash()
	call := func(body string) *peerpb.Call {
		return &peerpb.Call{Body: []byte(body), Header: &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: "host", Caller: "h1", To: "h1"}}
	}
	r, err := pki.HostRequest(as(pki.RoleHost, "h2"), []string{"127.0.0.1"}, pki.DefaultLifetime())
	must(t, err)
	pair, err := s.all.Manager.Issue(r, s.now)
	must(t, err)
	for name, change := range map[string]func(*tls.Config){
		"without a certificate": func(*tls.Config) {},
		"with one":              func(c *tls.Config) { c.Certificates = []tls.Certificate{*pair.TLS()} }, // it is not asked for
	} {
		c := joiner(t, srv.endpoint, hash, change)
		for rpcName, do := range map[string]func() error{
			"hello":   func() error { return second(c.Hello(ctx, &peerpb.HelloRequest{Protocol: Protocol})) },
			"ping":    func() error { return second(c.Ping(ctx, call(`{"cluster":"c1","host":"h1"}`))) },
			"observe": func() error { return second(c.Observe(ctx, call(`{}`))) },
			"apply":   func() error { return second(c.Apply(ctx, call(`{}`))) },
			"goal":    func() error { return second(c.Goal(ctx, call(`1`))) },
			"report":  func() error { return second(c.Report(ctx, call(`1`))) },
			"keep":    func() error { return second(c.Keep(ctx, call(`{"where":true}`))) },
			"key":     func() error { return second(c.Authority(ctx, call(`{}`))) },
			"sign":    func() error { return second(c.Sign(ctx, call(`{"kind":"daemon"}`))) },
		} {
			if err := do(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s %s: %v", rpcName, name, err)
			}
		}
	}
	// Every call of the service is in that list, or is Join.
	if n := len(peerpb.Peer_ServiceDesc.Methods); n != 10 {
		t.Errorf("the service has %d calls: say here what a joiner is answered", n)
	}
	if len(srv.handler.callers) > 0 {
		t.Errorf("the handler saw %v", srv.handler.callers)
	}
	// A host with a certificate, on an ordinary connection.
	ordinary := joiner(t, srv.endpoint, hash, func(c *tls.Config) {
		*c = *s.host("h2").ClientConfig("c1", "h1")
	})
	if _, err := ordinary.Join(ctx, call(`{}`)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("join on an ordinary connection: %v", err)
	}
	if _, err := ordinary.Hello(ctx, &peerpb.HelloRequest{Protocol: Protocol}); err != nil {
		t.Errorf("hello on an ordinary connection: %v", err)
	}
	// Below TLS 1.3 there is no connection.
	old := joiner(t, srv.endpoint, hash, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 })
	if _, err := old.Join(ctx, call(`{}`)); status.Code(err) != codes.Unavailable {
		t.Errorf("join by TLS 1.2: %v", err)
	}
	if len(g.asked) > 0 {
		t.Errorf("%d were let in", len(g.asked))
	}
}

func TestJoinBodies(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "", admitting(new(gatekeeper)))
	bare := start(t, "h1", s.host("h1"), "")
	plain := start(t, "h1", nil, "", admitting(new(gatekeeper)))
	ctx := within(t, 20*time.Second)
	c := joiner(t, srv.endpoint, s.all.Manager.Hash())
	for name, body := range map[string]string{
		"nothing":        ``,
		"no object":      `1`,
		"an unknown key": `{"token":"abcdef.SECRET","color":1}`,
		"cut short":      `{"token":"abcdef.SECRET`,
		"too large":      `{"token":"` + strings.Repeat("SECRET", maxJoinBody) + `"}`,
	} {
		_, err := c.Join(ctx, &peerpb.Call{Body: []byte(body), Header: &peerpb.Header{Protocol: Protocol}})
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Join(ctx, &peerpb.Call{Body: []byte(`{}`), Header: &peerpb.Header{Protocol: Protocol + 1}}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another protocol: %v", err)
	}
	if _, _, err := Join(ctx, bare.endpoint, s.all.Manager.Hash(), request(goodToken)); !errors.Is(err, ErrJoin) {
		t.Errorf("a daemon that takes nobody in: %v", err)
	}
	clear, err := grpc.NewClient("passthrough:///"+plain.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { clear.Close() })
	if _, err := peerpb.NewPeerClient(clear).Join(ctx, &peerpb.Call{Body: []byte(`{}`), Header: &peerpb.Header{Protocol: Protocol}}); err == nil || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("without TLS: %v", err)
	}
}

// Connections of joiners give way where there are too many: nobody has shown who they are.
func TestJoinersHaveNoPlaceOfTheirOwn(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "", admitting(new(gatekeeper)))
	hash := s.all.Manager.Hash()
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	var id pki.Identity
	for range maxConnectedOf {
		c, err := tls.Dial("tcp", srv.endpoint, pki.JoinerConfig(hash, time.Now, &id))
		must(t, err)
		conns = append(conns, c)
	}
	h2 := as(pki.RoleHost, "h2")
	_, err := pool(t, h2, s.live(h2, 0)).at(t, srv.endpoint, "h1").Ping(within(t, 10*time.Second), pingOf("h2"))
	must(t, err)
}

func TestJoinMessagesShowNothing(t *testing.T) {
	for _, text := range []string{request(goodToken).String(), request(goodToken).GoString(), JoinReply{Authorities: map[string][]byte{"x": []byte("secret")}}.String()} {
		if strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
	all, err := pki.Create(filepath.Join(t.TempDir(), "pki"), time.Now())
	must(t, err)
	if h := all.Manager.Hash(); !pki.ValidHash(h) || pki.ValidHash(strings.ToUpper(h)) || pki.ValidHash(h[1:]) || pki.ValidHash(h+"00") {
		t.Errorf("%s", h)
	}
	if got := (JoinReply{Daemons: []string{"b:1", "a:1", "b:1"}}).Endpoints(); len(got) != 2 || got[0] != "a:1" {
		t.Errorf("%q", got)
	}
}
