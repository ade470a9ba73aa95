package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// acceptAll takes every connection that a listener lets through.
func acceptAll(l net.Listener) <-chan net.Conn {
	accepted := make(chan net.Conn, 64)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return accepted
}

// next is the next connection that was let through.
func next(t *testing.T, accepted <-chan net.Conn) net.Conn {
	t.Helper()
	select {
	case conn := <-accepted:
		return conn
	case <-time.After(20 * time.Second):
		t.Fatal("no connection was let through")
		return nil
	}
}

// closedSoon fails unless the other side closes the connection.
func closedSoon(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection was kept: %v", err)
	}
}

// from dials from another address of the loopback.
func from(t *testing.T, address string, to net.Addr) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
	conn, err := d.Dial("tcp", to.String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Who has shown a certificate keeps its place; of the others the oldest gives way, of the same address first.
func TestConnectionsAreBounded(t *testing.T) {
	for _, tls := range []bool{true, false} {
		t.Run(fmt.Sprintf("tls=%v", tls), func(t *testing.T) {
			inner := listen(t)
			l := newBoundedListener(inner, newOnceLog(discard()), tls)
			l.most, l.mostOf = 3, 2
			accepted := acceptAll(l)
			one := from(t, "127.0.0.1", inner.Addr())
			first := next(t, accepted).(*countedConn)
			first.settle()
			two := from(t, "127.0.0.1", inner.Addr())
			second := next(t, accepted)
			third := from(t, "127.0.0.1", inner.Addr()) // two are open from there
			if tls {
				closedSoon(t, two)
				next(t, accepted)
				from(t, "127.0.0.2", inner.Addr())
				next(t, accepted)
				from(t, "127.0.0.3", inner.Addr()) // three are open
				next(t, accepted)
				closedSoon(t, third)
			} else {
				closedSoon(t, third)
				from(t, "127.0.0.2", inner.Addr())
				next(t, accepted)
				closedSoon(t, from(t, "127.0.0.3", inner.Addr()))
			}
			_ = one.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := one.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("who has its place lost it: %v", err)
			}
			second.Close()
			second.Close() // counted once
			first.Close()
			l.mu.Lock()
			open, of := l.open, l.of["127.0.0.1"]
			l.mu.Unlock()
			if want := map[bool]int{true: 2, false: 1}[tls]; open != want || of != 0 {
				t.Errorf("%d open, %d of the first address; want %d and none", open, of, want)
			}
			l.Close()
			for conn := range accepted {
				conn.Close()
			}
		})
	}
}

// Callers that never come to the end of a handshake, from one address and from hundreds, keep nobody out.
func TestSlowHandshakes(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	addr, err := net.ResolveTCPAddr("tcp", srv.endpoint)
	must(t, err)
	stands := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	must(t, second(stands.Ping(within(t, 20*time.Second), pingOf("h2"))))
	for i := range maxConnections + 100 {
		conn := from(t, fmt.Sprintf("127.0.%d.%d", 1+i/100, 1+i%100), addr)
		_, _ = io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00")
		if i < 2*maxConnectedOf {
			conn = from(t, "127.0.0.1", addr) // where the healthy ones call from
			_, _ = io.WriteString(conn, "\x16")
		}
		if i%50 == 49 {
			id := fmt.Sprintf("new-%d", i)
			fresh := pool(t, as(pki.RoleHost, id), s.host(id)).at(t, srv.endpoint, "h1")
			must(t, second(fresh.Ping(within(t, 20*time.Second), pingOf(id))))
		}
	}
	must(t, second(stands.Ping(within(t, 20*time.Second), pingOf("h2"))))
	must(t, srv.stop())
	if n := strings.Count(srv.log.String(), "\n"); n > linesAtOnce+10 {
		t.Errorf("%d lines in the log", n)
	}
}

// Handshakes in the making end, and give their places back.
func TestHandshakeEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the whole time of a handshake")
	}
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	conn, err := net.Dial("tcp", srv.endpoint)
	must(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, "\x16\x03\x01")
	begin := time.Now()
	_ = conn.SetReadDeadline(begin.Add(20 * handshakeTimeout))
	_, _ = io.Copy(io.Discard, conn)
	if took := time.Since(begin); took < handshakeTimeout/2 || took >= 20*handshakeTimeout {
		t.Errorf("it ended after %s", took)
	}
}

