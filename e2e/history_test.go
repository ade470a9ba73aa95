package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/history"
)

var seed = flag.Uint64("e2e.seed", 9, "what is random in the tests of random paths; 0: chosen, and printed")

// chosenSeed is the seed that was asked for, or any.
func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64N(1_000_000)
	}
	t.Logf("again with: go test ./e2e -run '^%s$' -e2e.long -e2e.seed=%d", t.Name(), chosen)
	return chosen
}

// observed are clients under whose eyes a test does what it does.
type observed struct {
	*history.Clients
	c *testCluster
}

// observe has clients use the cluster, each through one host's member, until check or the end of the test.
func (c *testCluster) observe(seed uint64) *observed {
	c.t.Helper()
	cfg := history.Config{Seed: seed, TLS: c.clientTLS()}
	for _, h := range c.hosts {
		cfg.Endpoints = append(cfg.Endpoints, h.clientURL())
	}
	if c.net != nil {
		cfg.Dial = c.net.dial
	}
	clients, err := history.Start(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { // a test that has given up keeps what was seen
		if c.t.Failed() {
			clients.Stop()
			(&observed{clients, c}).keep(clients.Check())
		}
		clients.Stop()
	})
	return &observed{clients, c}
}

// check ends the clients, and holds what they saw against what etcd promises.
func (o *observed) check() history.Report {
	o.c.t.Helper()
	o.Stop()
	report := o.Check()
	o.c.t.Log(report)
	if err := report.Err(); err != nil {
		o.c.t.Error(err)
	}
	return report
}

// keep writes down what was seen, with the daemons' words.
func (o *observed) keep(report history.Report) {
	dir, err := os.MkdirTemp("", "etcdadm-history-")
	if err != nil {
		o.c.t.Error(err)
		return
	}
	var logs []history.Lane
	for _, h := range o.c.hosts {
		logs = append(logs, history.Log(fmt.Sprintf("daemon of host %d", h.n), h.log))
	}
	if err := report.Write(dir, logs...); err != nil {
		o.c.t.Error(err)
		return
	}
	o.c.t.Logf("see %s", filepath.Join(dir, history.TimelineFile))
}

// more waits for more operations to be answered.
func (o *observed) more(n int) {
	o.c.t.Helper()
	from, _ := o.Counts()
	eventually(o.c.t, soon, fmt.Sprintf("%d more operations answered", n), func(context.Context) error {
		if now, _ := o.Counts(); now < from+n {
			return fmt.Errorf("%d were", now-from)
		}
		return nil
	})
}

// killings kills a daemon or a member at n random moments, one host at a time, and starts it again. It returns what waits for
// the last of them. More than a few in a row, and what waits for five quiet seconds would wait for ever.
func (o *observed) killings(random *rand.Rand, n int) (wait func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range n {
			time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond) // the schedule's, not a wait for anything
			o.kill(o.c.hosts[random.IntN(len(o.c.hosts))], random)
		}
	}()
	o.c.t.Cleanup(func() { <-ended }) // also of a test that gives up
	return func() { <-ended }
}

// kill kills a daemon and starts it again after a while, or a member, which its daemon starts again.
func (o *observed) kill(h *host, random *rand.Rand) {
	away := time.Duration(random.IntN(3000)) * time.Millisecond
	if random.IntN(2) == 0 {
		healed := o.Fault(fmt.Sprintf("kill the daemon of host %d", h.n))
		h.kill()
		time.Sleep(away) // as above
		h.start()
		healed()
		return
	}
	pids := h.etcdPIDs()
	if len(pids) != 1 { // it is being restarted
		return
	}
	healed := o.Fault(fmt.Sprintf("kill etcd of host %d", h.n))
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		o.c.t.Error(err)
	}
	h.serves(disturbed)
	healed()
}
