package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/testkube"
	"etcdadm.io/operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var must = testkube.Must

// apiServer answers discovery as an API server does, or otherwise.
type apiServer struct {
	code  int      // of its answers
	hangs bool     // it answers nothing
	kinds []string // it has of our group
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.hangs:
		<-r.Context().Done()
		return
	case s.code != http.StatusOK:
		w.Header().Set("Retry-After", "1") // as an API server that starts does
		w.WriteHeader(s.code)
		return
	}
	gv := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: v1alpha1.GroupVersion.Version}
	var answer any
	switch r.URL.Path {
	case "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case "/api/v1":
		answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}}
	case "/apis":
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: v1alpha1.GroupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv}}}
	default:
		l := metav1.APIResourceList{GroupVersion: gv.GroupVersion}
		for _, kind := range s.kinds {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true})
		}
		answer = l
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who asked is told, or is gone
}

// What is awaited goes by what the API server answers, and the wait ends with what it knows.
func TestAwaitsByAnswers(t *testing.T) {
	scheme, kinds := runtime.NewScheme(), []client.Object{&corev1.Pod{}, &v1alpha1.EtcdCluster{}, &v1alpha1.EtcdRestore{}}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		must(t, add(scheme))
	}
	for name, test := range map[string]struct {
		first apiServer
		want  awaited
	}{
		"hangs":         {apiServer{hangs: true}, anAnswer},
		"503":           {apiServer{code: 503}, noError},
		"401":           {apiServer{code: 401}, aToken},
		"403":           {apiServer{code: 403}, discovery},
		"no kinds yet":  {apiServer{code: 200}, aKind},
		"one is absent": {apiServer{code: 200, kinds: []string{"EtcdCluster"}}, aKind},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[apiServer]
			now.Store(&test.first)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var said []string
			known, err := awaitAPI(ctx, &rest.Config{Host: server.URL, Timeout: 200 * time.Millisecond}, scheme, kinds, func(line string, _ ...any) {
				said = append(said, line)
				now.Store(&apiServer{code: 200, kinds: []string{"EtcdCluster", "EtcdRestore"}})
			})
			must(t, err)
			if len(said) != 2 || said[0] != string(test.want) {
				t.Errorf("it says %q, want %q and that it starts", said, test.want)
			}
			server.Close()
			for _, o := range kinds { // a manager asks for them, and needs no answer for it
				if _, err := apiutil.IsObjectNamespaced(o, scheme, known); err != nil {
					t.Errorf("it does not know %T: %v", o, err)
				}
			}
		})
	}
}

// An API server that the operator does not trust may be replaced by one that it does.
func TestAwaitsTrust(t *testing.T) {
	server := httptest.NewUnstartedServer(&apiServer{code: 200})
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the client ends
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := awaitAPI(ctx, &rest.Config{Host: server.URL}, clientgoscheme.Scheme, []client.Object{&corev1.Pod{}}, func(line string, _ ...any) {
		if line != string(trust) {
			t.Errorf("it says %q", line)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// A configuration that cannot be used is not waited for.
func TestAwaitsNoConfiguration(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(t.TempDir(), "none")}}
	if _, err := awaitAPI(t.Context(), config, clientgoscheme.Scheme, []client.Object{&corev1.Pod{}}, func(line string, _ ...any) {
		t.Errorf("it says %q", line)
	}); err == nil {
		t.Error("it goes on")
	}
}

// A wait says at once what it is for, and once a minute after that; the pauses grow to 5 s and no further; a signal ends it although
// nothing answers.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, hung := time.Now(), make(chan struct{})
		defer close(hung)
		var said []string
		var last, longest time.Duration
		err := await(ctx, func(line string, _ ...any) {
			said = append(said, fmt.Sprintf("%s: %s", time.Since(began).Truncate(10*time.Second), line))
		}, func() error {
			at := time.Since(began)
			longest, last = max(longest, at-last), at
			switch {
			case at < 2*time.Minute+30*time.Second:
				return syscall.ECONNREFUSED
			case at < 3*time.Minute:
				return apierrors.NewUnauthorized("")
			}
			time.AfterFunc(time.Second, cancel)
			<-hung
			return nil
		})
		if !errors.Is(err, context.Canceled) || time.Since(began)-last != time.Second {
			t.Errorf("it ends with %v, %s after its last try", err, time.Since(began)-last)
		}
		want := []string{"0s: " + string(anAnswer), "1m0s: " + string(anAnswer), "2m0s: " + string(anAnswer), "2m30s: " + string(aToken)}
		if !slices.Equal(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
		if longest < 5*time.Second || longest > 6*time.Second {
			t.Errorf("the longest pause is %s", longest)
		}
	})
}

// The kubelet finds the operator alive while it waits, and ready once it is.
func TestProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	p := &probes{}
	stop, err := p.serve(t.Context(), address)
	must(t, err)
	defer stop()
	if _, err := (&probes{}).serve(t.Context(), address); err == nil {
		t.Error("two serve at one address")
	}
	answers := func(path string, want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != want {
			t.Errorf("%s: %s", path, answer.Status)
		}
	}
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusServiceUnavailable)
	must(t, p.Start(t.Context()))
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusOK)
}
