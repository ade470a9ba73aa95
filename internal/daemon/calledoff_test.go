package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// silentStore is the URL of a store that takes calls and answers none.
func silentStore(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	calls := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of a call is not seen before the end of its body
		select {
		case calls <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	return fmt.Sprintf("s3://bucket/c?endpoint=%s&region=r", s.URL), calls
}

// callOff has run called off once the store was asked, and returns what comes of it.
func callOff(t *testing.T, asked <-chan struct{}, cause error, run func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case <-asked:
	case err := <-ended:
		t.Fatalf("it ended by itself: %v", err)
	}
	cancel(cause)
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}

// What a daemon was killed beside is ended by a signal that the next one gets while it
// starts, too, unless that is to leave it.
func TestASignalDuringTheStartEndsEtcd(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		runs  bool
	}{
		"SIGINT":                   {nil, false},
		"SIGTERM that leaves etcd": {ErrLeaveEtcd, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, t.TempDir())
			url, asked := silentStore(t)
			cfg.BackupStore = url
			l := launchOf("3.5.35")
			keep(t, cfg.DataDir, record.State{Cluster: cfg.ClusterName, Local: cluster.LocalMember{State: cluster.MemberStarted}, Launch: &l})
			m := newMemberOf(t)
			m.state = filepath.Join(cfg.DataDir, "etcdadm")
			pid := m.leftRunning(l)
			defer end(pid)
			if err := callOff(t, asked, c.cause, func(ctx context.Context) error {
				return Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler))
			}); err != nil {
				t.Error(err)
			}
			if ended, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); (ended == 0) != c.runs {
				t.Errorf("etcd runs: %t, want %t", ended == 0, c.runs)
			}
		})
	}
}

// A host that has nothing that runs has nothing to say either.
func TestASignalDuringTheFirstStart(t *testing.T) {
	cfg := configOf(t, t.TempDir())
	url, asked := silentStore(t)
	cfg.BackupStore = url
	if err := callOff(t, asked, nil, func(ctx context.Context) error {
		return Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler))
	}); err != nil {
		t.Error(err)
	}
}
