package remote

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestProxyIsNamed: a proxy that is away is not taken for the store, and the
// password in its URL is not repeated.
func TestProxyIsNamed(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	transport, err := Transport(0, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &url.URL{Scheme: "http", User: url.UserPassword("user", "planted"), Host: gone.Addr().String()}
	transport.Proxy = func(*http.Request) (*url.URL, error) { return proxy, nil }
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://store.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err == nil {
		answer.Body.Close()
		t.Fatal("it was answered")
	}
	f := Network(err, "ca=FILE")
	if !strings.Contains(f.Words, "through the proxy") || !strings.Contains(f.Words, "nothing listens") || !strings.Contains(f.Advice, "HTTPS_PROXY") {
		t.Errorf("%s; %s", f.Words, f.Advice)
	}
	if strings.Contains(f.Words+f.Advice, "planted") {
		t.Errorf("it shows the proxy's password: %s", f.Words)
	}
}
