package peer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// notary signs whatever it is asked for, and remembers by whom.
type notary struct {
	mu    sync.Mutex // guards asked
	asked []Caller
}

func (n *notary) Sign(_ context.Context, from Caller, r SignRequest) (SignReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, from)
	return SignReply{Certificate: r.Request}, nil
}

func signing(n Signer) func(*Server) { return func(s *Server) { s.opt.Signer = n } }

// Only a host is signed for, by the certificate that its connection shows; the record that it keeps does not matter.
func TestSign(t *testing.T) {
	s, n := newSite(t), new(notary)
	srv := start(t, "h1", s.host("h1"), "", signing(n), func(s *Server) { s.opt.Record = func() string { return "ours" } })
	ctx := within(t, 20*time.Second)
	p := pool(t, as(pki.RoleHost, "x"), s.host("x"))
	p.Record = func() string { return "another" }
	ask := SignRequest{Kind: "daemon", Request: []byte("request")}
	reply, err := p.at(t, srv.endpoint, "h1").Sign(ctx, ask)
	must(t, err)
	if !bytes.Equal(reply.Certificate, ask.Request) || len(n.asked) != 1 || n.asked[0].Leaf == nil || n.asked[0].Leaf.Subject.CommonName != "x" || !n.asked[0].Verified {
		t.Errorf("%+v for %+v", reply, n.asked)
	}
	for _, role := range []pki.Role{pki.RoleOperator, pki.RoleReader} {
		id := as(role, "x")
		_, err := pool(t, id, s.live(id, 0)).at(t, srv.endpoint, "h1").Sign(ctx, ask)
		wantFailure(t, err, ErrRole, false)
	}
	expired := as(pki.RoleHost, "y")
	if _, err := pool(t, expired, s.live(expired, -48*time.Hour)).at(t, srv.endpoint, "h1").Sign(ctx, ask); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("an expired certificate: %v", err)
	}
	if _, err := p.at(t, srv.endpoint, "h1").Sign(ctx, SignRequest{Kind: "daemon", Request: make([]byte, maxSignBody)}); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Errorf("a huge request: %v", err)
	}
	plain := start(t, "h1", nil, "", signing(n))
	if _, err := pool(t, as(pki.RoleHost, "x"), nil).at(t, plain.endpoint, "h1").Sign(ctx, ask); !errors.Is(err, ErrRole) {
		t.Errorf("without TLS: %v", err)
	}
	none := start(t, "h1", s.host("h1"), "")
	if _, err := p.at(t, none.endpoint, "h1").Sign(ctx, ask); !errors.Is(err, ErrRole) {
		t.Errorf("by a daemon that signs nothing: %v", err)
	}
	if len(n.asked) != 1 {
		t.Errorf("%d requests came through", len(n.asked))
	}
}
