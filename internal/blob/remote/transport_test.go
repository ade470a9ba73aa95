package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Every wait of a transport has an end, which is no later than that of a silent connection.
func TestTune(t *testing.T) {
	for _, stall := range []time.Duration{0, -1, time.Second, Stall, time.Hour} {
		tuned := &http.Transport{}
		Tune(tuned, stall)
		if stall <= 0 {
			stall = Stall
		}
		if got, want := tuned.TLSHandshakeTimeout, min(10*time.Second, stall); got != want {
			t.Errorf("stall %v: a handshake has %v, want %v", stall, got, want)
		}
		if got, want := tuned.IdleConnTimeout, min(15*time.Second, stall/2); got != want {
			t.Errorf("stall %v: an unused connection is kept for %v, want %v", stall, got, want)
		}
		if tuned.MaxIdleConns != 4 || tuned.MaxIdleConnsPerHost != 4 || tuned.ExpectContinueTimeout != time.Second {
			t.Errorf("stall %v: %+v", stall, tuned)
		}
		if !tuned.DisableCompression || tuned.ForceAttemptHTTP2 || tuned.Protocols.HTTP2() || !tuned.Protocols.HTTP1() || tuned.Proxy == nil {
			t.Errorf("stall %v: %+v", stall, tuned)
		}
		if tuned.TLSClientConfig.MinVersion != tls.VersionTLS12 {
			t.Errorf("stall %v: TLS from %x on", stall, tuned.TLSClientConfig.MinVersion)
		}
	}
	kept := &tls.Config{ServerName: "kept"}
	tuned := &http.Transport{TLSClientConfig: kept}
	if Tune(tuned, 0); tuned.TLSClientConfig != kept || kept.MinVersion != tls.VersionTLS12 {
		t.Errorf("%+v", tuned.TLSClientConfig)
	}
}

