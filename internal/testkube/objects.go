package testkube

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// callDeadline bounds one request of a test.
const callDeadline = 30 * time.Second

// Run gives a test an API server with roles, on an etcd of its own, until the test ends. On a machine that has not built one yet the
// test is skipped.
func Run(t testing.TB) *Server {
	t.Helper()
	if Built(APIServer) == "" {
		t.Skipf("no %s %s on this machine: go run ./internal/testkube/cmd/fetch", APIServer, Version)
	}
	etcd := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 1})
	s, err := Start(t.Context(), Config{Endpoints: etcd.Endpoints(), Dir: t.TempDir(), RBAC: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func tokensFile(cfg Config) string { return filepath.Join(cfg.Dir, "tokens.csv") }

// roles makes the server's own client one that may do everything.
func (s *Server) roles(cfg Config, own *testetcd.Certs) error {
	token := rand.Text()
	if err := os.WriteFile(tokensFile(cfg), fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token), 0o600); err != nil {
		return err
	}
	trust := own.Config()
	trust.Certificates = nil
	s.Client.Transport = bearer{token, &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
	return nil
}

type bearer struct {
	token string
	by    *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.by.RoundTrip(r)
}

func (b bearer) CloseIdleConnections() { b.by.CloseIdleConnections() }

// StatusError is an answer that is no success.
type StatusError struct {
	Code int
	Said string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Said) }

// Do makes a request as the server's own client: in, if it is not nil, is sent as JSON, and the answer read into out. What is no success
// is a *StatusError.
func (s *Server) Do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode/100 != 2:
		return &StatusError{answer.StatusCode, string(data)}
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

// ensure makes an object that may be there already.
func (s *Server) ensure(ctx context.Context, path string, o any) error {
	err := s.Do(ctx, http.MethodPost, path, o, nil)
	if told, ok := errors.AsType[*StatusError](err); ok && told.Code == http.StatusConflict {
		return nil
	}
	return err
}

type object = map[string]any

// ConfigMap makes an empty one, and its namespace where that is missing.
func (s *Server) ConfigMap(ctx context.Context, namespace, name string) error {
	if err := s.ensure(ctx, "/api/v1/namespaces", object{"metadata": object{"name": namespace}}); err != nil {
		return err
	}
	return s.ensure(ctx, "/api/v1/namespaces/"+namespace+"/configmaps", object{"metadata": object{"name": name}})
}

// Account makes a service account in a namespace that is there, which may have these verbs of ConfigMaps of these names and nothing
// else, and writes into a directory what its pods would find: token, ca.crt and namespace.
func (s *Server) Account(ctx context.Context, namespace, name, dir string, configMaps, verbs []string) error {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	meta := object{"metadata": object{"name": name}}
	for _, o := range []struct {
		path string
		is   object
	}{
		{"/api/v1/namespaces/" + namespace + "/serviceaccounts", meta},
		{rbac + namespace + "/roles", object{"metadata": object{"name": name}, "rules": []object{{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": configMaps, "verbs": verbs}}}},
		{rbac + namespace + "/rolebindings", object{
			"metadata": object{"name": name}, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []object{{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
		}},
	} {
		if err := s.ensure(ctx, o.path, o.is); err != nil {
			return fmt.Errorf("make the account %s: %w", name, err)
		}
	}
	if err := s.allowed(ctx, namespace, name, configMaps, verbs); err != nil {
		return err
	}
	return s.Token(ctx, namespace, name, dir)
}

// allowed waits until the API server goes by the roles that were just made, which it hears of by a watch.
func (s *Server) allowed(ctx context.Context, namespace, name string, configMaps, verbs []string) error {
	if len(configMaps) == 0 || len(verbs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callDeadline)
	defer cancel()
	ask := object{"spec": object{
		"user":               "system:serviceaccount:" + namespace + ":" + name,
		"resourceAttributes": object{"namespace": namespace, "verb": verbs[0], "resource": "configmaps", "name": configMaps[0]},
	}}
	for {
		var got struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		if err := s.Do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", ask, &got); err != nil {
			return fmt.Errorf("ask what the account %s may: %w", name, err)
		}
		if got.Status.Allowed {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the account %s may not %s ConfigMaps: %w", name, verbs[0], ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Token writes a new token of an account, the authority and the namespace into a directory.
func (s *Server) Token(ctx context.Context, namespace, name, dir string) error {
	var got struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := s.Do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", object{"spec": object{"expirationSeconds": 3600}}, &got); err != nil {
		return fmt.Errorf("get a token for the account %s: %w", name, err)
	}
	ca, err := os.ReadFile(s.CA)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": ca, "namespace": []byte(namespace), "token": []byte(got.Status.Token)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
