package rig

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"etcdadm.io/internal/pki"
)

// flooders are callers that want to take a daemon's ports away from those who need
// them: from several addresses, with whatever may be sent to a port.
type flooders struct {
	from    []string // addresses
	peer    string
	scrape  string
	readers []*tls.Config // of some who may only read; none: the daemon asks for no certificate

	Opened  atomic.Int64 // connections
	Bytes   atomic.Int64 // sent
	calling atomic.Int64 // connections for calls: each is of the next reader
}

// FloodAt has flooders at work on both ports of a host until the returned function is called.
func (c *Cluster) FloodAt(h *Host, each int) (f *flooders, stop func()) {
	c.T.Helper()
	f = &flooders{peer: h.Endpoint(), scrape: c.Block.At(h.Place, PortMetrics)}
	if c.Options.TLS {
		f.readers = c.readersTLS(h)
	}
	for n := range max(2, each/15) { // so many that each comes to the bound of an address
		f.from = append(f.from, c.Block.Host(100+n))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, attack := range []struct {
		do    func(context.Context, string)
		times int // as many at once as of the others, in quarters
	}{
		{f.silent, 12}, {f.garbage, 4}, {f.slowHello, 4}, {f.noCertificate, 2}, {f.slowRequest, 4}, {f.largeHeaders, 2}, {f.scrapes, 2},
		{f.callsWithoutMessage, 2}, {f.largestMessages, 1}, {f.endlessMessage, 1},
	} {
		for n := range each * attack.times / 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					attack.do(ctx, f.from[n%len(f.from)])
					select { // it is about what a daemon holds; whoever takes the whole processor needs no connections
					case <-ctx.Done():
					case <-time.After(200 * time.Millisecond):
					}
				}
			})
		}
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	c.T.Cleanup(stop)
	return f, stop
}

// loudReaders is how many certificates it takes to have as many calls wait as a daemon
// lets wait of all, 256, where one may have 64; and two more.
const loudReaders = 6

// readersTLS are for calls to a daemon by some who may read.
func (c *Cluster) readersTLS(h *Host) (all []*tls.Config) {
	c.T.Helper()
	authorities, err := pki.Load(c.PKIDir(), time.Now())
	if err != nil {
		c.T.Fatal(err)
	}
	for n := range loudReaders {
		request, err := pki.CallerRequest(pki.Identity{Cluster: c.Name, Role: pki.RoleReader, ID: fmt.Sprint("loud", n)}, pki.DefaultLifetime())
		if err != nil {
			c.T.Fatal(err)
		}
		pair, err := authorities.Manager.Issue(request, time.Now())
		if err != nil {
			c.T.Fatal(err)
		}
		live := pki.NewLive(nil)
		live.Swap(pair, authorities.Manager)
		config := live.ClientConfig(c.Name, string(h.ID()))
		config.NextProtos = []string{"h2"}
		all = append(all, config)
	}
	return all
}

// Dial connects from an address; the connection ends with the context, or after twelve seconds.
func (f *flooders) Dial(ctx context.Context, from, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	f.Opened.Add(1)
	_ = conn.SetDeadline(time.Now().Add(12 * time.Second)) // a connection that just ended says so when it is used
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// send writes words and waits until the other side ends the connection.
func (f *flooders) send(ctx context.Context, from, to string, words []byte, then func(net.Conn)) {
	conn, err := f.Dial(ctx, from, to)
	if err != nil {
		return
	}
	defer conn.Close()
	n, err := conn.Write(words)
	f.Bytes.Add(int64(n))
	if err == nil && then != nil {
		go then(conn) // ends with the connection
	}
	var got [4 << 10]byte
	for err == nil {
		_, err = conn.Read(got[:])
	}
}

// drip sends the same bytes again and again.
func drip(words string) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := conn.Write([]byte(words)); err != nil {
				return
			}
			time.Sleep(200 * time.Millisecond) // it is slow on purpose
		}
	}
}

func (f *flooders) ports() string {
	if rand.IntN(3) == 0 {
		return f.scrape
	}
	return f.peer
}

func (f *flooders) silent(ctx context.Context, from string) {
	f.send(ctx, from, f.ports(), nil, nil)
}

func (f *flooders) garbage(ctx context.Context, from string) {
	words := make([]byte, 64<<10)
	for i := range words {
		words[i] = byte(rand.Uint32())
	}
	f.send(ctx, from, f.ports(), words, nil)
}

// slowHello is the beginning of a TLS handshake, of which a byte comes now and then.
func (f *flooders) slowHello(ctx context.Context, from string) {
	f.send(ctx, from, f.peer, []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), drip("\x00"))
}

// noCertificate is a whole handshake by somebody whom nobody knows.
func (f *flooders) noCertificate(ctx context.Context, from string) {
	conn, err := f.Dial(ctx, from, f.peer)
	if err != nil {
		return
	}
	defer conn.Close()
	stranger := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // it is no caller of ours
	if stranger.HandshakeContext(ctx) == nil {
		_, _ = stranger.Read(make([]byte, 1)) // the refusal
	}
}

