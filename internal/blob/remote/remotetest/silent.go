package remotetest

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
)

// silent is a server that takes connections and requests, and never says a word.
type silent struct {
	net.Listener
	mu    sync.Mutex // guards what follows
	conns []net.Conn
}

func (s *silent) take() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
	}
}

func (s *silent) end() {
	s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

// EndsWithoutCredentials sees that a call whose credentials come from a service that does not answer ends with its context, also
// beside another call that has more time. The function opens a store whose credentials are to come from the URL.
func EndsWithoutCredentials(t *testing.T, open func(credentials string) blob.Store) {
	t.Helper()
	const bound, grace = time.Second, 8 * time.Second
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	s := &silent{Listener: l}
	go s.take()
	store := open("http://" + l.Addr().String())
	patient, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	get := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := store.Get(ctx, "k", blob.GetOptions{})
			ended <- err
		}()
		return ended
	}
	beside := get(patient)
	time.Sleep(200 * time.Millisecond) // until it asks
	for range 2 {
		ctx, done := context.WithTimeout(t.Context(), bound)
		select {
		case err := <-get(ctx):
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(bound + grace):
			t.Errorf("it goes on %s after its end", grace)
		}
		done()
	}
	cancel()
	s.end()
	if err := <-beside; err == nil {
		t.Error("what was called off says that it was done")
	}
	// What an SDK does beside the calls it ends by itself.
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
}
