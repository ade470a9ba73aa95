package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/kubernetes"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testkube"
)

const namespace = "clusters"

// cluster makes a cluster's ConfigMaps and its account, and gives the URL of its store.
func cluster(t *testing.T, api *testkube.Server, name string, verbs ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "account")
	maps := []string{name + "-control", name + "-status"}
	for _, m := range maps {
		if err := api.ConfigMap(t.Context(), namespace, m); err != nil {
			t.Fatal(err)
		}
	}
	if len(verbs) == 0 {
		verbs = []string{"get", "watch", "update"}
	}
	if err := api.Account(t.Context(), namespace, name, dir, maps, verbs); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("kubernetes://%s/%s?server=%s&account=%s", namespace, name, api.URL, dir)
}

func open(t *testing.T, url string) *kubernetes.Store {
	t.Helper()
	s, err := kubernetes.Open(t.Context(), url, kubernetes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// All of it against a real API server, by an account that may what the daemons of a cluster may.
func TestStore(t *testing.T) {
	api := testkube.Run(t)
	n := 0
	fresh := func(t *testing.T, verbs ...string) string {
		n++
		return cluster(t, api, fmt.Sprintf("c%d", n), verbs...)
	}
	t.Run("conformance", func(t *testing.T) {
		traits := blobtest.Traits{ContentTags: true, Refused: []string{strings.Repeat("y", blob.MaxSegment)}, MaxObject: kubernetes.MaxObject}
		blobtest.RunWith(t, traits, func(t *testing.T) blob.Store { return open(t, fresh(t)) })
	})
	t.Run("daemons that write other objects lose nothing", func(t *testing.T) { others(t, fresh(t)) })
	t.Run("a missing ConfigMap is no empty one", func(t *testing.T) { missing(t, api, fresh(t)) })
	t.Run("what is not allowed", func(t *testing.T) { forbidden(t, api, fresh(t, "get")) })
	t.Run("the ConfigMap is full", func(t *testing.T) { full(t, fresh(t)) })
	t.Run("a change is told", func(t *testing.T) { notified(t, api, fresh(t)) })
	t.Run("what others put there stays", func(t *testing.T) { foreign(t, api, fresh(t)) })
	t.Run("a person's command makes it", func(t *testing.T) { created(t, api, fresh(t)) })
}

// Several stores, as several daemons have them, write into one ConfigMap at once.
func others(t *testing.T, url string) {
	const writers, each = 5, 10
	var all sync.WaitGroup
	for i := range writers {
		s := open(t, url)
		all.Go(func() {
			key, tag := fmt.Sprintf("control/of-%d", i), blob.Condition(blob.IfAbsent)
			for n := range each {
				now, err := blob.PutBytes(t.Context(), s, key, fmt.Appendf(nil, "%d", n), tag)
				if err != nil {
					t.Errorf("write %d of %s: %v", n, key, err)
					return
				}
				tag = blob.IfMatch(now)
			}
		})
	}
	all.Wait()
	for i := range writers {
		if data, _, err := blob.ReadAll(t.Context(), open(t, url), fmt.Sprintf("control/of-%d", i), 100); err != nil || string(data) != fmt.Sprint(each-1) {
			t.Errorf("%d: %q, %v", i, data, err)
		}
	}
}

func missing(t *testing.T, api *testkube.Server, url string) {
	s := open(t, url)
	if err := api.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+namespace+"/configmaps/"+s.Control(), nil, nil); err != nil {
		t.Fatal(err)
	}
	_, _, read := blob.ReadAll(t.Context(), s, "control/x", 100)
	_, put := blob.PutBytes(t.Context(), s, "control/x", nil, blob.IfAbsent)
	_, list := s.List(t.Context(), "")
	del := s.Delete(t.Context(), "control/x")
	for i, err := range []error{read, put, list, del} {
		if !errors.Is(err, kubernetes.ErrMissing) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPreconditionFailed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if _, err := blob.PutBytes(t.Context(), s, kubernetes.Often[0], []byte("{}"), blob.Any); err != nil {
		t.Errorf("the status, which lies in the other one: %v", err)
	}
}

func forbidden(t *testing.T, api *testkube.Server, url string) {
	s := open(t, url)
	if _, _, err := blob.ReadAll(t.Context(), s, "control/x", 100); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v", err)
	}
	_, err := blob.PutBytes(t.Context(), s, "control/x", []byte("1"), blob.Any)
	var told *blob.Error
	if !errors.Is(err, blob.ErrForbidden) || !errors.As(err, &told) || told.Advice == "" {
		t.Errorf("%v", err)
	}
	// The token is read each time, so that a renewed one is used, and one that is no good is told.
	_, dir, _ := strings.Cut(url, "account=")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := blob.ReadAll(t.Context(), s, "control/x", 100); !errors.Is(err, blob.ErrForbidden) || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
	if err := api.Token(t.Context(), namespace, strings.TrimSuffix(s.Control(), "-control"), dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := blob.ReadAll(t.Context(), s, "control/x", 100); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func full(t *testing.T, url string) {
	s := open(t, url)
	for _, key := range []string{"control/a", "control/b"} {
		if _, err := blob.PutBytes(t.Context(), s, key, []byte(strings.Repeat("x", kubernetes.MaxObject)), blob.Any); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := blob.PutBytes(t.Context(), s, "control/c", []byte("one more"), blob.Any); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if err := s.Delete(t.Context(), "control/a"); err != nil {
		t.Error(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "control/c", []byte("one more"), blob.Any); err != nil {
		t.Error(err)
	}
}

func notified(t *testing.T, api *testkube.Server, url string) {
	s := open(t, url)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told, err := control.New(s, "c").Notify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait := func(what string) {
		t.Helper()
		select {
		case _, open := <-told:
			if !open {
				t.Fatalf("%s: the watch ended", what)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s is not told", what)
		}
	}
	wait("the beginning")
	if _, err := blob.PutBytes(ctx, s, "control/x", []byte("1"), blob.Any); err != nil {
		t.Fatal(err)
	}
	wait("a change")
	if _, err := blob.PutBytes(ctx, s, kubernetes.Often[0], []byte("1"), blob.Any); err != nil {
		t.Fatal(err)
	}
	if err := api.Do(ctx, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/configmaps/"+s.Control(), nil, nil); err != nil {
		t.Fatal(err)
	}
	wait("the deletion")
	select {
	case <-told:
		t.Error("more was told than happened")
	default:
	}
	stop()
	for range told { //nolint:revive // it ends
	}
}

// Labels and entries that are not ours are as they were after a write.
func foreign(t *testing.T, api *testkube.Server, url string) {
	s := open(t, url)
	at := "/api/v1/namespaces/" + namespace + "/configmaps/" + s.Control()
	var m map[string]any
	if err := api.Do(t.Context(), http.MethodGet, at, nil, &m); err != nil {
		t.Fatal(err)
	}
	m["metadata"].(map[string]any)["labels"] = map[string]string{"etcdadm.io/cluster": "main"}
	m["metadata"].(map[string]any)["finalizers"] = []string{"etcdadm.io/keep"}
	m["data"] = map[string]string{"_not_ours": "x"}
	if err := api.Do(t.Context(), http.MethodPut, at, m, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(t.Context(), s, "control/x", []byte("1"), blob.IfAbsent); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 1 {
		t.Errorf("%v, %v", infos, err)
	}
	var after struct {
		Metadata struct {
			Labels     map[string]string `json:"labels"`
			Finalizers []string          `json:"finalizers"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	if err := api.Do(t.Context(), http.MethodGet, at, nil, &after); err != nil {
		t.Fatal(err)
	}
	if after.Metadata.Labels["etcdadm.io/cluster"] != "main" || len(after.Metadata.Finalizers) != 1 || after.Data["_not_ours"] != "x" || after.Data["control__x"] != "1" {
		t.Errorf("%+v", after)
	}
}

func created(t *testing.T, api *testkube.Server, url string) {
	s := open(t, url)
	if err := api.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+namespace+"/configmaps/"+s.Status(), nil, nil); err != nil {
		t.Fatal(err)
	}
	// The daemons' account is not allowed to, and is told so.
	if _, err := kubernetes.Open(t.Context(), url, kubernetes.Options{Create: true}); !errors.Is(err, blob.ErrForbidden) {
		t.Errorf("%v", err)
	}
	dir := filepath.Join(t.TempDir(), "person")
	if err := api.Account(t.Context(), namespace, "person", dir, nil, []string{"get", "create", "update"}); err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(url, "account=")
	made, err := kubernetes.Open(t.Context(), before+"account="+dir, kubernetes.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := made.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("%v, %v", infos, err)
	}
}
