package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
func discard() *slog.Logger          { return slog.New(slog.DiscardHandler) }

// gate lets a handler wait until the test opens it.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 2*maxCalls), make(chan struct{})} }

func (g *gate) apply(ctx context.Context, _ cluster.ApplyRequest) (cluster.ApplyReply, error) {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return cluster.ApplyReply{Outcome: cluster.OutcomeDone}, nil
	case <-ctx.Done():
		return cluster.ApplyReply{}, ctx.Err()
	}
}

func TestDeadline(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	srv.handler.apply = newGate().apply
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	must(t, second(c.Ping(within(t, 10*time.Second), pingOf("h2"))))
	begin := time.Now()
	_, err := c.Apply(within(t, 200*time.Millisecond), cluster.ApplyRequest{})
	wantFailure(t, err, ErrDeadline, true)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Apply(ctx, cluster.ApplyRequest{})
	wantFailure(t, err, context.Canceled, false)
}

// A host that takes the connection and says nothing costs the caller its deadline, no more, and no effect.
func TestSilentHost(t *testing.T) {
	l := listen(t) // connections wait in its backlog for ever
	defer l.Close()
	s := newSite(t)
	_, err := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, l.Addr().String(), "h1").Apply(within(t, 300*time.Millisecond), cluster.ApplyRequest{})
	wantFailure(t, err, ErrDeadline, false)
}

func TestNobodyListens(t *testing.T) {
	l := listen(t)
	l.Close()
	_, err := pool(t, as(pki.RoleHost, "h2"), nil).at(t, l.Addr().String(), "h1").Apply(within(t, 10*time.Second), cluster.ApplyRequest{})
	wantFailure(t, err, ErrUnreachable, false)
}

type hinted struct{ error }

func (hinted) Hint() string { return "do this" }