// A connection on which no byte moves is cut, by whichever side it waits for; one that is written to gives the answer its time
// again.
func TestSteadyConn(t *testing.T) {
	const stall = 10 * time.Second
	for name, use := range map[string]func(*steadyConn) error{
		"read":  func(c *steadyConn) error { _, err := c.Read(make([]byte, 1)); return err },
		"write": func(c *steadyConn) error { _, err := c.Write([]byte("x")); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			defer far.Close()
			began := time.Now()
			err := use(&steadyConn{Conn: near, stall: stall})
			if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != stall {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			near.Close()
			if err := use(&steadyConn{Conn: near, stall: stall}); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s on a closed connection: %v", name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &steadyConn{Conn: near, stall: stall}
		answered := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			answered <- err
		}()
		for range 3 {
			time.Sleep(stall * 3 / 4)
			go io.ReadFull(far, make([]byte, 1))
			if _, err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(stall * 3 / 4)
		far.Write([]byte("y"))
		if err := <-answered; err != nil {
			t.Errorf("the answer came within its time after the last write: %v", err)
		}
	})
}

// The certificates of a file are trusted, and nothing is trusted silently where the file has none.
func TestTrust(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	dir := t.TempDir()
	good, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for file, data := range map[string][]byte{good: block, empty: []byte("none")} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	get := func(transport *http.Transport) error {
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	transport, err := Transport(0, good)
	if err != nil || get(transport) != nil {
		t.Errorf("with its certificate: %v, %v", err, get(transport))
	}
	bare := &http.Transport{}
	if err := Trust(bare, good); err != nil || get(bare) != nil || bare.TLSClientConfig.MinVersion != tls.VersionTLS12 {
		t.Errorf("with its certificate alone: %v, %+v", err, bare.TLSClientConfig)
	}
	both, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if both.AddCert(server.Certificate()); !bare.TLSClientConfig.RootCAs.Equal(both) {
		t.Error("it is not beside the system's")
	}
	if transport, err = Transport(0, ""); err != nil || Network(get(transport), "THIS").Advice != "name its CA bundle: THIS" {
		t.Errorf("without its certificate: %v", err)
	}
	if _, err := Transport(0, filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Transport(0, empty); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a file without one: %v", err)
	}
}

// What gave no answer may have been done, unless no connection came about; and what a broken server was asked, too.
func TestJudge(t *testing.T) {
	around := func(err error) error { return &url.Error{Op: "Put", URL: "https://store", Err: err} }
	for name, test := range map[string]struct {
		err  error
		want Verdict
	}{
		"no such name":       {around(&net.DNSError{Name: "store"}), Again},
		"not connected":      {around(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), Again},
		"reset":              {around(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), Unsure},
		"without an OpError": {around(io.EOF), Unsure},
		"a bare timeout":     {os.ErrDeadlineExceeded, Unsure},
		"cut off":            {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), Unsure},
		"of our own":         {errors.New("no such thing"), Final},
	} {
		if got := JudgeSilence(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for status, want := range map[int]Verdict{
		400: Final, 403: Final, 404: Final, 408: Unsure, 412: Final, 429: Unsure, 499: Final, 500: Unsure, 501: Final, 502: Unsure, 503: Unsure, 504: Unsure,
	} {
		if got := JudgeStatus(status); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}

// The context's end is in the error, whatever came with it, and in no other.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	if got := Ended(ctx, broken); got != broken { //nolint:errorlint // the very same
		t.Error(got)
	}
	cancel()
	if got := Ended(ctx, nil); got != nil {
		t.Error(got)
	}
	if got := Ended(ctx, broken); !errors.Is(got, broken) || !errors.Is(got, context.Canceled) {
		t.Error(got)
	}
	said := fmt.Errorf("%w: broken", context.Canceled)
	if got := Ended(ctx, said); got != said { //nolint:errorlint // the very same
		t.Error(got)
	}
	asked := 0
	if _, err := Try(ctx, JudgeSilence, func(context.Context) error { asked++; return nil }); !errors.Is(err, context.Canceled) || asked != 0 {
		t.Errorf("begun after the end: %v, %d", err, asked)
	}
}

// Each kind of trouble has words and advice of its own, on one line, and does not repeat a URL with a signature in it.
func TestNetwork(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 443}
	for words, err := range map[string]error{
		"did not answer in time":                               context.DeadlineExceeded,
		`the name "store" can not be resolved`:                 &net.DNSError{Name: "store"},
		"an authority that this host does not":                 x509.UnknownAuthorityError{},
		"for another host":                                     x509.HostnameError{Certificate: &x509.Certificate{}, Host: "store"},
		"certificate is not valid":                             x509.CertificateInvalidError{Reason: x509.Expired},
		"does not speak TLS":                                   tls.RecordHeaderError{},
		"does not speak TLS on":                                errors.New("http: server gave HTTP response to HTTPS client"),
		"nothing listens at the store's address 192.0.2.7:443": &net.OpError{Op: "dial", Addr: at, Err: syscall.ECONNREFUSED},
		"did not answer in time 192.0.2.7:443":                 &net.OpError{Op: "read", Addr: at, Err: os.ErrDeadlineExceeded},
		"the connection to the store failed: connection reset": &net.OpError{Op: "read", Addr: at, Err: syscall.ECONNRESET},
	} {
		err = &url.Error{Op: "Put", URL: "https://store/?sig=planted", Err: err}
		f := Network(err, "ca=FILE")
		if !strings.Contains(f.Error(), words) || f.Advice == "" || !errors.Is(f, err) {
			t.Errorf("%v: %q; %q, want %q", err, f, f.Advice, words)
		}
		if strings.Contains(f.Error()+f.Advice, "planted") || strings.Contains(f.Error(), "\n") {
			t.Errorf("%q; %q", f, f.Advice)
		}
	}
}

func TestAnswer(t *testing.T) {
	cause := errors.New("cause")
	for want, got := range map[string]*Failure{
		"the store answers 503":                                     Answer(503, "", "", cause),
		"the store answers 503 SlowDown":                            Answer(503, "SlowDown", "SlowDown", cause),
		"the store answers 503 Busy":                                Answer(503, "Busy", "", cause),
		"the store answers 503 SlowDown: take care":                 Answer(503, "SlowDown", " take\n care ", cause),
		"the store answers 400: " + strings.Repeat("x", 300):        Answer(400, "", strings.Repeat("x", 300), cause),
		"the store answers 400: " + strings.Repeat("x", 300) + "…":  Answer(400, "", strings.Repeat("x", 301), cause),
		"the store answers 400: " + strings.Repeat("x", 299) + "… ": Answer(400, "", strings.Repeat("x", 299)+"ä", cause),
	} {
		if got.Error() != strings.TrimSuffix(want, " ") || !errors.Is(got, cause) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
