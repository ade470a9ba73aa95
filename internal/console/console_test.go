package console

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
)

// Whoever stops waiting for a daemon that takes its time is not told that none answers.
func TestStoppedWaiting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Open(Access{Cluster: "c", Endpoints: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	_, err = c.Goal(ctx, manager.GoalRequest{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoDaemon) {
		t.Errorf("%v", err)
	}
}

// A daemon that stands still takes no other one's time, wherever it is named.
func TestADaemonThatStandsStillIsNotWaitedForAlone(t *testing.T) {
	still, open := newDaemon(t, "still"), make(chan struct{})
	still.report = func(ctx context.Context) { <-open } // and heeds nothing
	defer close(open)
	third := newDaemon(t, "third")
	c, err := Open(Access{Cluster: "c", Endpoints: []string{still.at, newDaemon(t, "second").at, third.at}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	began := time.Now()
	r, err := c.Status(ctx)
	if err != nil || r.Host != "second" || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %+v, %v", time.Since(began), r, err)
	}
	if third.asked.Load() {
		t.Error("one more was asked than was of use")
	}
}

// daemon answers as its host does.
type daemon struct {
	peer.Handler
	host   cluster.HostID
	at     string
	asked  atomic.Bool
	report func(context.Context)
}

func (d *daemon) Report(ctx context.Context, _ peer.Caller, _ json.RawMessage) (json.RawMessage, error) {
	d.asked.Store(true)
	if d.report != nil {
		d.report(ctx)
	}
	return json.Marshal(Report{Host: d.host})
}

func newDaemon(t *testing.T, host cluster.HostID) *daemon {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{host: host, at: l.Addr().String()}
	s, err := peer.NewServer(peer.ServerOptions{Cluster: "c", Host: host, Handler: d, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(ctx, l)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return d
}
