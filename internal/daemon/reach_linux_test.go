package daemon

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// silentPort is an address that answers no connection: it listens, nobody accepts, and the
// kernel keeps no more of them than are there already.
func silentPort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(os.NewSyscallError("listen", err))
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*unix.SockaddrInet4).Port))
	dialer := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 10 {
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the port that nobody accepts at goes on answering")
	return ""
}

// A peer URL that is silent takes no time from the next one.
func TestReachTriesAllAtATime(t *testing.T) {
	t.Parallel()
	plain, secure := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	defer plain.Close()
	defer secure.Close()
	hung, err := net.Listen("tcp", "127.0.0.1:0") // its kernel accepts, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	closes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for c, err := closes.Accept(); err == nil; c, err = closes.Accept() {
			c.Close()
		}
	}()
	defer closes.Close()
	quiet, there := "http://"+silentPort(t), plain.URL
	for _, test := range []struct {
		urls          []string
		open, answers bool
	}{
		{[]string{quiet, there}, true, true},
		{[]string{there, quiet}, true, true},
		{[]string{quiet, quiet}, false, false},
		{[]string{secure.URL}, true, true},
		{[]string{"http://" + hung.Addr().String()}, true, false},
		{[]string{"https://" + hung.Addr().String()}, true, false},
		{[]string{"http://" + closes.Addr().String()}, true, true},
		{[]string{"https://" + closes.Addr().String()}, true, true},
		{nil, false, false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		began := time.Now()
		open, answers := reacher{}.Reach(ctx, test.urls)
		cancel()
		if took := time.Since(began); open != test.open || answers != test.answers || took > 5*time.Second {
			t.Errorf("%v: open %t, answers %t after %s, want %t and %t", test.urls, open, answers, took, test.open, test.answers)
		}
	}
}
