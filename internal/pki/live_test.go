package pki

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that the test moves.
type clock struct{ at atomic.Int64 }

func newClock(t time.Time) *clock    { c := new(clock); c.set(t); return c }
func (c *clock) set(t time.Time)     { c.at.Store(t.UnixNano()) }
func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *clock) add(d time.Duration) { c.at.Add(int64(d)) }
func live(c *clock, k *Keypair, a *Authority) *Live {
	l := NewLive(c.now)
	l.Swap(k, a)
	return l
}

func issued(t *testing.T, a *Authority, r Request, now time.Time) *Keypair {
	t.Helper()
	k, err := a.Issue(r, now)
	must(t, err)
	return k
}

// echo serves lines back over TLS on loopback until the test ends.
func echo(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	l := tls.NewListener(listen(t), cfg)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				for in := bufio.NewScanner(c); in.Scan(); {
					fmt.Fprintln(c, in.Text())
				}
			})
		}
	})
	return l.Addr().String()
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

// dial completes the handshake on both sides: with TLS 1.3 a server's refusal shows only at the first read.
func dial(t *testing.T, address string, cfg *tls.Config) (*tls.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c.(*tls.Conn), says(c, "hello")
}

func says(c net.Conn, line string) error {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintln(c, line); err != nil {
		return err
	}
	got, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && got != line+"\n" {
		err = fmt.Errorf("echoed %q", got)
	}
	return err
}