// A caller that calls too often is refused, in one line of the log, and the others are served.
func TestOneCallerTooOften(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "", func(s *Server) { stop := time.Now(); s.each.now = func() time.Time { return stop } })
	loud := pool(t, as(pki.RoleReader, "loud"), s.live(as(pki.RoleReader, "loud"), 0)).at(t, srv.endpoint, "h1")
	calm := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	ctx := within(t, 60*time.Second)
	for range callBurst {
		must(t, second(loud.Report(ctx, []byte(`1`))))
	}
	for range 100 {
		wantFailure(t, second(loud.Report(ctx, []byte(`1`))), ErrOverload, false)
		wantFailure(t, second(loud.Hello(ctx)), ErrOverload, false)
		must(t, second(calm.Ping(ctx, pingOf("h2"))))
	}
	must(t, srv.stop())
	if n := strings.Count(srv.log.String(), "too many calls a second"); n != 2 { // one for each kind of call
		t.Errorf("it is said %d times:\n%s", n, srv.log)
	}
}

// One caller over several connections, and all people together, leave room for the hosts.
func TestCallsAtOnceOfOneCaller(t *testing.T) {
	now := time.Now()
	c := newCallers(func() time.Time { return now })
	caller := func(role pki.Role, id string) Caller { return Caller{Identity: as(role, id), Verified: true} }
	var ends []func()
	take := func(from Caller, want string) {
		t.Helper()
		end, refused := c.begin(from)
		if refused != want {
			t.Fatalf("%s: refused %q, want %q", from.Identity, refused, want)
		}
		if end != nil {
			ends = append(ends, end)
		}
	}
	for range maxCallsOf {
		take(caller(pki.RoleOperator, "a"), "")
		take(caller(pki.RoleReader, "b"), "")
	}
	take(caller(pki.RoleOperator, "a"), "too many calls at once by this caller")
	take(caller(pki.RoleOperator, "c"), "too many calls at once by people")
	take(caller(pki.RoleHost, "a"), "") // another role is another caller
	for _, end := range ends {
		end()
	}
	if c.people != 0 {
		t.Errorf("%d people", c.people)
	}
	for i := range 3 * maxCallers { // those that have rested are forgotten, and only those
		now = now.Add(time.Millisecond)
		take(Caller{Identity: as(pki.RoleHost, fmt.Sprint("h", i)), Remote: "127.0.0.1:1"}, "")
		ends[len(ends)-1]()
		if len(c.known) > maxCallers {
			t.Fatalf("%d are known", len(c.known))
		}
	}
}

// A call whose message never comes ends, and one whose caller went away leaves nothing.
func TestMessageNeverComes(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "", func(s *Server) { s.waits.timeout = 200 * time.Millisecond })
	c := pool(t, as(pki.RoleReader, "slow"), s.live(as(pki.RoleReader, "slow"), 0)).at(t, srv.endpoint, "h1")
	ctx := within(t, 60*time.Second)
	open := func(ctx context.Context) grpc.ClientStream {
		st, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/etcdadm.peer.v1.Peer/Report")
		must(t, err)
		return st
	}
	for range maxStreams / 2 {
		gone, cancel := context.WithCancel(ctx)
		open(gone)
		cancel()
	}
	var wg sync.WaitGroup
	for range maxStreams / 2 {
		st := open(ctx)
		wg.Go(func() {
			if err := st.RecvMsg(nil); status.Code(err) != codes.Canceled && status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("ended by %v", err)
			}
		})
	}
	must(t, second(c.Report(ctx, []byte(`1`))))
	wg.Wait()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		srv.server.waits.mu.Lock()
		left, armed := len(srv.server.waits.waiting), srv.server.waits.armed
		srv.server.waits.mu.Unlock()
		if left == 0 && !armed {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d calls are still waited for", left)
		}
	}
}

