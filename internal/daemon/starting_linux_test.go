package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststill"
)

// pages asks the metrics port of a daemon.
type pages struct {
	t    *testing.T
	port int
}

// want asks until a page has this status and these words.
func (p pages) want(path string, status int, words ...string) {
	p.t.Helper()
	var last string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		code, body, err := p.get(path)
		last = fmt.Sprint(code, " ", body, err)
		has := err == nil && code == status
		for _, w := range words {
			has = has && strings.Contains(body, w)
		}
		if has {
			return
		}
	}
	p.t.Fatalf("%s: want %d with %q; the last answer is %s", path, status, words, last)
}

func (p pages) get(path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// A daemon that starts answers on its metrics port, with what it waits for, and gives the
// port back when it is called off.
func TestAStartThatWaitsAnswersProbes(t *testing.T) {
	cfg := configOf(t, t.TempDir())
	cfg.DataDir, cfg.MetricsPort = filepath.Join(teststill.Mount(t), "data"), testetcd.FreePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler)) }()

	p := pages{t, cfg.MetricsPort}
	waits := "starting: waiting for the lock of the data directory, at " + cfg.DataDir + ", since 2"
	p.want("/healthz", http.StatusOK, "ok, "+waits)
	p.want("/readyz", http.StatusServiceUnavailable, waits)
	p.want("/status", http.StatusServiceUnavailable, waits)
	p.want("/metrics", http.StatusOK, "etcdadm_starting 1", "go_goroutines")

	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the daemon does not end")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.MetricsPort)))
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	l.Close()
}

// Once it has started it says what it said before, also where the port was another
// program's to begin with; and a port that stays taken is told before anything is written.
func TestADaemonThatHasStartedAnswersProbes(t *testing.T) {
	cfg := configOf(t, t.TempDir())
	cfg.MetricsPort = testetcd.FreePort(t)
	other, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.MetricsPort)))
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), cfg, Program{}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "which --etcd-manager-metrics-port names, is in use by another program") {
		t.Errorf("with the port taken: %v", err)
	}
	other.Close()

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler)) }()
	p := pages{t, cfg.MetricsPort}
	p.want("/readyz", http.StatusOK, "ok")
	p.want("/metrics", http.StatusOK, `etcdadm_starting{cluster="c"} 0`, "etcdadm_leading")
	p.want("/status", http.StatusOK, `"cluster": "c"`)
	if _, body, err := p.get("/healthz"); err != nil || body != "ok\n" {
		t.Errorf("/healthz: %q, %v", body, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
