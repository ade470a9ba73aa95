package keycopy

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"etcdadm.io/cluster"
)

// callTimeout ends every call that is no page of keys.
const callTimeout = 10 * time.Second

// Errors that callers decide on.
var (
	// ErrSourceChanged: somebody wrote to the source, or a lease of version 3 ended,
	// while it was copied. Begin again with another target.
	ErrSourceChanged = errors.New("the source changed meanwhile")
	// ErrNotEmpty: the target holds keys or leases.
	ErrNotEmpty = errors.New("the target is not empty")
	// ErrDiffers: what was read back from the target is not what was read from
	// the source.
	ErrDiffers = errors.New("the target does not hold what the source does")
	// ErrNotPortable: a key has no place in the target.
	ErrNotPortable = errors.New("a key cannot be carried over")
	// ErrAuth: the etcd wants a credential, or another one.
	ErrAuth = errors.New("authentication required")
	// ErrUnsupported: there is no such way.
	ErrUnsupported = errors.New("not supported")
)

// API is a version of etcd's API.
type API int

// The APIs. The zero value is the one that the server's release is named after.
const (
	V2 API = 2
	V3 API = 3
)

// Endpoint says how an etcd is reached.
type Endpoint struct {
	// URLs are client URLs, http or https, of members of one cluster. The first
	// that answers is used for everything.
	URLs []string
	// TLS is used for https; nil: the system's roots.
	TLS *tls.Config
	// Dial, when not nil, connects in place of the URL's host and port, for
	// servers that listen on a socket of the file system.
	Dial func(ctx context.Context) (net.Conn, error)
	// Credential, when not nil, gives a user and a password that are shown with
	// every request. Both APIs want root's where authentication is on.
	Credential func(ctx context.Context) (user, password string, err error)
	// Hidden are paths of version 2 that it does not list, as far as the caller
	// knows them otherwise: each is read by its name. Nil: it is not known whether
	// there are any.
	Hidden []string
	// API is which one to use; zero: that of the server's release. Releases up to
	// 3.5 may serve both, with keys of their own each.
	API API
}

// web speaks HTTP to the one URL that was chosen.
type web struct {
	base     *url.URL
	client   *http.Client
	user     string
	password string
}

// side is one etcd of a copy.
type side interface {
	release() cluster.Version
	api() API
	// stand is where a source is, and since tells whether anything was done to it
	// after that.
	stand(ctx context.Context) (stand, error)
	since(ctx context.Context, was stand) (stand, error)
	// empty is nil or [ErrNotEmpty].
	empty(ctx context.Context) error
	// put writes keys with their leases, in one request or several; batch bounds
	// how many, and writers is how many puts make it busy.
	put(ctx context.Context, keys []pair, t *terms) error
	batch() (keys, bytes int)
	writers() int
	close()
}

// open finds the URL that answers, and which release it is.
func open(ctx context.Context, e Endpoint) (side, error) {
	w, version, err := reach(ctx, e)
	if err != nil {
		return nil, err
	}
	if e.Credential != nil {
		if w.user, w.password, err = e.Credential(ctx); err != nil {
			w.close()
			return nil, fmt.Errorf("%w: get credential: %w", ErrAuth, err)
		}
	}
	api := e.API
	api = cmp.Or(api, apiOf(version))
	switch api {
	case V2:
		return &v2{web: w, version: version, hidden: e.Hidden}, nil
	case V3:
		return openV3(ctx, e, w, version)
	}
	w.close()
	return nil, fmt.Errorf("%w: version %d of the API", ErrUnsupported, api)
}

func apiOf(v cluster.Version) API {
	if v.Major == 2 {
		return V2
	}
	return V3
}

// reach tries the URLs one after the other.
func reach(ctx context.Context, e Endpoint) (*web, cluster.Version, error) {
	failed := []error{errors.New("no client URL answers")}
	for _, raw := range e.URLs {
		u, err := url.Parse(raw)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, cluster.Version{}, fmt.Errorf("client URL %q: want http(s)://host:port", raw)
		}
		w := &web{base: u, client: &http.Client{Transport: transport(e)}}
		v, err := w.version(ctx)
		if err == nil {
			return w, v, nil
		}
		w.close()
		failed = append(failed, fmt.Errorf("%s: %w", raw, err))
	}
	return nil, cluster.Version{}, errors.Join(failed...)
}

// transport uses no proxy: etcd is never behind one.
func transport(e Endpoint) *http.Transport {
	t := &http.Transport{
		TLSClientConfig:     e.TLS.Clone(),
		MaxIdleConnsPerHost: 128,
		DisableCompression:  true,
	}
	if e.Dial != nil {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return e.Dial(ctx) }
	}
	return t
}

func (w *web) close() { w.client.CloseIdleConnections() }

func (w *web) version(ctx context.Context) (cluster.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := w.do(ctx, http.MethodGet, "/version", "", nil)
	if err != nil {
		return cluster.Version{}, err
	}
	defer reply.Body.Close()
	var said struct {
		Server string `json:"etcdserver"`
	}
	if err := json.NewDecoder(io.LimitReader(reply.Body, 1<<16)).Decode(&said); err != nil {
		return cluster.Version{}, fmt.Errorf("read its version: %w", err)
	}
	return cluster.ParseVersion(said.Server)
}

// do sends one request; a body is a form. Redirects are not followed: etcd
// answers with one only when it takes a path for another.
func (w *web) do(ctx context.Context, method, path, query string, form io.Reader) (*http.Response, error) {
	u := *w.base
	u.Path, u.RawQuery = path, query
	request, err := http.NewRequestWithContext(ctx, method, u.String(), form)
	if err != nil {
		return nil, err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if w.user != "" {
		request.SetBasicAuth(w.user, w.password)
	}
	return w.client.Transport.RoundTrip(request)
}
