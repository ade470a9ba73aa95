package keycopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const v2Keys = "/v2/keys"

// maxV2Answer bounds an answer about one key, in bytes: its value twice, since a
// write is answered with what was there before, and escaped.
const maxV2Answer = 64 << 20

// codes of errors of version 2 of the API. Source: error/error.go of 2.3.8.
const (
	codeKeyNotFound = 100
	codeNoAuth      = 110
)

// v2 is an etcd asked by version 2 of the API.
type v2 struct {
	*web
	version cluster.Version
	hidden  []string // see Endpoint
}

func (s *v2) release() cluster.Version { return s.version }
func (s *v2) api() API                 { return V2 }
func (s *v2) close()                   { s.web.close() }

// v2Error is what etcd refuses with. Its cause is a path.
type v2Error struct {
	Status  int
	Code    int    `json:"errorCode"`
	Message string `json:"message"`
	Cause   string `json:"cause"`
}

func (e *v2Error) Error() string {
	return fmt.Sprintf("HTTP status %d, etcd's code %d: %.200s (%s)", e.Status, e.Code, e.Message, show([]byte(e.Cause)))
}

func (e *v2Error) Is(target error) bool {
	return target == ErrAuth && (e.Code == codeNoAuth || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// ask sends a request about keys and returns its answer, to be closed, and the
// index of the store at that time.
func (s *v2) ask(ctx context.Context, method, key, query string, form io.Reader) (io.ReadCloser, int64, error) {
	reply, err := s.do(ctx, method, v2Keys+key, query, form)
	if err != nil {
		return nil, 0, err
	}
	if reply.StatusCode/100 != 2 {
		defer reply.Body.Close()
		refused := &v2Error{Status: reply.StatusCode}
		if err := json.NewDecoder(io.LimitReader(reply.Body, 1<<20)).Decode(refused); err != nil {
			refused.Message = "an answer that is not etcd's"
		}
		return nil, 0, refused
	}
	index, err := strconv.ParseInt(reply.Header.Get("X-Etcd-Index"), 10, 64)
	if err != nil {
		reply.Body.Close()
		return nil, 0, fmt.Errorf("read the store's index: %.40q is no number", reply.Header.Get("X-Etcd-Index"))
	}
	return reply.Body, index, nil
}

// position is the store's index, read through a quorum.
func (s *v2) position(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The root's own listing may be long, so its body is not read.
	body, index, err := s.ask(ctx, http.MethodGet, "/", "quorum=true", nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the index: %w", err)
	}
	body.Close()
	return index, nil
}

// v2Node is one key, as version 2 answers about it.
type v2Node struct {
	Key        string     `json:"key"`
	Value      string     `json:"value"`
	Dir        bool       `json:"dir"`
	Expiration *time.Time `json:"expiration"`
}

// clockTolerance is how far the server's clock may be from ours, with the time
// that an answer takes.
const clockTolerance = 10 * time.Second

// expiresIn says whether the key expires in about so many seconds; 0 is never.
func (n *v2Node) expiresIn(seconds int64) bool {
	if n.Expiration == nil || seconds == 0 {
		return n.Expiration == nil && seconds == 0
	}
	off := time.Until(*n.Expiration) - time.Duration(seconds)*time.Second
	return off.Abs() < clockTolerance
}

// get reads one key; nil: there is none.
func (s *v2) get(ctx context.Context, key string) (*v2Node, error) {
	return s.one(ctx, http.MethodGet, key, "quorum=true", nil)
}

// put1 writes one key, with a TTL in seconds if it is not zero, and returns what
// etcd says that it wrote.
func (s *v2) put1(ctx context.Context, key string, value []byte, ttl int64) (*v2Node, error) {
	form := url.Values{"value": {string(value)}}
	if ttl != 0 {
		form.Set("ttl", strconv.FormatInt(ttl, 10))
	}
	node, err := s.one(ctx, http.MethodPut, key, "", strings.NewReader(form.Encode()))
	if err == nil && node == nil {
		err = errors.New("etcd says that it is not there")
	}
	return node, err
}

func (s *v2) one(ctx context.Context, method, key, query string, form io.Reader) (*v2Node, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	body, _, err := s.ask(ctx, method, key, query, form)
	if refused, ok := errors.AsType[*v2Error](err); ok && refused.Code == codeKeyNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var said struct {
		Node *v2Node `json:"node"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxV2Answer)).Decode(&said); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	_, _ = io.Copy(io.Discard, body) // so that the connection is used again
	return said.Node, nil
}

// v2Names lists the users or roles. A release without authentication has none.
// Source: 2.1 to 2.3 answer with a list of objects or of names.
func (s *v2) v2Names(ctx context.Context, what, field string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var said map[string][]json.RawMessage
	if err := s.getJSON(ctx, "/v2/auth/"+what, &said); err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	var names []string
	for _, raw := range said[what] {
		var name string
		if json.Unmarshal(raw, &name) != nil {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(raw, &object); err != nil {
				return nil, fmt.Errorf("list %s: %w", what, err)
			}
			if err := json.Unmarshal(object[field], &name); err != nil {
				return nil, fmt.Errorf("list %s: %w", what, err)
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// authOn says whether authentication is on.
func (s *v2) authOn(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var said struct {
		Enabled bool `json:"enabled"`
	}
	if err := s.getJSON(ctx, "/v2/auth/enable", &said); err != nil {
		return false, fmt.Errorf("ask whether authentication is on: %w", err)
	}
	return said.Enabled, nil
}

// getJSON reads a short answer; one that is not found is nothing.
func (s *v2) getJSON(ctx context.Context, path string, into any) error {
	reply, err := s.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	switch {
	case reply.StatusCode == http.StatusNotFound:
		return nil
	case reply.StatusCode != http.StatusOK:
		return &v2Error{Status: reply.StatusCode, Message: reply.Status}
	}
	return json.NewDecoder(io.LimitReader(reply.Body, 16<<20)).Decode(into)
}
