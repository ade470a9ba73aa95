package peer

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
)

// sight is what the last attempt to connect ran into. gRPC reports it as text only; the errors
// themselves are kept here, because callers decide by them. It is cleared by the server's first bytes, not by
// the end of the handshake: with TLS 1.3 the server looks at the client's certificate after that, and gRPC may
// be trying once more while a call still fails for the first refusal.
type sight struct {
	mu  sync.Mutex
	err error // guarded by mu; nil after a connection that worked
}

// dial notes how a connection failed that did not come to a handshake.
func (s *sight) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint)
	if err != nil {
		s.note(err)
	}
	return conn, err
}

func (s *sight) note(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
}

func (s *sight) explain() (advice string, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return "", nil
	}
	return explainHandshake(s.err)
}

// watchedCredentials note how handshakes end.
type watchedCredentials struct {
	credentials.TransportCredentials
	seen *sight
}

func (w *watchedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		w.seen.note(err)
		return conn, info, err
	}
	return &watchedConn{Conn: conn, seen: w.seen}, info, nil
}

func (w *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{w.TransportCredentials.Clone(), w.seen}
}

// muteAfter is how long nothing has to come before a connection that is given up was mute.
// One that the other side ends is given up at once, by a write that fails or by a read.
const muteAfter = time.Second

// watchedConn notes an alert that comes after the handshake: with TLS 1.3 that is how a server refuses the
// client's certificate.
type watchedConn struct {
	net.Conn
	seen    *sight
	answers atomic.Bool
}

func (c *watchedConn) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := c.Conn.Read(p)
	switch {
	case n > 0 && !c.answers.Swap(true):
		c.seen.note(nil)
	case err != nil && isAlert(err):
		c.seen.note(err)
	case err != nil && !c.answers.Load() && time.Since(began) >= muteAfter && (errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)):
		c.seen.note(ErrMute) // we gave it up, not the other side
	}
	return n, err
}

// isAlert says whether the other side ended the connection with a TLS alert.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// sentKey finds a call's *atomic.Bool in its context.
type sentKey struct{}

// sentMarker marks calls whose body was handed to a connection: from then on the other side may have it.
type sentMarker struct{}

func (sentMarker) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (sentMarker) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); ok {
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}
}
func (sentMarker) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentMarker) HandleConn(context.Context, stats.ConnStats)                       {}