func TestHandlerErrors(t *testing.T) {
	srv := start(t, "h1", nil, "")
	srv.handler.apply = func(context.Context, cluster.ApplyRequest) (cluster.ApplyReply, error) {
		return cluster.ApplyReply{}, hinted{errors.New("disk is full")}
	}
	_, err := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1").Apply(within(t, 10*time.Second), cluster.ApplyRequest{})
	wantFailure(t, err, ErrRemote, true)
	if want := fmt.Sprintf("Apply host h1 at %s: the host could not do it: disk is full: do this", srv.endpoint); err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 5 {
		id := fmt.Sprintf("caller-%d", i)
		c := pool(t, as(pki.RoleHost, id), s.host(id)).at(t, srv.endpoint, "h1")
		for range 10 {
			wg.Go(func() {
				for range 20 {
					if reply, err := c.Ping(within(t, 30*time.Second), pingOf(id)); err != nil || reply.Epoch != 7 {
						t.Error(err)
						failed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := len(srv.handler.callers); failed.Load() != 0 || got != 1000 {
		t.Errorf("%d calls seen, %d failed", got, failed.Load())
	}
}

// Above its bound the server says so at once, and serves on.
func TestOverload(t *testing.T) {
	srv := start(t, "h1", nil, "")
	g := newGate()
	srv.handler.apply = g.apply
	ctx := within(t, 30*time.Second)
	var wg sync.WaitGroup
	for i := range maxCalls / maxStreams {
		c := pool(t, as(pki.RoleHost, fmt.Sprintf("h%d", i)), nil).at(t, srv.endpoint, "h1")
		for range maxStreams {
			wg.Go(func() {
				if _, err := c.Apply(ctx, cluster.ApplyRequest{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range maxCalls {
		select {
		case <-g.entered:
		case <-ctx.Done():
			t.Fatal("not every call is carried out")
		}
	}
	c := pool(t, as(pki.RoleHost, "late"), nil).at(t, srv.endpoint, "h1")
	_, err := c.Apply(ctx, cluster.ApplyRequest{})
	wantFailure(t, err, ErrOverload, false)
	close(g.open)
	wg.Wait()
	must(t, second(c.Ping(ctx, pingOf("late"))))
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	c := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1")
	must(t, second(c.Ping(within(t, 10*time.Second), pingOf("h2"))))
	must(t, srv.stop())
	// Down for longer than the backoff needs to reach its longest wait.
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		if _, err := c.Ping(within(t, time.Second), pingOf("h2")); err == nil {
			t.Fatal("a stopped server answered")
		}
		time.Sleep(50 * time.Millisecond)
	}
	start(t, "h1", s.host("h1"), srv.endpoint)
	begin := time.Now()
	for {
		_, err := c.Ping(within(t, 10*time.Second), pingOf("h2"))
		if err == nil {
			break
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("back after %s", took)
	}
}

// A call that runs when the server is told to stop is finished, and a new one is not begun.
func TestShutdownFinishesCalls(t *testing.T) {
	srv := start(t, "h1", nil, "")
	g := newGate()
	srv.handler.apply = g.apply
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1")
	done := make(chan error, 1)
	go func() { done <- second(c.Apply(within(t, 20*time.Second), cluster.ApplyRequest{})) }()
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- srv.stop() }()
	for { // the listener closes before the server waits for its calls
		conn, err := net.DialTimeout("tcp", srv.endpoint, time.Second)
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped over a running call: %v", err)
	default:
	}
	close(g.open)
	must(t, <-done)
	must(t, <-stopped)
}

// A handler that does not finish is broken off, in bounded time.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the whole grace period")
	}
	srv := start(t, "h1", nil, "")
	g := newGate()
	srv.handler.apply = g.apply
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1")
	done := make(chan error, 1)
	go func() { done <- second(c.Apply(within(t, time.Minute), cluster.ApplyRequest{})) }()
	<-g.entered
	begin := time.Now()
	must(t, srv.stop())
	if took := time.Since(begin); took > 2*shutdownGrace {
		t.Errorf("took %s", took)
	}
	wantFailure(t, <-done, ErrUnreachable, true)
}

// A handler that heeds nothing, as one that waits for a hung disk, holds the
// end up no longer than that, and it is said that it still runs.
func TestShutdownOverAHandlerThatHeedsNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the whole grace period")
	}
	srv := start(t, "h1", nil, "")
	entered, open := make(chan struct{}), make(chan struct{})
	returned := make(chan struct{})
	srv.handler.apply = func(context.Context, cluster.ApplyRequest) (cluster.ApplyReply, error) {
		defer close(returned)
		close(entered)
		<-open
		return cluster.ApplyReply{}, nil
	}
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, srv.endpoint, "h1")
	done := make(chan error, 1)
	go func() { done <- second(c.Apply(within(t, time.Minute), cluster.ApplyRequest{})) }()
	<-entered
	begin := time.Now()
	err := srv.stop()
	if took := time.Since(begin); took > 2*shutdownGrace+2*time.Second || !errors.Is(err, ErrCallsRun) || !strings.Contains(err.Error(), "1 of them") {
		t.Errorf("took %s: %v", took, err)
	}
	wantFailure(t, <-done, ErrUnreachable, true)
	close(open)
	<-returned
}

func TestRetain(t *testing.T) {
	srv := start(t, "h1", nil, "")
	p := pool(t, as(pki.RoleHost, "h2"), nil)
	c := p.at(t, srv.endpoint, "h1")
	if p.at(t, srv.endpoint, "h1") != c || p.at(t, srv.endpoint, "") == c {
		t.Error("a contact and its client do not belong together")
	}
	must(t, second(c.Ping(within(t, 10*time.Second), pingOf("h2"))))
	must(t, p.Retain(func(to cluster.Contact) bool { return to.Host == "" }))
	if len(p.clients) != 1 {
		t.Errorf("%d clients left", len(p.clients))
	}
	if _, err := c.Ping(within(t, 10*time.Second), pingOf("h2")); err == nil {
		t.Error("a client that was let go still calls")
	}
	must(t, second(p.at(t, srv.endpoint, "h1").Ping(within(t, 10*time.Second), pingOf("h2"))))
}

func TestServeOnce(t *testing.T) {
	srv, err := NewServer(ServerOptions{Cluster: "c1", Host: "h1", Handler: &handler{}})
	must(t, err)
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, srv.Serve(ctx, l))
	if err := srv.Serve(ctx, l); err == nil {
		t.Error("served twice")
	}
}

// A listener that fails is told, since nobody would reach this host any more.
func TestServeWithoutAListener(t *testing.T) {
	srv, err := NewServer(ServerOptions{Cluster: "c1", Host: "h1", Handler: &handler{}})
	must(t, err)
	l := listen(t)
	must(t, l.Close())
	if err := srv.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("it ended with %v", err)
	}
}
