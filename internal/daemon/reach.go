package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// reacher finds out whether a process answers at a peer URL.
type reacher struct{}

// Reach tries all URLs at a time: one that is silent takes as long as ctx lasts, and says
// nothing of the next.
func (reacher) Reach(ctx context.Context, peerURLs []string) (open, answers bool) {
	ctx, found := context.WithCancel(ctx)
	defer found()
	var all sync.WaitGroup
	var accepted, answered atomic.Bool
	for _, raw := range peerURLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		all.Go(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
			if err != nil {
				return
			}
			defer c.Close()
			accepted.Store(true)
			if says(ctx, c, u) {
				answered.Store(true)
				found()
			}
		})
	}
	all.Wait()
	return accepted.Load(), answered.Load()
}

// says reports whether the process behind a connection says anything, or closes it. A
// connection alone shows nothing: the kernel accepts for a process that hangs. No
// certificate is shown and nothing is believed, and the conversation ends with the first
// byte, so that etcd's log has no more of it than of a connection that was closed.
func says(ctx context.Context, c net.Conn, u *url.URL) bool {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	var err error
	if u.Scheme == "https" {
		heard := &firstByte{Conn: c}
		err = tls.Client(heard, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) // nothing but its first byte counts
		if heard.came {
			return true
		}
	} else if _, err = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: "+u.Host+"\r\nConnection: close\r\n\r\n"); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil {
		return true
	}
	closed := slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}, func(e error) bool { return errors.Is(err, e) })
	return closed && ctx.Err() == nil
}

// firstByte ends a conversation once the other side has said something.
type firstByte struct {
	net.Conn
	came bool
}

func (c *firstByte) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.came = true
		return 0, io.EOF
	}
	return n, err
}