// slowRequest is a request for metrics whose headers do not end.
func (f *flooders) slowRequest(ctx context.Context, from string) {
	f.send(ctx, from, f.scrape, []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n"), drip("X: y\r\n"))
}

func (f *flooders) largeHeaders(ctx context.Context, from string) {
	f.send(ctx, from, f.scrape, []byte("GET /status HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("y", 1<<20)), nil)
}

// scrapes are requests one behind the other, of which nobody reads the answers for long.
func (f *flooders) scrapes(ctx context.Context, from string) {
	f.send(ctx, from, f.scrape, bytes.Repeat([]byte("GET /status HTTP/1.1\r\nHost: x\r\n\r\n"), 20), nil)
}

// call opens a connection as a caller does, begins so many calls, and fills them: each tells
// of a message of so many bytes, and sends all but the last one. 0 tells nothing.
func (f *flooders) call(ctx context.Context, from string, calls int, size uint32) {
	raw, err := f.Dial(ctx, from, f.peer)
	if err != nil {
		return
	}
	defer raw.Close()
	conn := raw
	if len(f.readers) > 0 {
		conn = tls.Client(raw, f.readers[f.calling.Add(1)%int64(len(f.readers))])
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	var headers bytes.Buffer
	e := hpack.NewEncoder(&headers)
	left := map[uint32]int{} // bytes of each call
	room := map[uint32]int{} // that the other side takes, by call; 0: of the connection
	for i := range calls {
		headers.Reset()
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/etcdadm.peer.v1.Peer/Report"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
			_ = e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into memory
		}
		id := uint32(2*i + 1)
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers.Bytes(), EndHeaders: true}) != nil {
			return
		}
		if size == 0 {
			continue
		}
		if framer.WriteData(id, false, []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}) != nil {
			return
		}
		left[id] = int(size) - 1
	}
	const first = 1<<16 - 1 - 5 // what a side takes before it says more, without what is sent
	initial := first
	room[0] = first - 5*calls
	piece := make([]byte, 16<<10)
	for {
		for id := range left {
			for n := len(piece); left[id] > 0 && n > 0; {
				if n = min(len(piece), left[id], room[id]+initial, room[0]); n <= 0 {
					break
				}
				if framer.WriteData(id, false, piece[:n]) != nil {
					return
				}
				f.Bytes.Add(int64(n))
				left[id], room[id], room[0] = left[id]-n, room[id]-n, room[0]-n
			}
		}
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if n, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				initial = int(n) - 5
			}
			if !frame.IsAck() && framer.WriteSettingsAck() != nil {
				return
			}
		case *http2.WindowUpdateFrame:
			room[frame.StreamID] += int(frame.Increment)
		case *http2.RSTStreamFrame:
			delete(left, frame.StreamID)
		case *http2.HeadersFrame: // an answer, before the message was there
			delete(left, frame.StreamID)
		case *http2.GoAwayFrame:
			return
		}
	}
}

func (f *flooders) callsWithoutMessage(ctx context.Context, from string) { f.call(ctx, from, 64, 0) }

// largestMessage is what a daemon takes, in bytes: one that says of itself to be larger
// is refused before anything of it is held.
const largestMessage = 5 << 18

// largestMessages are of the size that is taken, and lack their ends.
func (f *flooders) largestMessages(ctx context.Context, from string) {
	f.call(ctx, from, 64, largestMessage)
}

// endlessMessage says of itself to be larger than any.
func (f *flooders) endlessMessage(ctx context.Context, from string) { f.call(ctx, from, 1, 1<<31-1) }

// use is what a process takes.
type use struct {
	Now, Most int // MiB of memory
	Files     int // that are open
}

func (h *Host) Uses() use {
	h.C.T.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(h.Cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		h.C.T.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		h.C.T.Fatal(err)
	}
	u := use{Files: len(files)}
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			u.Now = kib >> 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			u.Most = kib >> 10
		}
	}
	return u
}

// Flooding a daemon must not take more than this.
const (
	FloodMemory = 800 // MiB more than before: 256 messages of 1.25, as much again before Go collects it, and the rest
	FloodFiles  = 512 + 128 + 100
	floodLines  = 150 // of the log
)

// Tells looks at what a flooded host's log says of it.
func (c *Cluster) Tells(h *Host, f *flooders, before int) {
	c.T.Helper()
	log := string(FileAt(c.T, h.Log))
	for _, port := range []string{f.peer, f.scrape} {
		once := fmt.Sprintf("port=%s reason=\"too many connections", port)
		if n := strings.Count(log, once); n == 0 || n > len(f.from)+1 {
			c.T.Errorf("%d lines tell that connections to %s are refused", n, port)
		}
	}
	if more := strings.Count(log, "\n") - before; more > floodLines {
		c.T.Errorf("the flood leaves %d lines in the log", more)
	}
}
