package teststore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// Fault is what a Proxy does to a request.
type Fault int

// The faults of a network and of a server.
const (
	Pass     Fault = iota
	Lose           // the server does what was asked, and the connection ends without an answer
	Drop           // the connection ends, and the server never sees the request
	Refuse         // 503, and the server never sees the request
	Fail           // 500, likewise
	Hang           // nothing is answered until the client gives up
	Cut            // the connection ends after half of the answer's body
	Unplaced       // the answer does not say which part of the object it holds
)

// Proxy stands between a driver and its server, and hurts what passes.
type Proxy struct {
	URL string

	target *url.URL
	client *http.Transport

	mu   sync.Mutex // guards hook
	hook func(*http.Request) Fault
}

// NewProxy starts a proxy to a server for the time of a test.
func NewProxy(t testing.TB, server *Server) *Proxy {
	t.Helper()
	address := "127.0.0.1:" + strconv.Itoa(testetcd.FreePort(t))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return NewProxyOn(t, listener, server.URL, nil)
}

// NewProxyOn is NewProxy where the test listens and, if dial is not nil, dials itself: in a network namespace, for one.
func NewProxyOn(t testing.TB, listener net.Listener, server string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Proxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "http://" + listener.Addr().String(), target: target, client: &http.Transport{DisableCompression: true, DisableKeepAlives: true, DialContext: dial}}
	serve := &http.Server{Handler: p}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve.Serve(listener) // always ends with an error, that it was closed
	}()
	t.Cleanup(func() {
		if err := serve.Close(); err != nil {
			t.Error(err)
		}
		<-served
		p.client.CloseIdleConnections()
	})
	return p
}

// Inject decides over each request from now on; nil ends that. The hook may be called from several goroutines at once.
func (p *Proxy) Inject(hook func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	fault := Pass
	if hook != nil {
		fault = hook(r)
	}
	switch fault {
	case Drop:
		panic(http.ErrAbortHandler)
	case Refuse:
		_, _ = io.Copy(io.Discard, r.Body) // a client that breaks off is no matter
		http.Error(w, "slow down", http.StatusServiceUnavailable)
		return
	case Fail:
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "something is wrong with the store", http.StatusInternalServerError)
		return
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if err := p.forward(w, r, fault); err != nil {
		panic(http.ErrAbortHandler) // the client sees the end of its connection, whatever the reason
	}
}

var errCut = errors.New("cut")

// forward keeps the Host header, which signatures cover.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, fault Fault) error {
	ctx := r.Context()
	if fault == Lose {
		ctx = context.WithoutCancel(ctx)
	}
	request := r.Clone(ctx)
	request.URL.Scheme, request.URL.Host = p.target.Scheme, p.target.Host
	request.RequestURI = ""
	if r.ContentLength == 0 {
		request.Body = nil
	}
	response, err := p.client.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if fault == Lose {
		_, _ = io.Copy(io.Discard, response.Body)
		return errCut
	}
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	if fault == Unplaced {
		w.Header().Del("Content-Range")
	}
	w.WriteHeader(response.StatusCode)
	if fault == Cut {
		_, _ = io.CopyN(w, response.Body, response.ContentLength/2)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		return errCut
	}
	_, err = io.Copy(w, response.Body)
	return err
}
