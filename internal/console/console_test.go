package console

import (
	"context"
	"errors"
	"net"
	"testing"

	"etcdadm.io/internal/manager"
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