func TestHandshakes(t *testing.T) {
	_, all := created(t)
	_, foreign := created(t)
	c := newClock(t0)
	h1 := issued(t, all.Manager, hostRequest(t, "h1", "10.9.9.9"), t0) // the address it is dialled by is not in it, and need not be
	h2 := issued(t, all.Manager, hostRequest(t, "h2"), t0)
	server := echo(t, live(c, h1, all.Manager).ServerConfig())

	request, err := CallerRequest(Identity{"c1", RoleOperator, "jo"}, DefaultLifetime())
	must(t, err)
	jo := issued(t, all.Manager, request, t0)
	short := hostRequest(t, "h2")
	short.Lifetime = Lifetime{Duration: time.Hour}
	brief := issued(t, all.Manager, short, t0)
	future := issued(t, all.Manager, hostRequest(t, "h2"), t0.Add(time.Hour))
	anonymous := issued(t, all.Manager, Request{CommonName: "x", Server: true, Lifetime: DefaultLifetime()}, t0)
	etcdPeer := issued(t, all.Peers, hostRequest(t, "h2"), t0)

	for name, client := range map[string]struct {
		pair          *Keypair
		cluster, host string
		want          string // empty: works
	}{
		"a host":                 {h2, "c1", "h1", ""},
		"a seed of unknown ID":   {h2, "c1", "", ""},
		"an operator":            {jo, "c1", "h1", ""},
		"not yet valid":          {future, "c1", "h1", "bad certificate"},
		"without an identity":    {anonymous, "c1", "h1", "bad certificate"},
		"of another of our CAs":  {etcdPeer, "c1", "h1", "bad certificate"},
		"expecting another host": {h2, "c1", "h3", `dialled host "h3", but host "h1" answered`},
		"expecting another name": {h2, "c2", "h1", `dialled a host of cluster "c2", but it belongs to cluster "c1"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, server, live(c, client.pair, all.Manager).ClientConfig(client.cluster, client.host))
			if client.want == "" && err != nil || client.want != "" && (err == nil || !strings.Contains(err.Error(), client.want)) {
				t.Errorf("got %v, want %q", err, client.want)
			}
		})
	}
	end := brief.Leaf().NotAfter
	for at, ok := range map[time.Time]bool{end: true, end.Add(time.Second): false} {
		c.set(at)
		_, err := dial(t, server, live(c, brief, all.Manager).ClientConfig("c1", "h1"))
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "bad certificate") {
			t.Errorf("at %s, with a leaf until %s: %v", at, end, err)
		}
	}
	c.set(t0)
	if _, err := dial(t, server, live(c, h2, foreign.Manager).ClientConfig("c1", "h1")); err == nil {
		t.Error("a client took a server of a foreign authority")
	}
	if _, err := dial(t, server, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("the server took a client without a certificate")
	}
	if _, err := dial(t, server, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return h2.TLS(), nil }}); err == nil {
		t.Error("the server took TLS 1.1")
	}
	if conn, err := dial(t, server, live(c, h2, all.Manager).ClientConfig("c1", "h1")); err != nil || conn.ConnectionState().Version != tls.VersionTLS13 {
		t.Errorf("not TLS 1.3: %v", err)
	}
	joServes := echo(t, live(c, jo, all.Manager).ServerConfig())
	if _, err := dial(t, joServes, live(c, h2, all.Manager).ClientConfig("c1", "")); err == nil {
		t.Error("an operator's certificate passed for a host's")
	}
	empty := echo(t, NewLive(nil).ServerConfig())
	if _, err := dial(t, empty, live(c, h2, all.Manager).ClientConfig("c1", "")); err == nil {
		t.Error("a server without a certificate answered")
	}
}

func TestRenewalWhileConnected(t *testing.T) {
	_, all := created(t)
	c := newClock(t0)
	files := t.TempDir()
	r := hostRequest(t, "h1")
	first := ensure(t, files, all.Manager, r, t0)
	srv := live(c, first.Pair, all.Manager)
	server := echo(t, srv.ServerConfig())
	serial := func(conn *tls.Conn) *big.Int { return conn.ConnectionState().PeerCertificates[0].SerialNumber }
	client := func() *tls.Config {
		return live(c, issued(t, all.Manager, hostRequest(t, "h2"), c.now()), all.Manager).ClientConfig("c1", "h1")
	}

	standing, err := dial(t, server, client())
	must(t, err)
	c.add(500 * day)
	renewed := ensure(t, files, all.Manager, r, c.now())
	if renewed.Issued == "" {
		t.Fatal("not renewed")
	}
	srv.Swap(renewed.Pair, all.Manager)
	must(t, says(standing, "still here"))
	c.add(400 * day) // the first leaf has expired by now
	next, err := dial(t, server, client())
	must(t, err)
	if serial(next).Cmp(renewed.Pair.Leaf().SerialNumber) != 0 || serial(standing).Cmp(first.Pair.Leaf().SerialNumber) != 0 {
		t.Error("the new connection did not get the renewed leaf")
	}
	must(t, says(standing, "and here"))
	if _, err := srv.Verify(standing.ConnectionState().PeerCertificates, x509.ExtKeyUsageServerAuth); !errors.Is(err, ErrExpired) {
		t.Errorf("asked again, the old leaf is %v", err)
	}
}

// An authority is replaced with neither side ever unable to talk to the other, in the order that the operations manual gives.
func TestRotationWithoutOutage(t *testing.T) {
	dir := t.TempDir()
	oldCA := newCA(t, "ca", ecKey(t), t0.Add(-day), t0.Add(900*day))
	newer := newCA(t, "ca", ecKey(t), t0.Add(-day), t0.Add(900*day))
	load := func(signer someCA, bundle ...someCA) *Authority {
		install(t, dir, ManagerCA, signer.key, bundle...)
		a, err := LoadAuthority(dir, ManagerCA, t0)
		must(t, err)
		return a
	}
	stages := []*Authority{load(oldCA, oldCA), load(oldCA, oldCA, newer), load(newer, oldCA, newer), load(newer, newer)}
	c := newClock(t0)
	var sides [2]*Live
	var addresses [2]string
	for i := range sides {
		sides[i] = NewLive(c.now)
		addresses[i] = echo(t, sides[i].ServerConfig())
	}
	reach := func(stage int, from, to int) {
		t.Helper()
		if _, err := dial(t, addresses[to], sides[from].ClientConfig("c1", fmt.Sprintf("h%d", to))); err != nil {
			t.Fatalf("stage %d: h%d cannot reach h%d: %v", stage, from, to, err)
		}
	}
	for stage, a := range stages {
		for i, side := range sides {
			side.Swap(issued(t, a, hostRequest(t, fmt.Sprintf("h%d", i)), t0), a)
			if stage > 0 || i == 1 { // one host is a stage ahead of the other, then both are there
				reach(stage, 0, 1)
				reach(stage, 1, 0)
			}
		}
	}
	sides[0].Swap(issued(t, stages[0], hostRequest(t, "h0"), t0), stages[3])
	if _, err := dial(t, addresses[1], sides[0].ClientConfig("c1", "h1")); err == nil {
		t.Error("a leaf of the retired authority still works")
	}
}
