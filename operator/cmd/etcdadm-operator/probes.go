package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// probes are what the kubelet asks, from before the wait for the API server until the end: /healthz always says yes, so that it does
// not end that wait; /readyz says no until the operator has read what there is.
type probes struct{ ready atomic.Bool }

// serve answers until it is stopped.
func (p *probes) serve(ctx context.Context, address string) (stop func(), err error) {
	if address == "" || address == "0" { // as --metrics-bind-address has it
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.ready.Load() {
			http.Error(w, "not ready: waiting for the API server", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	var done sync.WaitGroup
	done.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			ctrl.Log.Error(err, "probes are not answered any more")
		}
	})
	return func() {
		_ = server.Close() // nobody needs the answer
		done.Wait()
	}, nil
}

// Start implements manager.Runnable: a manager starts it once its cache is filled.
func (p *probes) Start(context.Context) error {
	p.ready.Store(true)
	return nil
}

// NeedLeaderElection has it started without the Lease, too: who waits for that is ready to work.
func (p *probes) NeedLeaderElection() bool { return false }

// runs has a manager run until a signal. One whose cache is not filled waits for that whatever the signal: it is left then, since it
// has neither a Lease nor a loop.
func (p *probes) runs(ctx context.Context, m ctrl.Manager) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if !p.ready.Load() {
		return nil
	}
	return <-ended
}
