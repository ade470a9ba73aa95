package etcdscenarios

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// proxies stand in front of the peer ports of the real members. Who connects is
// read from the header X-PeerURLs or X-Server-From of etcd's first request. A
// cut swallows: bytes wait, connections stay open, as packets that are dropped
// and sent again would have it.
type proxies struct {
	mu     sync.Mutex
	open   *sync.Cond        // signalled when a cut heals or all closes
	away   map[string]bool   // hosts that are cut off
	byURL  map[string]string // peer URL → host
	byID   map[string]string // X-Server-From → host
	conns  map[net.Conn]bool
	closed bool
	all    []*proxy
	done   sync.WaitGroup
}

type proxy struct {
	set      *proxies
	host     string
	url      string
	target   string
	listener net.Listener
}

func newProxies() *proxies {
	s := &proxies{
		away: map[string]bool{}, byURL: map[string]string{}, byID: map[string]string{}, conns: map[net.Conn]bool{},
	}
	s.open = sync.NewCond(&s.mu)
	return s
}

func (s *proxies) listen(host string, port, target int) (*proxy, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	p := &proxy{
		set: s, host: host, url: fmt.Sprintf("http://127.0.0.1:%d", port),
		target: fmt.Sprintf("127.0.0.1:%d", target), listener: l,
	}
	s.mu.Lock()
	s.byURL[p.url] = host
	s.all = append(s.all, p)
	s.mu.Unlock()
	s.done.Add(1)
	go p.accept()
	return p, nil
}

func (s *proxies) name(url, host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byURL[url] = host
}

func (s *proxies) cut(host string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[host] = on
	s.open.Broadcast()
}

func (s *proxies) close() {
	s.mu.Lock()
	s.closed = true
	s.open.Broadcast()
	for c := range s.conns {
		c.Close()
	}
	for _, p := range s.all {
		p.listener.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// keep notes a connection so that close ends it; false: all is closed.
func (s *proxies) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.conns[c] = true
	return true
}

func (s *proxies) drop(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// pass blocks while either host is cut off; false: all is closed.
func (s *proxies) pass(a, b string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && a != b && (s.away[a] || s.away[b]) {
		s.open.Wait()
	}
	return !s.closed
}

func (p *proxy) accept() {
	defer p.set.done.Done()
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.set.keep(c) {
			p.set.done.Add(1)
			go p.serve(c)
		}
	}
}

func (p *proxy) serve(c net.Conn) {
	defer p.set.done.Done()
	defer p.set.drop(c)
	first, err := readHeader(c)
	if err != nil {
		return
	}
	from := p.set.source(first)
	if !p.set.pass(from, p.host) {
		return
	}
	target, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil || !p.set.keep(target) {
		return
	}
	defer p.set.drop(target)
	if _, err := target.Write(first); err != nil {
		return
	}
	p.set.done.Add(1)
	go func() {
		defer p.set.done.Done()
		p.copy(c, target, from)
		c.Close()
		target.Close()
	}()
	p.copy(target, c, from)
	target.Close()
}

// copy moves bytes while the way is open.
func (p *proxy) copy(to, from net.Conn, source string) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.set.pass(source, p.host) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readHeader reads up to the end of an HTTP header and returns all that came.
func readHeader(c net.Conn) ([]byte, error) {
	var all []byte
	buffer := make([]byte, 4<<10)
	for len(all) < 64<<10 {
		n, err := c.Read(buffer)
		all = append(all, buffer[:n]...)
		if bytes.Contains(all, []byte("\r\n\r\n")) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, io.ErrUnexpectedEOF
}

// source is the host that made a request, as far as its header says; requests
// for versions and member lists do not say.
func (s *proxies) source(header []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, host := "", ""
	for line := range strings.SplitSeq(string(header), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		switch strings.ToLower(name) {
		case "x-server-from":
			id = strings.TrimSpace(value)
		case "x-peerurls":
			host = s.byURL[strings.TrimSpace(value)]
		}
	}
	if id != "" && host != "" {
		s.byID[id] = host
	}
	if host == "" {
		host = s.byID[id]
	}
	return host
}
