package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// The objects of the control folder that these tests go by.
const (
	controlFolder = "control/"
	recordKey     = controlFolder + "etcd-cluster-created"
	commandFile   = "/_command.json"
	besideFile    = "/_etcdadm.json"
	wishFile      = "/_etcdadm_command.json"
)

// tap stands between one daemon and the S3 server. It sees every request, may stop the
// daemon at it, and decides what becomes of it.
type tap struct {
	h      *host
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
func tapped(t *testing.T, o options) (*testCluster, []*tap) {
	t.Helper()
	server := teststore.Start(t, teststore.Versitygw)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var taps []*tap
	var urls []string
	for range o.hosts {
		p := &tap{target: target, client: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
		urls = append(urls, objectStore(t, server, teststore.Versitygw, p.listen(t)))
		taps = append(taps, p)
	}
	o.store = objectStore(t, server, teststore.Versitygw, "")
	c := newCluster(t, o)
	for i, h := range c.hosts {
		taps[i].h = h
		h.flags = append(h.flags, "--backup-store="+urls[i])
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
		p.serve(w, r)
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

func (p *tap) serve(w http.ResponseWriter, r *http.Request) {
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
	case call.list && call.key == controlFolder && status == http.StatusOK && hasCommand(body):
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
		if strings.HasSuffix(o.Key, commandFile) {
			return true
		}
	}
	return false
}

// readsAgain tells a read that follows a list from the one of a daemon that is about to
// write: that comes without a list, or looks for the command under both of its names.
func (p *tap) readsAgain(call *storeCall) bool {
	if call.method != http.MethodGet || call.list || !strings.HasPrefix(call.key, controlFolder) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case strings.HasSuffix(call.key, commandFile) && p.listed > 0:
		p.listed--
		return false
	case strings.HasSuffix(call.key, besideFile):
		p.listed = 0 // it follows the read of the command, and none is in a list here that has something beside it
		return true
	}
	return strings.HasSuffix(call.key, commandFile)
}

// record is the record that a call writes; nil: it does not.
func (c *storeCall) record() *cluster.Intent {
	var in cluster.Intent
	if c.method != http.MethodPut || c.key != recordKey || json.Unmarshal(c.body, &in) != nil {
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

// stopNow stops the daemon, and returns when none of its threads goes on.
func (h *host) stopNow() error {
	pid := h.cmd.Process.Pid
	if err := stopProcess(pid); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < soon; time.Sleep(time.Millisecond) { // no event tells
		threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
		if err != nil {
			return err
		}
		going := false
		for _, path := range threads {
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			_, rest, ok := strings.Cut(string(data), ") ") // behind the name, which may hold anything else
			going = going || ok && !strings.HasPrefix(rest, "T")
		}
		if !going {
			return nil
		}
	}
	return errors.New("it is not stopped by SIGSTOP")
}

// kept is the record that a host keeps on its disk.
func (h *host) kept() (*cluster.Intent, error) {
	data, err := os.ReadFile(filepath.Join(h.dir, "etcdadm", "state.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		State struct{ Intent *cluster.Intent }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("the state of host %d: %w", h.n, err)
	}
	return file.State.Intent, nil
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

// copyLog writes what a daemon said into a pipe to its log.
func (h *host) copyLog(pipe io.Reader) {
	out, err := os.OpenFile(h.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.Copy(out, pipe) // ends with the pipe
}
