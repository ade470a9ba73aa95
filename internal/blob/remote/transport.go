// Package remote is what the drivers of object stores across a network share: a transport on which nothing hangs, attempts that
// know what they may have done, a body cut into parts, a transfer taken up again where it broke, and sentences for people.
//
// The invariant: whatever the other end does or leaves undone, a call ends. A connection on which no byte moves is cut after
// Stall, an error is tried again a bounded number of times, and both end with the caller's context. And an attempt whose answer
// was lost is never taken for one that did nothing.
//
// Nothing here knows an SDK, a bucket or a key.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"etcdadm.io/internal/regular"
)

const (
	// Stall is the time after which a connection on which no byte has moved is cut, unless a driver is told otherwise.
	Stall = 30 * time.Second

	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// keepIdle is how long an unused connection is kept. It is well below any Stall in use, so that it is the pool that closes
	// an unused connection, and not the stall watch at the moment of the next request.
	keepIdle = 15 * time.Second
	// maxIdle connections are kept: the parts of one upload, and a poll beside it.
	maxIdle = 4
)

// Tune makes a transport cut what hangs, and keeps it to HTTP/1.1: there a stalled request is a stalled connection.
func Tune(t *http.Transport, stall time.Duration) {
	if stall <= 0 {
		stall = Stall
	}
	dialer := &net.Dialer{Timeout: min(dialTimeout, stall), KeepAlive: 30 * time.Second}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &steadyConn{Conn: conn, stall: stall}, nil
	}
	t.Proxy = http.ProxyFromEnvironment
	t.TLSHandshakeTimeout = min(handshakeTimeout, stall)
	t.IdleConnTimeout = min(keepIdle, stall/2)
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdle, maxIdle
	t.ExpectContinueTimeout = time.Second
	t.DisableCompression = true // an object is what was written, and its size is told
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{}
	}
	t.TLSClientConfig.MinVersion = tls.VersionTLS12
}

// Transport is a new transport, tuned. A caFile that is not empty holds PEM certificates to trust beside the system's.
func Transport(stall time.Duration, caFile string) (*http.Transport, error) {
	return Options{Stall: stall}.Transport(caFile)
}

// MaxCABundle bounds a file of certificates, in bytes; a system's has a quarter of a megabyte.
const MaxCABundle = 16 << 20

// Trust makes a transport trust the certificates of a PEM file beside the system's.
func Trust(t *http.Transport, caFile string) error {
	pem, err := regular.Read(caFile, MaxCABundle)
	if err != nil {
		return fmt.Errorf("read CA bundle: %w", err)
	}
	return trust(t, pem, caFile)
}

func trust(t *http.Transport, pem []byte, named string) error {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // this system keeps none; the file's are what there is
	}
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("read CA bundle %s: %w", named, errors.New("there is no certificate in it"))
	}
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.RootCAs = pool
	return nil
}

// steadyConn ends reads and writes when nothing moves. A write gives a waiting read its time again: while a large body is sent
// the server says nothing.
type steadyConn struct {
	net.Conn
	stall time.Duration
}

func (c *steadyConn) Read(p []byte) (int, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *steadyConn) Write(p []byte) (int, error) {
	if err := c.Conn.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.Conn.SetReadDeadline(time.Now().Add(c.stall))
	}
	return n, err
}
