package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// tap stands between one daemon and the S3 server. It sees every request, may stop the
// daemon at it, and decides what becomes of it.
type tap struct {
	h      *rig.Host
	target *url.URL
	client *http.Transport

	mu     sync.Mutex // guards what follows
	hook   func(*storeCall) *storeAnswer
	listed int          // lists that had a command in them, and were not followed by its read yet
	wrote  []storeWrite // of the record, in their order
}

// storeCall is one request of a daemon.
type storeCall struct {
	method string
	key    string // below the store's base; of a list it is the prefix
	list   bool
	again  bool // it reads a command again, before what relies on it
	body   []byte

	header http.Header
	send   func() *storeAnswer // to the server; it does what is asked even if the daemon gives up
}

// storeAnswer is what a daemon is told.
type storeAnswer struct {
	status int
	header http.Header
	body   []byte
}

// storeWrite is one write of the record, and what the server said of it.
type storeWrite struct {
	intent *cluster.Intent
	status int
}

// unavailable is the answer of a server that does nothing.
func unavailable() *storeAnswer {
	return &storeAnswer{http.StatusServiceUnavailable, http.Header{"Content-Type": {"application/xml"}},
		[]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)}
}

// tapped is a cluster whose store is an S3 server, each daemon's way to it tapped. The
// programs of people and the test itself go straight to the server.
func tapped(t *testing.T, o rig.Options) (*rig.Cluster, []*tap) {
	t.Helper()
	server := teststore.Start(t, teststore.Versitygw)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var taps []*tap
	var urls []string
	for range o.Hosts {
		p := &tap{target: target, client: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
		urls = append(urls, rig.ObjectStore(t, server, teststore.Versitygw, p.listen(t)))
		taps = append(taps, p)
	}
	o.Store = rig.ObjectStore(t, server, teststore.Versitygw, "")
	c := rig.NewCluster(t, o)
	for i, h := range c.Hosts {
		taps[i].h = h
		h.Flags = append(h.Flags, "--backup-store="+urls[i])
	}
	return c, taps
}

// listen serves until the end of the test, after that of its daemon.
func (p *tap) listen(t *testing.T) (endpoint string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(testetcd.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	serve := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		defer calls.Done()
		p.Serve(w, r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve.Serve(listener) // always ends with an error, that it was closed
	}()
	t.Cleanup(func() {
		p.on(nil)
		if err := serve.Close(); err != nil {
			t.Error(err)
		}
		<-served
		calls.Wait()
	})
	return "http://" + listener.Addr().String()
}

// on has each request decided over from now on; an answer of nil is the server's. Several
// requests may be decided over at once.
func (p *tap) on(hook func(*storeCall) *storeAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *tap) Serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the daemon has given up in the middle
	}
	call := &storeCall{method: r.Method, key: strings.TrimPrefix(r.URL.Path, "/"+teststore.Bucket+"/test/"), body: body, header: r.Header}
	if q := r.URL.Query(); r.Method == http.MethodGet && q.Has("list-type") {
		call.list, call.key = true, strings.TrimPrefix(q.Get("prefix"), "test/")
	}
	call.send = func() *storeAnswer { return p.send(r, call) }
	call.again = p.readsAgain(call)
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	var a *storeAnswer
	if hook != nil {
		a = hook(call)
	}
	if a == nil {
		a = call.send()
	}
	if a == nil {
		panic(http.ErrAbortHandler) // the daemon sees the end of its connection, whatever the reason
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a daemon that does not listen any more is no matter
}

// send keeps the Host header, which signatures cover.
func (p *tap) send(r *http.Request, call *storeCall) *storeAnswer {
	request := r.Clone(context.WithoutCancel(r.Context()))
	request.URL.Scheme, request.URL.Host, request.RequestURI = p.target.Scheme, p.target.Host, ""
	request.Body, request.ContentLength = http.NoBody, int64(len(call.body))
	if len(call.body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(call.body))
	}
	response, err := p.client.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	p.note(call, response.StatusCode, body)
	return &storeAnswer{response.StatusCode, response.Header, body}
}

// note keeps the writes of the record, and counts the lists that have a command in them.
func (p *tap) note(call *storeCall, status int, body []byte) {
	in := call.record()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case in != nil:
		p.wrote = append(p.wrote, storeWrite{in, status})
	case call.list && call.key == rig.ControlFolder && status == http.StatusOK && hasCommand(body):
		p.listed++
	}
}

// hasCommand reports whether a list has a command in it that is written as the predecessor does.
func hasCommand(list []byte) bool {
	var found struct {
		Contents []struct{ Key string }
	}
	if xml.Unmarshal(list, &found) != nil {
		return false
	}
	for _, o := range found.Contents {
		if strings.HasSuffix(o.Key, rig.CommandFile) {
			return true
		}
	}
	return false
}

// readsAgain tells a read that follows a list from the one of a daemon that is about to
// write: that comes without a list, or looks for the command under both of its names.
func (p *tap) readsAgain(call *storeCall) bool {
	if call.method != http.MethodGet || call.list || !strings.HasPrefix(call.key, rig.ControlFolder) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case strings.HasSuffix(call.key, rig.CommandFile) && p.listed > 0:
		p.listed--
		return false
	case strings.HasSuffix(call.key, rig.BesideFile):
		p.listed = 0 // it follows the read of the command, and none is in a list here that has something beside it
		return true
	}
	return strings.HasSuffix(call.key, rig.CommandFile)
}

// record is the record that a call writes; nil: it does not.
func (c *storeCall) record() *cluster.Intent {
	var in cluster.Intent
	if c.method != http.MethodPut || c.key != rig.RecordKey || json.Unmarshal(c.body, &in) != nil {
		return nil
	}
	return &in
}

// writes are those of the record that the daemon sent and the server answered.
func (p *tap) writes() []storeWrite {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrote)
}

// sameRecord compares all of two records.
func sameRecord(want, got *cluster.Intent) error {
	a, err := json.Marshal(want)
	if err != nil {
		return err
	}
	b, err := json.Marshal(got)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("%s, want %s", b, a)
	}
	return err
}
