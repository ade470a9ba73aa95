package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/regular"
)

const (
	// answerTimeout bounds one request.
	answerTimeout = 10 * time.Second
	// maxAnswer bounds an answer, in bytes: a full ConfigMap in Base64, with what Kubernetes remembers of its writers.
	maxAnswer = 8 << 20
	// maxFile bounds the files of an account, in bytes.
	maxFile = 1 << 20

	adviceAccount = "the service account has to be allowed get, watch and update of these two ConfigMaps by name"
	adviceMissing = "the operator makes it again; without one: kubectl create configmap, with this name and nothing in it. The daemons write the cluster's record back into it"
)

var (
	// errOvertaken says that nothing was written, because somebody else changed the ConfigMap since it was read.
	errOvertaken = errors.New("others changed the ConfigMap each time before this write")
	errNoToken   = fmt.Errorf("%w: there is no token", remote.ErrCredentials)
)

// configMap is all of one. Metadata is given back as it came, with the resourceVersion that makes a write conditional.
type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   json.RawMessage   `json:"metadata"`
	Immutable  *bool             `json:"immutable,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// value gives what an entry holds; nobody changes it.
func (m *configMap) value(name string) ([]byte, bool) {
	if v, is := m.BinaryData[name]; is {
		return v, true
	}
	v, is := m.Data[name]
	return []byte(v), is
}

// set replaces an entry; nil: there is none any more. Text is kept as text, for people who look.
func (m *configMap) set(name string, v []byte) error {
	delete(m.Data, name)
	delete(m.BinaryData, name)
	switch {
	case v == nil:
		return nil
	case utf8.Valid(v):
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[name] = string(v)
	default:
		if m.BinaryData == nil {
			m.BinaryData = map[string][]byte{}
		}
		m.BinaryData[name] = v
	}
	return m.room()
}

// modified is when the server says that somebody changed it last; zero: it does not.
func (m *configMap) modified() time.Time {
	var meta struct {
		CreationTimestamp time.Time `json:"creationTimestamp"`
		ManagedFields     []struct {
			Time time.Time `json:"time"`
		} `json:"managedFields"`
	}
	_ = json.Unmarshal(m.Metadata, &meta) // what is not told stays zero
	last := meta.CreationTimestamp
	for _, f := range meta.ManagedFields {
		if f.Time.After(last) {
			last = f.Time
		}
	}
	return last
}

// api is an API server, and who asks it.
type api struct {
	server  *url.URL
	account string

	mu     sync.Mutex // guards what follows
	client *http.Client
	ca     []byte // that the client trusts
}

// statusError is an answer that is no success.
type statusError struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (e *statusError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// read asks for a ConfigMap.
func (s *Store) read(ctx context.Context, name string) (*configMap, error) {
	m := new(configMap)
	_, err := s.call(ctx, http.MethodGet, name, nil, m)
	return m, s.explain(ctx, name, err)
}

// shared is read for those who look at several objects at once.
func (s *Store) shared(ctx context.Context, name string) (*configMap, error) {
	type question struct {
		store *Store
		name  string
	}
	return blob.Shared(ctx, question{s, name}, func(ctx context.Context) (*configMap, error) { return s.read(ctx, name) })
}

// replace writes a ConfigMap, if it still is the one that was read. lost: it may have taken effect whatever the error is.
func (s *Store) replace(ctx context.Context, name string, m *configMap) (lost bool, err error) {
	lost, err = s.call(ctx, http.MethodPut, name, m, nil)
	if answer, ok := errors.AsType[*statusError](err); ok && answer.Code == http.StatusConflict {
		return lost, errOvertaken
	}
	return lost, s.explain(ctx, name, err)
}

// create makes a ConfigMap with nothing in it. One that is there by then is no error.
func (s *Store) create(ctx context.Context, name string) error {
	meta, err := json.Marshal(map[string]string{"name": name, "namespace": s.namespace})
	if err == nil {
		_, err = s.call(ctx, http.MethodPost, "", &configMap{APIVersion: "v1", Kind: "ConfigMap", Metadata: meta}, nil)
	}
	if answer, ok := errors.AsType[*statusError](err); ok && answer.Code == http.StatusConflict {
		return nil
	}
	return s.explain(ctx, name, err)
}

// call makes one request, and again as long as that can help.
func (s *Store) call(ctx context.Context, method, name string, in, out any) (unsure bool, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return false, err
		}
	}
	return remote.Try(ctx, judge, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		answer, err := s.api.ask(ctx, method, s.path(name), nil, body)
		if still := blob.Still(ctx); still != nil && errors.Is(err, still) {
			return &gateError{still}
		}
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		switch {
		case err != nil:
			return &url.Error{Op: method, URL: s.path(name), Err: err}
		case len(data) > maxAnswer:
			return fmt.Errorf("%w: an answer of more than %d bytes", blob.ErrTooLarge, maxAnswer)
		case out == nil:
			return nil
		}
		return json.Unmarshal(data, out)
	})
}

// gateError is what kept a request from being sent; see blob.While.
type gateError struct{ error }

func (e *gateError) Unwrap() error { return e.error }

func judge(err error) remote.Verdict {
	var answer *statusError
	var gate *gateError
	switch {
	case errors.As(err, &answer):
		return remote.JudgeStatus(answer.Code)
	case errors.Is(err, errNoToken), errors.As(err, &gate):
		return remote.Final
	}
	return remote.JudgeSilence(err)
}

func (s *Store) path(name string) string {
	return strings.TrimSuffix("/api/v1/namespaces/"+s.namespace+"/configmaps/"+name, "/")
}

// ask sends a request. What is no success is a *statusError; else the answer is the caller's to close.
func (a *api) ask(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	client, token, err := a.credentials()
	if err != nil {
		return nil, err
	}
	at := a.server.JoinPath(path)
	at.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "etcdadm") // by which the ConfigMap tells who changed it
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode/100 == 2 {
		return answer, err
	}
	defer answer.Body.Close()
	told := new(statusError)
	if data, err := io.ReadAll(io.LimitReader(answer.Body, maxFile)); err == nil {
		_ = json.Unmarshal(data, told) // a proxy says something else, and the status is enough
	}
	told.Code = answer.StatusCode
	return nil, told
}

// credentials are read each time: Kubernetes renews them in place. Over http nothing that authenticates is sent.
func (a *api) credentials() (*http.Client, string, error) {
	token := ""
	if a.server.Scheme == "https" {
		data, err := regular.Read(filepath.Join(a.account, "token"), maxFile)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errNoToken, err)
		}
		token = strings.TrimSpace(string(data))
	}
	caFile := filepath.Join(a.account, "ca.crt")
	ca, err := regular.Read(caFile, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		caFile, err = "", nil // the system's authorities have to do
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", errNoToken, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil && bytes.Equal(ca, a.ca) {
		return a.client, token, nil
	}
	t, err := remote.Transport(watchStall, caFile)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", errNoToken, err)
	}
	if a.client != nil {
		a.client.CloseIdleConnections()
	}
	a.client, a.ca = &http.Client{Transport: remote.Gate(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, ca
	return a.client, token, nil
}

// explain makes a sentinel or an error for people of what a request ended with.
func (s *Store) explain(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	return remote.Ended(ctx, s.explained(name, err))
}

func (s *Store) explained(name string, err error) error {
	answer, answered := errors.AsType[*statusError](err)
	switch {
	case errors.Is(err, errNoToken):
		return s.failed(fmt.Errorf("%w: %w", blob.ErrForbidden, err), "in a pod set automountServiceAccountToken; else account=DIR in the URL names the directory with token and ca.crt")
	case !answered && remote.Silent(err):
		f := remote.Network(err, "ca.crt in the directory of account=DIR")
		return s.failed(f, f.Advice)
	case !answered:
		return s.failed(err, "")
	}
	f := remote.Answer(answer.Code, answer.Reason, answer.Message, err)
	switch answer.Code {
	case http.StatusNotFound:
		return s.failed(fmt.Errorf("%w: %s/%s", ErrMissing, s.namespace, name), adviceMissing)
	case http.StatusUnauthorized, http.StatusForbidden:
		return s.failed(fmt.Errorf("%w: %w", blob.ErrForbidden, f), adviceAccount)
	case http.StatusRequestEntityTooLarge:
		return s.failed(fmt.Errorf("%w: %w", blob.ErrTooLarge, f), "")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		f.Advice = remote.AdviceBusy
	}
	return s.failed(f, f.Advice)
}

func (s *Store) failed(err error, advice string) error {
	return &blob.Error{Op: "use", Object: "store " + s.String(), Err: err, Advice: advice}
}
