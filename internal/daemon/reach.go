package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// reacher finds out whether a process answers at a peer URL.
type reacher struct{}

// Reach tries all URLs at a time: one that is silent takes as long as ctx lasts, and says
// nothing of the next.
func (reacher) Reach(ctx context.Context, peerURLs []string) bool {
	ctx, found := context.WithCancel(ctx)
	defer found()
	var all sync.WaitGroup
	var reached atomic.Bool
	for _, raw := range peerURLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		all.Go(func() {
			if answers(ctx, u) {
				reached.Store(true)
				found()
			}
		})
	}
	all.Wait()
	return reached.Load()
}

// answers reports whether the process at a peer URL says anything, or closes the
// connection by itself. That the connection comes about is no sign of it: the kernel
// accepts for a process that hangs. No certificate is shown and nothing is believed, and
// the conversation ends with the first byte, so that etcd's log has no more of it than of
// a connection that was closed.
func answers(ctx context.Context, u *url.URL) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if u.Scheme == "https" {
		heard := &firstByte{Conn: c}
		err = tls.Client(heard, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) // nothing but its first byte counts
		if heard.came {
			return true
		}
	} else if _, err = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: "+u.Host+"\r\nConnection: close\r\n\r\n"); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return err == nil || ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded)
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
