package etcd_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

func v2Driver(t *testing.T, url string) *etcd.V2 {
	t.Helper()
	c, err := etcd.NewV2(etcd.Config{Endpoints: []string{url}, Peer: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A member of 2.3 through its life as one of the cluster's list.
func TestV2Member(t *testing.T) {
	t.Parallel()
	m := testetcd.Start(t, testetcd.Config{Version: testetcd.V23, Members: 1}).Members[0]
	ctx := t.Context()
	c, err := etcd.NewV2(etcd.Config{Endpoints: []string{m.ClientURL}, Peer: []string{m.PeerURL}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Status(ctx)
	if err != nil || !s.Healthy || s.Version.String() != testetcd.V23 || s.Leader != s.Member || s.Member == 0 || s.Index == 0 || s.Term == 0 || s.Cluster == 0 {
		t.Fatalf("status %+v: %v", s, err)
	}
	v, err := c.View(ctx, true)
	if err != nil || !v.Linearizable || v.Cluster != s.Cluster || len(v.Members) != 1 || v.Members[0].ID != s.Member || v.Members[0].PeerURLs[0] != m.PeerURL {
		t.Fatalf("members %+v: %v", v, err)
	}
	if a, err := c.Agreed(ctx); err != nil || a.Version != cluster.MustVersion("2.3.0") || a.Downgrade {
		t.Errorf("agreed on %+v: %v", a, err)
	}
	if _, err := c.AddMember(ctx, []string{m.PeerURL}, false); !errors.Is(err, etcd.ErrPeerURLExists) {
		t.Errorf("a member at the address of another: %v", err)
	}
	if err := c.Remove(ctx, 99); !errors.Is(err, etcd.ErrMemberNotFound) {
		t.Errorf("remove a stranger: %v", err)
	}
	if _, err := c.AddMember(ctx, []string{"http://127.0.0.1:1"}, true); !errors.Is(err, etcd.ErrNotCapable) {
		t.Errorf("add a learner: %v", err)
	}
	// Without the second there is no quorum: the list is the member's own word.
	added, err := c.AddMember(ctx, []string{"http://127.0.0.1:1"}, false)
	if err != nil || added.ID == 0 {
		t.Fatalf("add: %+v, %v", added, err)
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := c.View(short, true); err == nil {
		t.Error("a linearizable list without a quorum")
	}
	if v, err := c.View(ctx, false); err != nil || len(v.Members) != 2 || v.Linearizable {
		t.Errorf("members %+v: %v", v, err)
	}
}

// What an answer that is none means depends on whether it was sent, and on what
// was asked.
func TestV2Outcomes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer fails.Close()
	for _, s := range []*httptest.Server{breaks, fails} {
		c := v2Driver(t, s.URL)
		if err := c.Remove(ctx, 1); !errors.Is(err, etcd.ErrUnknownOutcome) {
			t.Errorf("a change that got no answer: %v", err)
		}
		if _, err := c.View(ctx, false); err == nil || errors.Is(err, etcd.ErrUnknownOutcome) {
			t.Errorf("a look that got no answer: %v", err)
		}
	}
	breaks.Close()
	if err := v2Driver(t, "http://127.0.0.1:1").Remove(ctx, 1); !errors.Is(err, etcd.ErrUnreachable) || errors.Is(err, etcd.ErrUnknownOutcome) {
		t.Errorf("a change that was not sent: %v", err)
	}
}
