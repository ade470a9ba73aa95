package peer

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"etcdadm.io/internal/pki"
	"google.golang.org/grpc/credentials"
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
		// A joiner has shown nothing that gives its connection a place of its own.
		if t, ok := info.(credentials.TLSInfo); ok && joining(t.State) {
			return conn, info, nil
		}
		if c, ok := raw.(*countedConn); ok {
			c.settle()
		}
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
		c.log.warn("connection refused", "remote", remote, "reason", handshakeFailure(err))
	}
	return nil, nil, err
}

// handshakeFailure says why without the caller's port, which is another one at each try and would make each line a new one.
func handshakeFailure(err error) string {
	var network *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no handshake within " + handshakeTimeout.String()
	case errors.As(err, &network):
		return network.Op + ": " + network.Err.Error()
	}
	return err.Error()
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

const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 64 << 10
)
