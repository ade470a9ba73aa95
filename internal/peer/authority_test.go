package peer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etcdadm.io/internal/pki"
)

// A host is given a key over TLS, nobody else is, and without TLS nobody.
func TestAuthority(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	r := AuthorityRequest{Rotation: "r1", Name: pki.PeersCA}
	reply, err := pool(t, as(pki.RoleHost, "h2"), s.host("h2")).at(t, srv.endpoint, "h1").Authority(context.Background(), r)
	if err != nil || string(reply.Key) != "key of "+pki.PeersCA {
		t.Errorf("%q, %v", reply.Key, err)
	}
	if said := fmt.Sprintf("%v %+v %#v", reply, reply, reply); strings.Contains(said, "key of "+pki.PeersCA) {
		t.Errorf("the key is shown: %s", said)
	}
	plain := start(t, "h1", nil, "")
	c := pool(t, as(pki.RoleHost, "h2"), nil).at(t, plain.endpoint, "h1")
	if _, err := c.Authority(context.Background(), r); err == nil {
		t.Error("a client asks for a key without TLS")
	}
	c.plain = false // whoever asks all the same
	_, err = c.Authority(context.Background(), r)
	plain.handler.mu.Lock()
	defer plain.handler.mu.Unlock()
	if n := len(plain.handler.callers); err == nil || n > 0 {
		t.Errorf("a key is given without TLS: %v, %d calls", err, n)
	}
}

// What was judged by a certificate that nobody trusts any more is connected anew.
func TestPoolRenews(t *testing.T) {
	s := newSite(t)
	srv := start(t, "h1", s.host("h1"), "")
	p := pool(t, as(pki.RoleHost, "h2"), s.host("h2"))
	before := p.at(t, srv.endpoint, "h1")
	if _, err := before.Hello(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.Renew()
	if after := p.at(t, srv.endpoint, "h1"); after == before {
		t.Error("the same connection is used on")
	}
	if _, err := before.Hello(context.Background()); err != nil {
		t.Errorf("a call that runs is broken off: %v", err)
	}
}
