package remote

import (
	"context"
	"io"
	"net/http"

	"etcdadm.io/internal/blob"
)

// Gate asks before each request that writes whether it may still be sent (see blob.While), and asks again each time that a part of its
// body is handed on: a connection may have to be made in between, and a process may be stopped anywhere. A server
// writes nothing of a body that does not come to its end.
func Gate(carrier http.RoundTripper) http.RoundTripper { return gated{carrier} }

type gated struct{ carrier http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return g.carrier.RoundTrip(r)
	}
	ctx := r.Context()
	if err := blob.Still(ctx); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as every RoundTripper does; what it says changes nothing
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return g.carrier.RoundTrip(r)
	}
	out := r.Clone(ctx)
	out.Body = gatedBody{ctx, r.Body}
	if again := r.GetBody; again != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return gatedBody{ctx, body}, nil
		}
	}
	return g.carrier.RoundTrip(out)
}

type gatedBody struct {
	ctx context.Context
	io.ReadCloser
}

// Read implements io.Reader.
func (b gatedBody) Read(p []byte) (int, error) {
	if err := blob.Still(b.ctx); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
