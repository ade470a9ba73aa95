package keycopy

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// said is an etcd that gives every question the same answer.
type said struct {
	code  int
	index string
	body  string
}

func (s said) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: s.code, Status: http.StatusText(s.code), Header: http.Header{"X-Etcd-Index": {s.index}}, Body: io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

// FuzzV2Answers: whatever an etcd answers to version 2 of the API, a key, its users and
// its version are read, or refused in a few words.
func FuzzV2Answers(f *testing.F) {
	f.Add(200, "7", `{"action":"get","node":{"key":"/a","value":"1","expiration":"2026-11-20T23:08:18.5Z","ttl":3,"modifiedIndex":4,"createdIndex":4}}`)
	f.Add(200, "7", `{"users":[{"user":"root","roles":[{"role":"root"}]}],"roles":["guest",{"role":"root"},7],"enabled":true}`)
	f.Add(404, "7", `{"errorCode":100,"message":"Key not found","cause":"/a","index":7}`)
	f.Add(401, "", `{"errorCode":110,"message":"The request requires user authentication","cause":"Insufficient credentials"}`)
	f.Add(200, "-", `{"etcdserver":"2.3.8","etcdcluster":"2.3.0"}`)
	f.Add(500, "", strings.Repeat("x", 9000))
	f.Add(400, "1", `{"errorCode":209,"message":"`+strings.Repeat("m", 9000)+`","cause":"`+strings.Repeat("c", 9000)+`"}`)
	f.Fuzz(func(t *testing.T, code int, index, body string) {
		if code < 200 || code > 599 {
			return
		}
		w := &web{base: &url.URL{Scheme: "http", Host: "192.0.2.1:2379"}, client: &http.Client{Transport: said{code, index, body}}}
		s, ctx := &v2{web: w}, t.Context()
		_, versionErr := w.version(ctx)
		at, err := s.position(ctx)
		if err == nil && code/100 != 2 {
			t.Fatalf("%d is the position %d", code, at)
		}
		node, getErr := s.get(ctx, "/a")
		if node != nil && getErr != nil || code/100 != 2 && node != nil {
			t.Fatalf("%d is %+v: %v", code, node, getErr)
		}
		written, putErr := s.put1(ctx, "/a", []byte("1"), 3)
		if (written == nil) == (putErr == nil) {
			t.Fatalf("%d wrote %+v: %v", code, written, putErr)
		}
		_, usersErr := s.v2Names(ctx, "users", "user")
		_, rolesErr := s.v2Names(ctx, "roles", "role")
		on, onErr := s.authOn(ctx)
		if on && code != http.StatusOK {
			t.Fatalf("%d is authentication: %v", code, onErr)
		}
		for _, err := range []error{versionErr, err, getErr, putErr, usersErr, rolesErr, onErr} {
			if err != nil && (err.Error() == "" || len(err.Error()) > 1000) {
				t.Fatalf("an error of %d bytes: %.300v", len(err.Error()), err)
			}
			if code == http.StatusUnauthorized && errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
		}
	})
}
