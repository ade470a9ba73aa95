package keycopy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) {
	testetcd.SideBySide(6)
	os.Exit(m.Run())
}

// server is a real etcd of one member.
type server struct {
	t       testing.TB
	cluster *testetcd.Cluster
	url     string
	version cluster.Version
}

func start(t testing.TB, version string, args ...string) *server {
	t.Helper()
	c := testetcd.Start(t, testetcd.Config{Version: version, Args: args})
	return &server{t: t, cluster: c, url: c.Members[0].ClientURL, version: cluster.MustVersion(version)}
}

func (s *server) endpoint() keycopy.Endpoint {
	return keycopy.Endpoint{URLs: []string{s.url}, TLS: s.cluster.ClientTLS()}
}

func (s *server) client() *clientv3.Client { return s.cluster.Client(s.t) }

// v2do sends one request of version 2 and returns what it says.
func (s *server) v2do(method, key string, form url.Values) map[string]any {
	s.t.Helper()
	u := url.URL{Scheme: "http", Host: s.cluster.Members[0].Endpoint(), Path: "/v2/keys" + key}
	body := io.Reader(strings.NewReader(form.Encode()))
	if method != http.MethodPut {
		u.RawQuery, body = form.Encode(), nil
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, u.String(), body)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	said := map[string]any{"status": reply.StatusCode}
	if err := json.NewDecoder(reply.Body).Decode(&said); err != nil {
		s.t.Fatalf("%s %s: %v", method, key, err)
	}
	return said
}

// set writes a key of version 2; pairs are more fields of the form.
func (s *server) set(key, value string, pairs ...string) {
	s.t.Helper()
	form := url.Values{"value": {value}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	if form.Get("dir") != "" {
		form.Del("value")
	}
	if said := s.v2do(http.MethodPut, key, form); said["errorCode"] != nil {
		s.t.Fatalf("set %q: %v", key, said)
	}
}

// get reads a key of version 2: its value, and its TTL in seconds.
func (s *server) get(key string) (value string, ttl int, there bool) {
	s.t.Helper()
	node, there := s.v2do(http.MethodGet, key, nil)["node"].(map[string]any)
	if !there {
		return "", 0, false
	}
	value, _ = node["value"].(string)
	seconds, _ := node["ttl"].(float64)
	return value, int(seconds), true
}

// put writes a key of version 3.
func (s *server) put(key, value string, lease clientv3.LeaseID) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.client().Put(ctx, key, value, clientv3.WithLease(lease)); err != nil {
		s.t.Fatalf("put %q: %v", key, err)
	}
}

// grant makes a lease of version 3.
func (s *server) grant(ttl int64) clientv3.LeaseID {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	reply, err := s.client().Grant(ctx, ttl)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply.ID
}

// read reads all keys of version 3: value and lease.
func (s *server) read() map[string]held {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	reply, err := s.client().Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]held{}
	for _, kv := range reply.Kvs {
		all[string(kv.Key)] = held{string(kv.Value), kv.Lease}
	}
	return all
}

type held struct {
	Value string
	Lease int64
}

// ttl asks for a lease of version 3: seconds granted and left.
func (s *server) ttl(lease int64) (granted, left int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	reply, err := s.client().TimeToLive(ctx, clientv3.LeaseID(lease))
	if err != nil {
		s.t.Fatal(err)
	}
	return reply.GrantedTTL, reply.TTL
}

func kinds(r keycopy.Report) map[keycopy.Kind]int64 {
	counts := map[keycopy.Kind]int64{}
	for _, l := range r.Losses {
		if !l.Always {
			counts[l.Kind] = l.Count
		}
	}
	return counts
}

func survey(t testing.TB, from *server, to string) keycopy.Report {
	t.Helper()
	r, err := keycopy.Survey(t.Context(), from.endpoint(), cluster.MustVersion(to))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func credential(context.Context) (user, password string, err error) { return "root", "pw", nil }

// api sends JSON to another part of version 2.
func (s *server) api(method, path, body string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode/100 != 2 {
		said, _ := io.ReadAll(reply.Body)
		s.t.Fatalf("%s %s: %s: %s", method, path, reply.Status, said)
	}
}