// Calls without a message of one caller, on however many connections, leave room for everybody else's.
func TestMessagesOfOneCaller(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "", func(s *Server) { s.waits.timeout = time.Minute })
	ctx := within(t, 60*time.Second)
	loud := s.live(as(pki.RoleReader, "loud"), 0)
	for range 4 {
		c := pool(t, as(pki.RoleReader, "loud"), loud).at(t, srv.endpoint, "h1")
		for range maxStreams {
			_, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/etcdadm.peer.v1.Peer/Report")
			must(t, err)
		}
	}
	other := pool(t, as(pki.RoleReader, "other"), s.live(as(pki.RoleReader, "other"), 0)).at(t, srv.endpoint, "h1")
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		must(t, second(other.Report(ctx, []byte(`1`))))
		srv.server.waits.mu.Lock()
		waiting, callers := len(srv.server.waits.waiting), len(srv.server.waits.of)
		srv.server.waits.mu.Unlock()
		if waiting == maxBodiesOf && callers == 1 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d calls of %d callers wait, want %d of 1", waiting, callers, maxBodiesOf)
		}
	}
}

// Calls without a message of very many callers do not keep out the one whose message comes: the oldest give way.
func TestMessagesOfManyCallers(t *testing.T) {
	srv := start(t, "h1", nil, "", func(s *Server) { s.waits.timeout = time.Minute })
	ctx := within(t, 60*time.Second)
	const each = maxStreams / 2 // which leaves the connection room for a call that goes
	for range maxBodies/each + 2 {
		c := pool(t, as(pki.RoleReader, "loud"), nil).at(t, srv.endpoint, "h1")
		for range each {
			_, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/etcdadm.peer.v1.Peer/Report")
			must(t, err)
		}
		must(t, second(c.Hello(ctx))) // comes after them
	}
	other := pool(t, as(pki.RoleReader, "other"), nil).at(t, srv.endpoint, "h1")
	must(t, second(other.Report(ctx, []byte(`1`))))
	srv.server.waits.mu.Lock()
	waiting := len(srv.server.waits.waiting)
	srv.server.waits.mu.Unlock()
	must(t, srv.stop())
	if waiting > maxBodies || strings.Count(srv.log.String(), "call broken off") != 1 {
		t.Errorf("%d calls wait, want %d; and the log has to tell it once:\n%s", waiting, maxBodies, srv.log)
	}
}

// Headers are bounded like bodies.
func TestLargeHeaders(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	ctx := within(t, 30*time.Second)
	must(t, second(c.Ping(ctx, pingOf("h2"))))
	if _, err := c.Ping(metadata.AppendToOutgoingContext(ctx, "x", strings.Repeat("x", 4*maxHeaderBytes)), pingOf("h2")); err == nil {
		t.Error("large headers passed")
	}
	must(t, second(c.Ping(ctx, pingOf("h2"))))
	if n := len(srv.handler.callers); n != 2 {
		t.Errorf("the handler was called %d times", n)
	}
}

// Callers that are refused for a new reason each time do not fill the log.
func TestOnceLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	o := newOnceLog(logTo(&out))
	for i := range 20 * linesAtOnce {
		o.warn("refused", "reason", fmt.Sprint(i, strings.Repeat("x", 1<<16)))
	}
	if n := strings.Count(out.String(), "\n"); n > linesAtOnce+1 || out.Len() > 2*n*maxWords {
		t.Errorf("%d lines of %d bytes", n, out.Len())
	}
	o.at = o.at.Add(-lineEvery)
	o.warn("refused", "reason", "later")
	if !strings.Contains(out.String(), "notSaid=") {
		t.Error("what was not said is not counted")
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"fence":{"number":1,"host":"h"}}`, `{"op":{"kind":"start"},"guard":{}}`, `{"host":"h","cluster":"c","view":[{}]}`, `{}{}`, "\x00", `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p cluster.Ping
		var o cluster.ObserveRequest
		var a cluster.ApplyRequest
		loose := decode(body, false, &a)
		if decode(body, true, &a) == nil && loose != nil {
			t.Error("the strict reading takes more than the loose one")
		}
		_, _ = decode(body, false, &p), decode(body, false, &o)
	})
}
