package gs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	api "google.golang.org/api/transport"
	transport "google.golang.org/api/transport/http"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// envEmulator names a server for tests, as in every client of this service; nothing that authenticates is sent to it.
const envEmulator = "STORAGE_EMULATOR_HOST"

// Credentials are the variables that say who asks.
var Credentials = []string{"GOOGLE_APPLICATION_CREDENTIALS"}

// Options say how a store is used.
type Options = remote.Options

// config is what URL and environment say.
type config struct {
	endpoint *url.URL // nil: Google's
	// open: nothing that authenticates is sent; so it is over plain HTTP.
	open bool
	ca   string
	// key is a service account's, in JSON; empty: it is looked for.
	key string
}

// givenCredentials is the variable of a service account's key where all is given: the JSON itself.
const givenCredentials = "GOOGLE_CREDENTIALS"

// Check tells whether Open would understand the URL.
func Check(storeURL string, opts Options) error {
	place, err := opts.Parse(storeURL, "endpoint", "ca")
	if err == nil {
		_, err = configure(place, opts)
	}
	return err
}

// Open prepares a store by its URL, gs://bucket/folder. Nothing is sent yet, and it need not be closed.
//
// The URL's parameters are endpoint, for another address of the service (without credentials if it is http://), and ca, a file
// with more authorities to trust. STORAGE_EMULATOR_HOST names a server for tests. Credentials are found as by Google's other
// clients: GOOGLE_APPLICATION_CREDENTIALS, gcloud's, or the machine's service account.
func Open(ctx context.Context, storeURL string, opts Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	place, err := opts.Parse(storeURL, "endpoint", "ca")
	if err != nil {
		return nil, err
	}
	c, err := configure(place, opts)
	if err != nil {
		return nil, err
	}
	if opts.Stall <= 0 {
		opts.Stall = remote.Stall
	}
	base, err := opts.Transport(c.ca)
	if err != nil {
		return nil, untrusted(place, err)
	}
	s := &Store{Bucket: remote.Bucket{Place: place, URL: place.String()}, config: c, stall: opts.Stall, base: base}
	s.Driver = s
	return s, nil
}

func untrusted(place remote.Location, err error) error {
	return &blob.Error{Op: "open", Object: "store " + place.String(), Err: err, Advice: "name a file with PEM certificates"}
}

func configure(place remote.Location, opts Options) (config, error) {
	c := config{ca: place.Params["ca"]}
	if opts.Given != nil {
		c.key = opts.Getenv(givenCredentials)
	}
	raw := place.Params["endpoint"]
	if emulator := opts.Getenv(envEmulator); raw == "" && emulator != "" {
		if !strings.Contains(emulator, "://") {
			emulator = "http://" + emulator
		}
		raw, c.open = emulator, true
	}
	if raw != "" {
		u, err := remote.Endpoint(raw)
		if err != nil {
			return config{}, &blob.Error{Op: "open", Object: "store " + place.String(), Err: err, Advice: "write it like endpoint=https://storage.example.com"}
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/storage/v1/"
		}
		c.endpoint, c.open = u, c.open || u.Scheme == "http"
	}
	if _, err := opts.Transport(c.ca); err != nil {
		return config{}, untrusted(place, err)
	}
	if opts.Given != nil && c.key == "" && !c.open {
		return config{}, &blob.Error{Op: "open", Object: "store " + place.String(), Err: remote.ErrCredentials, Advice: adviceGiven}
	}
	return c, nil
}

// opening is a client that is made when it is first needed: looking for credentials can mean asking the machine's metadata
// service, which takes seconds where there is none, and no context ends it.
type opening struct {
	attempt singleflight.Group
	made    atomic.Pointer[client]
}

// client is one that was made.
type client struct {
	objects *storage.ObjectsService
	tokens  *tokens // nil: nothing authenticates
}

// objects waits for the client, and for a token that it then has at hand, until ctx ends; the attempt goes on, for the next call.
func (s *Store) objects(ctx context.Context) (*storage.ObjectsService, error) {
	c, err := s.opened(ctx)
	if err == nil && c.tokens != nil {
		_, err = c.tokens.get(ctx)
	}
	if err != nil {
		return nil, err
	}
	return c.objects, nil
}

func (s *Store) opened(ctx context.Context) (*client, error) {
	if c := s.client.made.Load(); c != nil {
		return c, nil
	}
	attempt := s.client.attempt.DoChan("", func() (any, error) {
		if c := s.client.made.Load(); c != nil {
			return c, nil // by an attempt that ended just now
		}
		objects, tokens, err := s.connect(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		c := &client{objects, tokens}
		s.client.made.Store(c)
		return c, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("look for credentials: %w", ctx.Err())
	case r := <-attempt:
		c, _ := r.Val.(*client)
		return c, r.Err
	}
}

func (s *Store) connect(ctx context.Context) (*storage.ObjectsService, *tokens, error) {
	var options []option.ClientOption
	if s.config.endpoint != nil {
		options = append(options, option.WithEndpoint(s.config.endpoint.String()))
	}
	carrier := http.RoundTripper(s.base)
	var given *tokens
	if !s.config.open {
		scopes := option.WithScopes(storage.DevstorageReadWriteScope)
		asks := []option.ClientOption{scopes}
		if s.config.key != "" {
			asks = append(asks, option.WithAuthCredentialsJSON(option.ServiceAccount, []byte(s.config.key)))
		}
		found, err := api.Creds(ctx, asks...)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", remote.ErrCredentials, err)
		}
		given = &tokens{source: found.TokenSource}
		found.TokenSource = given
		carrier, err = transport.NewTransport(ctx, carrier, scopes, option.WithCredentials(found), option.WithTelemetryDisabled())
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", remote.ErrCredentials, err)
		}
	}
	service, err := storage.NewService(ctx, append(options, option.WithHTTPClient(&http.Client{Transport: remote.Gate(carrier)}))...)
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	return service.Objects, given, nil
}
