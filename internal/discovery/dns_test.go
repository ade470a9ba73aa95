package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a DNS server on loopback, over UDP. Names that it does not hold are not there.
type nameServer struct {
	records map[string][]dnsmessage.ResourceBody
	rcode   dnsmessage.RCode // answered to everything, if not success
	mute    bool             // receives and does not answer

	conn net.PacketConn
}

func (s nameServer) start(t *testing.T) *nameServer {
	t.Helper()
	conn := listen(t)
	s.conn = conn
	var serving sync.WaitGroup
	serving.Go(s.serve)
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return &s
}

// listen takes a port below the ephemeral ones.
func listen(t *testing.T) net.PacketConn {
	t.Helper()
	var err error
	for range 100 {
		var conn net.PacketConn
		if conn, err = net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(12000))); err == nil {
			return conn
		}
	}
	t.Fatal(err)
	return nil
}

// resolver gives a resolver that asks only this server. Its connections end with the test: package net goes on waiting for an answer
// after the caller has given up.
func (s *nameServer) resolver(t *testing.T) *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "udp", s.conn.LocalAddr().String())
		if err == nil {
			context.AfterFunc(t.Context(), func() { conn.Close() })
		}
		return conn, err
	}}
}

func (s *nameServer) serve() {
	buffer := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if s.mute || query.Unpack(buffer[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		answer, err := s.answer(query).Pack()
		if err != nil {
			panic(err)
		}
		s.conn.WriteTo(answer, from)
	}
}

func (s *nameServer) answer(query dnsmessage.Message) *dnsmessage.Message {
	question := query.Questions[0]
	answer := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionAvailable: true, RCode: s.rcode},
		Questions: query.Questions,
	}
	bodies, known := s.records[strings.ToLower(question.Name.String())]
	if !known && s.rcode == dnsmessage.RCodeSuccess {
		answer.RCode = dnsmessage.RCodeNameError
	}
	for _, body := range bodies {
		kind := dnsmessage.TypeA
		switch body.(type) {
		case *dnsmessage.AAAAResource:
			kind = dnsmessage.TypeAAAA
		case *dnsmessage.SRVResource:
			kind = dnsmessage.TypeSRV
		}
		if kind == question.Type {
			header := dnsmessage.ResourceHeader{Name: question.Name, Type: kind, Class: dnsmessage.ClassINET, TTL: 1}
			answer.Answers = append(answer.Answers, dnsmessage.Resource{Header: header, Body: body})
		}
	}
	return answer
}

func srv(target string, port uint16) *dnsmessage.SRVResource {
	return &dnsmessage.SRVResource{Target: dnsmessage.MustNewName(target), Port: port}
}

func TestDNS(t *testing.T) {
	server := nameServer{records: map[string][]dnsmessage.ResourceBody{
		"etcd.example.com.": {
			&dnsmessage.AResource{A: [4]byte{10, 0, 0, 2}}, &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}},
			&dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}},
		},
		"odd.example.com.":             {&dnsmessage.AResource{A: [4]byte{0, 0, 0, 0}}, &dnsmessage.AResource{A: [4]byte{10, 0, 0, 7}}},
		"empty.example.com.":           nil,
		"_etcdadm._tcp.example.com.":   {srv("Host-B.example.com.", 3997), srv("host-a.example.com.", 3996)},
		"_none._tcp.example.com.":      {srv(".", 1)},
		"_noport._tcp.example.com.":    {srv("host-a.example.com.", 0), srv("host-b.example.com.", 1)},
		"_malformed._tcp.example.com.": {srv("a b.example.com.", 1), srv("host-b.example.com.", 1)},
	}}.start(t)
	resolve := func(names ...string) DNS { return DNS{Names: names, Port: 8000, Resolver: server.resolver(t)} }
	hosts := []Seed{{"", "10.0.0.1:8000"}, {"", "10.0.0.2:8000"}, {"", "[2001:db8::1]:8000"}}

	if err := wantSeeds(t, resolve("etcd.example.com."), hosts...); err != nil {
		t.Error(err)
	}
	if err := wantSeeds(t, resolve("etcd.example.com", "ETCD.example.com."), hosts...); err != nil {
		t.Error(err)
	}
	if err := wantSeeds(t, resolve("etcd.example.com:1"), Seed{"", "10.0.0.1:1"}, Seed{"", "10.0.0.2:1"}, Seed{"", "[2001:db8::1]:1"}); err != nil {
		t.Error(err)
	}
	if err := wantSeeds(t, resolve("_etcdadm._tcp.example.com", "10.0.0.5", "::1"), Seed{"", "10.0.0.5:8000"}, Seed{"", "[::1]:8000"},
		Seed{"", "host-a.example.com:3996"}, Seed{"", "host-b.example.com:3997"}); err != nil {
		t.Error(err)
	}
	if err := wantSeeds(t, resolve("_none._tcp.example.com")); err != nil {
		t.Error(err)
	}
	// What is wrong is told, and the rest is given.
	for _, test := range []struct {
		name, want string
		seeds      []Seed
	}{
		{"missing.example.com", "no such name", nil},
		{"empty.example.com", "no such name, or it has no records", nil},
		{"_missing._tcp.example.com", "no such name", nil},
		{"odd.example.com", "no address of one host", []Seed{{"", "10.0.0.7:8000"}}},
		{"_noport._tcp.example.com", "has no port", []Seed{{"", "host-b.example.com:1"}}},
		{"_malformed._tcp.example.com", "invalid", []Seed{{"", "host-b.example.com:1"}}},
		{"a b", "neither", nil},
		{"https://example.com", "is a URL", nil},
	} {
		err := wantSeeds(t, resolve(test.name), test.seeds...)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		all := append([]Seed{}, hosts...)
		wantSeeds(t, resolve(test.name, "etcd.example.com"), tidy(append(all, test.seeds...))...)
	}
}

// The same trouble is told in the same words, although each query leaves by another port.
func TestDNSTrouble(t *testing.T) {
	refusing := nameServer{rcode: dnsmessage.RCodeRefused}.start(t)
	closed := nameServer{}.start(t)
	closed.conn.Close()
	for name, server := range map[string]*nameServer{"refusing": refusing, "closed": closed} {
		source := DNS{Names: []string{"etcd.example.com.", "_etcdadm._tcp.example.com."}, Port: 1, Resolver: server.resolver(t)}
		first, second := wantSeeds(t, source), wantSeeds(t, source)
		if first == nil || second == nil || first.Error() != second.Error() || len(strings.Split(first.Error(), "\n")) != 2 {
			t.Errorf("%s: %v, then %v", name, first, second)
		}
		var dns *net.DNSError
		if !errors.As(first, &dns) {
			t.Errorf("%s: the cause is lost: %v", name, first)
		}
	}
}

func TestDNSDeadline(t *testing.T) {
	server := nameServer{mute: true}.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	seeds, err := DNS{Names: []string{"etcd.example.com."}, Port: 1, Resolver: server.resolver(t)}.Seeds(ctx)
	if len(seeds) != 0 || err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("%v, %v", seeds, err)
	}
	if took := time.Since(start); took > lookupTimeout {
		t.Errorf("took %v", took)
	}
}
