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
	"etcdadm.io/internal/testlater"
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

// A hung daemon takes no other one's time, wherever it is named.
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

// A person whose etcdadm is older than the daemons is told that, and neither that none answers nor
// the little that another daemon knows; and no host that answers so is taken for one that is lost.
func TestAnswerOfALaterRelease(t *testing.T) {
	later := newDaemon(t, "later")
	later.says = testlater.Forms(t, Report{Host: "later", Leading: true, Observation: &cluster.Observation{Store: cluster.StoreView{Intent: &cluster.Intent{Generation: 1}}}}, "/intent/")["/observation/store/intent"]
	follows := newDaemon(t, "follows")
	var err error
	if follows.says, err = json.Marshal(Report{Host: "follows", Leader: "later", LeaderEndpoint: later.at}); err != nil {
		t.Fatal(err)
	}
	for name, endpoints := range map[string][]string{"asked": {later.at}, "asked first": {later.at, follows.at}, "asked as the leader": {follows.at}} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(Access{Cluster: "c", Endpoints: endpoints})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := c.Status(t.Context())
			newer, ok := errors.AsType[*cluster.NewerError](err)
			if !ok || newer.Hint() == "" || errors.Is(err, ErrNoDaemon) || r.Host != "" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	later.says = testlater.Forms(t, cluster.LogEnd{Host: "later", Intent: &cluster.Intent{Generation: 1}}, "/intent/")["/intent"]
	c, err := Open(Access{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.LogEnd(t.Context(), cluster.Contact{Host: "later", Endpoint: later.at}); !peer.IsThere(err) || !errors.As(err, new(*cluster.NewerError)) {
		t.Errorf("the end of its log: %v", err)
	}
}

// daemon answers as its host does.
type daemon struct {
	peer.Handler
	host   cluster.HostID
	at     string
	asked  atomic.Bool
	report func(context.Context)
	says   json.RawMessage // nil: who it is
}

func (d *daemon) Report(ctx context.Context, _ peer.Caller, _ json.RawMessage) (json.RawMessage, error) {
	d.asked.Store(true)
	if d.report != nil {
		d.report(ctx)
	}
	if d.says != nil {
		return d.says, nil
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
