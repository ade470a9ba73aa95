package peer

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
)

// boundedListener bounds the connections that are open, of all and of each
// address, so that a flood takes neither all file descriptors nor the others'
// places. A connection whose caller has not shown its certificate yet has no
// right to its place: the oldest of them gives way to a new one. A caller of
// ours shows it within milliseconds.
type boundedListener struct {
	net.Listener
	log          *onceLog
	most, mostOf int
	tls          bool // without it nothing tells who a caller is, and every connection has its place for good

	mu        sync.Mutex
	open      int            // guarded by mu
	of        map[string]int // guarded by mu; by address
	unsettled *list.List     // guarded by mu; of *countedConn, oldest first
}

func newBoundedListener(l net.Listener, log *onceLog, tls bool) *boundedListener {
	return &boundedListener{
		Listener: l, log: log, tls: tls, most: maxConnections, mostOf: maxConnectedOf, of: make(map[string]int), unsettled: list.New(),
	}
}

// Bound gives out the connections of a listener as a peer server does, so many in all and so many of one address,
// for a port beside it that asks nobody who it is: there every connection keeps its place until it ends. What is
// refused is written to log once in ten minutes.
func Bound(l net.Listener, log *slog.Logger, most, mostOf int) net.Listener {
	bounded := newBoundedListener(l, newOnceLog(log), false)
	bounded.most, bounded.mostOf = most, mostOf
	return bounded
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, evicted, full := l.admit(conn)
		if full != "" {
			l.log.warn("connection refused", "port", l.Addr().String(), "reason", full)
		}
		if evicted != nil {
			_ = evicted.Conn.Close() // its goroutine ends by that
		}
		if c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admit gives a connection its place, if need be that of another one, or none.
func (l *boundedListener) admit(conn net.Conn) (c, evicted *countedConn, full string) {
	c = &countedConn{Conn: conn, listener: l, remote: remoteHost(conn.RemoteAddr().String())}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.of[c.remote] >= l.mostOf:
		full = "too many connections from " + c.remote + " are open"
		evicted = l.oldestLocked(c.remote)
	case l.open >= l.most:
		full = "too many connections are open"
		evicted = l.oldestLocked("")
	}
	switch {
	case full != "" && evicted == nil:
		return nil, nil, full
	case evicted != nil:
		l.releaseLocked(evicted)
	}
	l.open++
	l.of[c.remote]++
	if l.tls {
		c.place = l.unsettled.PushBack(c)
	}
	return c, evicted, full
}

// oldestLocked is the oldest connection, of an address or of all, that may give way.
func (l *boundedListener) oldestLocked(remote string) *countedConn {
	for e := l.unsettled.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*countedConn); remote == "" || c.remote == remote {
			return c
		}
	}
	return nil
}

func (l *boundedListener) releaseLocked(c *countedConn) {
	if c.released {
		return
	}
	c.released = true
	l.settleLocked(c)
	l.open--
	if l.of[c.remote]--; l.of[c.remote] == 0 {
		delete(l.of, c.remote)
	}
}

func (l *boundedListener) settleLocked(c *countedConn) {
	if c.place != nil {
		l.unsettled.Remove(c.place)
		c.place = nil
	}
}

// countedConn is a connection that has a place.
type countedConn struct {
	net.Conn
	listener *boundedListener
	remote   string

	place    *list.Element // guarded by listener.mu; nil once it keeps its place
	released bool          // guarded by listener.mu
}

// settle lets the connection keep its place: its caller has shown its certificate.
func (c *countedConn) settle() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.settleLocked(c)
}

func (c *countedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.releaseLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
