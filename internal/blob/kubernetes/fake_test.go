package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/kubernetes"
)

// fake is an API server that answers writes as it is told; what comes of them is another matter.
type fake struct {
	mu      sync.Mutex // guards what follows
	version int
	data    map[string]string
	// answers are those to the next writes: a status that is no success, and whether the write takes effect all the same.
	answers []fakeAnswer
	writes  int
}

type fakeAnswer struct {
	status int
	takes  bool
	before func(map[string]string) // somebody else gets in between
}

type fakeMap struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPut {
		f.writes++
		var a fakeAnswer
		if len(f.answers) > 0 {
			a, f.answers = f.answers[0], f.answers[1:]
		}
		if a.before != nil {
			f.version++
			a.before(f.data)
		}
		var m fakeMap
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		current := m.Metadata.ResourceVersion == fmt.Sprint(f.version)
		if current && (a.status == 0 || a.takes) {
			f.version++
			f.data = m.Data
		}
		switch {
		case a.status != 0:
			http.Error(w, `{"kind":"Status","message":"as it was told"}`, a.status)
			return
		case !current:
			http.Error(w, `{"kind":"Status","reason":"Conflict"}`, http.StatusConflict)
			return
		}
	}
	var m fakeMap
	m.Metadata.ResourceVersion, m.Data = fmt.Sprint(f.version), f.data
	_ = json.NewEncoder(w).Encode(m)
}

func fakeStore(t *testing.T, f *fake) *kubernetes.Store {
	f.data = map[string]string{"control__a": "before"}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return open(t, "kubernetes://ns/c?server="+server.URL)
}

// What a write comes to whose answer is an error: it is said to be not done only where that is certain.
func TestAnswersToAWrite(t *testing.T) {
	other := func(m map[string]string) { m["control__b"] = "somebody's" }
	same := func(m map[string]string) { m["control__a"] = "somebody's" }
	const open, refused, done = "open", "refused", "done"
	for _, c := range []struct {
		name    string
		answers []fakeAnswer
		want    string
		reads   string
	}{
		{"another object changed meanwhile", []fakeAnswer{{before: other}}, done, "after"},
		{"this object changed meanwhile", []fakeAnswer{{before: same}}, refused, "somebody's"},
		{"429, and nothing was done", []fakeAnswer{{status: 429}}, done, "after"},
		{"500, and nothing was done", []fakeAnswer{{status: 500}}, done, "after"},
		{"500, and it was done", []fakeAnswer{{status: 500, takes: true}}, open, "after"},
		{"503, and somebody else was first", []fakeAnswer{{status: 503}, {before: same}}, open, "somebody's"},
		{"500 each time", []fakeAnswer{{status: 500}, {status: 500}, {status: 500}, {status: 500}}, open, "before"},
		{"429 each time", []fakeAnswer{{status: 429}, {status: 429}, {status: 429}, {status: 429}}, open, "before"},
		{"403", []fakeAnswer{{status: 403}}, open, "before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{answers: c.answers}
			s := fakeStore(t, f)
			_, tag, err := blob.ReadAll(t.Context(), s, "control/a", 100)
			if err != nil {
				t.Fatal(err)
			}
			_, err = blob.PutBytes(t.Context(), s, "control/a", []byte("after"), blob.IfMatch(tag))
			got := open
			switch {
			case err == nil:
				got = done
			case errors.Is(err, blob.ErrPreconditionFailed):
				got = refused
			}
			if got != c.want {
				t.Errorf("it is %s, want %s: %v", got, c.want, err)
			}
			if data, _, err := blob.ReadAll(t.Context(), s, "control/a", 100); err != nil || string(data) != c.reads {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
}

// A write that may not be made any more is not sent.
func TestCalledOff(t *testing.T) {
	f := &fake{}
	s := fakeStore(t, f)
	over := errors.New("it is over")
	ctx := blob.While(t.Context(), func() error { return over })
	if _, err := blob.PutBytes(ctx, s, "control/a", []byte("after"), blob.Any); !errors.Is(err, over) || f.writes != 0 {
		t.Errorf("%v, and %d writes", err, f.writes)
	}
}

// A server that has no such ConfigMap says nothing of the objects that were in it.
func TestMissing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s := open(t, "kubernetes://ns/c?server="+server.URL)
	_, _, err := blob.ReadAll(t.Context(), s, "control/a", 100)
	if !errors.Is(err, kubernetes.ErrMissing) || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A look at many objects asks once for each ConfigMap, and one after it asks anew.
func TestTogether(t *testing.T) {
	f := &fake{}
	asked := 0
	fakeStore(t, f)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s := open(t, "kubernetes://ns/c?server="+server.URL)
	for range 2 {
		ctx := blob.Together(t.Context())
		for _, key := range []string{"control/a", "control/b", "control/c"} {
			_, _, err := blob.ReadAll(ctx, s, key, 100)
			if err != nil && !errors.Is(err, blob.ErrNotFound) {
				t.Fatal(err)
			}
		}
		if _, err := s.List(ctx, ""); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times, want twice for each of two ConfigMaps", asked)
	}
}

func TestNames(t *testing.T) {
	for key, want := range map[string]string{
		"control/etcd-cluster-created":                      "control__etcd-cluster-created",
		"control/2026-11-20T23:08:18Z-000005/_command.json": "control__2026-11-20T23_3a08_3a18Z-000005___5fcommand.json",
		"...":       "_2e..",
		"a_2fb":     "a_5f2fb",
		"control/ä": "control___c3_a4",
	} {
		got, err := kubernetes.Name(key)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", key, got, err, want)
		}
		if back, ok := kubernetes.Key(got); !ok || back != key {
			t.Errorf("%s: back %q, %t", got, back, ok)
		}
	}
	for _, name := range []string{"_", "a_2", "a_zz", "__", "_61", "a__", "A_2F", "_not_ours"} {
		if key, ok := kubernetes.Key(name); ok {
			t.Errorf("%s is the entry of %q", name, key)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for url, want := range map[string]string{
		"kubernetes://ns":                              "not the names",
		"kubernetes://NS/c":                            "not the names",
		"kubernetes://ns/a/b":                          "not the names",
		"kubernetes://ns/c":                            "KUBERNETES_SERVICE_HOST",
		"kubernetes://ns/c?server=ftp://x":             "http",
		"kubernetes://ns/c?server=https://x&account=a": "not absolute",
		"kubernetes://ns/c?token=planted":              "not a parameter",
	} {
		_, err := kubernetes.Open(t.Context(), url, kubernetes.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("control/a_b.c")
	f.Fuzz(func(t *testing.T, key string) {
		name, err := kubernetes.Name(key)
		if err != nil {
			return
		}
		if back, ok := kubernetes.Key(name); !ok || back != key {
			t.Errorf("%q is %q, and back %q, %t", key, name, back, ok)
		}
	})
}
