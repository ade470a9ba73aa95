package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"etcdadm.io/internal/blob"
)

// carrier counts what it is given, and may have something happen before it reads a body.
type carrier struct {
	calls  int
	before func()
	read   []byte
	again  bool // reads a new body, as for a connection that broke
}

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls++
	if c.before != nil {
		c.before()
	}
	body := r.Body
	if c.again {
		var err error
		if body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	if body != nil {
		defer body.Close()
		var err error
		if c.read, err = io.ReadAll(body); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// watched is a body that tells whether it was closed.
type watched struct {
	io.Reader
	closed bool
}

func (w *watched) Close() error { w.closed = true; return nil }

// What writes is asked about before it is sent, and again with each part of its body, of
// the first try and of one over a new connection. What reads is not asked about.
func TestGate(t *testing.T) {
	over := errors.New("it is over")
	for what, c := range map[string]struct {
		method string
		body   bool
		asks   int  // until it is over; negative: never
		slow   bool // it is over while the connection is made
		again  bool
		calls  int
		fails  bool
	}{
		"a read":                             {http.MethodGet, false, 0, false, false, 1, false},
		"a question":                         {http.MethodHead, false, 0, false, false, 1, false},
		"a write":                            {http.MethodPut, true, -1, false, false, 1, false},
		"one that is over":                   {http.MethodPut, true, 0, false, false, 0, true},
		"one without a body that is over":    {http.MethodPost, false, 0, false, false, 0, true},
		"one without a body":                 {http.MethodDelete, false, -1, false, false, 1, false},
		"one that is over before its body":   {http.MethodPut, true, 1, false, false, 1, true},
		"one that takes long to connect":     {http.MethodPut, true, -1, true, false, 1, true},
		"one that is sent again":             {http.MethodPut, true, -1, false, true, 1, false},
		"one that is sent again, and is old": {http.MethodPut, true, 1, false, true, 1, true},
	} {
		asked, late := 0, false
		ctx := blob.While(t.Context(), func() error {
			asked++
			if late || c.asks >= 0 && asked > c.asks {
				return over
			}
			return nil
		})
		body := &watched{Reader: bytes.NewReader([]byte("content"))}
		r, err := http.NewRequestWithContext(ctx, c.method, "http://store", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.body {
			r.Body = body
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("content"))), nil }
		}
		to := &carrier{again: c.again}
		if c.slow {
			to.before = func() { late = true }
		}
		answer, err := Gate(to).RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		if errors.Is(err, over) != c.fails || (err != nil) != c.fails || to.calls != c.calls {
			t.Errorf("%s: %d calls, %v", what, to.calls, err)
		}
		if c.body && c.calls == 0 && !body.closed {
			t.Errorf("%s: its body is left open", what)
		}
		if c.body && !c.fails && string(to.read) != "content" {
			t.Errorf("%s: sent %q", what, to.read)
		}
	}
}

// Without anything that may be over, all is as before.
func TestGateOfNothing(t *testing.T) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://store", bytes.NewReader([]byte("content")))
	if err != nil {
		t.Fatal(err)
	}
	to := &carrier{}
	answer, err := Gate(to).RoundTrip(r)
	if err != nil || string(to.read) != "content" {
		t.Fatalf("sent %q: %v", to.read, err)
	}
	_ = answer.Body.Close()
}
