package peer

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"etcdadm.io/internal/pki"
)

// reportingCredentials tell the log about callers whose handshake failed, once each.
type reportingCredentials struct {
	credentials.TransportCredentials
	log *onceLog
}

func serverCredentials(live *pki.Live, log *onceLog) credentials.TransportCredentials {
	return &reportingCredentials{credentials.NewTLS(live.ServerConfig()), log}
}

func (c *reportingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	held := &heldConn{Conn: raw, hold: true}
	conn, info, err := c.TransportCredentials.ServerHandshake(held)
	held.hold = false
	if err == nil {
		return conn, info, nil
	}
	linger(raw)
	remote := remoteHost(raw.RemoteAddr().String())
	var clear tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF): // a probe that only connects is no news
	case errors.As(err, &clear):
		c.log.warn("connection refused", "remote", remote, "reason", "it does not speak TLS: is that side started with --insecure?")
	default:
		c.log.warn("connection refused", "remote", remote, "reason", err.Error())
	}
	return nil, nil, err
}

// heldConn stays open over a failed handshake, which would close it before linger.
type heldConn struct {
	net.Conn
	hold bool // only the handshake's goroutine has the connection while this changes
}

func (c *heldConn) Close() error {
	if c.hold {
		return nil
	}
	return c.Conn.Close()
}

// linger reads on for a moment after a refusal, and closes. Closing at once would reset the connection under what
// the caller has sent meanwhile, and the alert that tells it why could be lost with it.
func linger(raw net.Conn) {
	if raw.SetDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, raw, lingerBytes)
	}
	_ = raw.Close()
}

func (c *reportingCredentials) Clone() credentials.TransportCredentials {
	return &reportingCredentials{c.TransportCredentials.Clone(), c.log}
}

func remoteHost(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host // without the port, which is another one at each try
	}
	return address
}

// boundedListener closes connections above its bound at once, so that a flood takes neither all file descriptors nor
// the accepting loop.
type boundedListener struct {
	net.Listener
	log *onceLog

	mu   sync.Mutex
	free int // guarded by mu
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.add(-1) {
			return &countedConn{Conn: conn, release: func() { l.add(1) }}, nil
		}
		l.log.warn("connection refused", "reason", "too many connections are open")
		_ = conn.Close()
	}
}

func (l *boundedListener) add(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free+n < 0 {
		return false
	}
	l.free += n
	return true
}

type countedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *countedConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}

// onceLog says the same thing again only after ten minutes: a caller that is refused tries on for ever.
type onceLog struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time // guarded by mu
}

const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 64 << 10
)

const (
	sayAgainAfter = 10 * time.Minute
	remembered    = 256
)

func newOnceLog(log *slog.Logger) *onceLog {
	return &onceLog{log: log, said: make(map[string]time.Time)}
}

// warn takes pairs of a key and a string.
func (o *onceLog) warn(message string, pairs ...string) {
	key := message + "\x00" + strings.Join(pairs, "\x00")
	o.mu.Lock()
	last, known := o.said[key]
	quiet := known && time.Since(last) < sayAgainAfter
	if !quiet {
		if len(o.said) >= remembered {
			clear(o.said)
		}
		o.said[key] = time.Now()
	}
	o.mu.Unlock()
	if quiet {
		return
	}
	args := make([]any, len(pairs))
	for i, p := range pairs {
		args[i] = p
	}
	o.log.Warn(message, args...)
}
