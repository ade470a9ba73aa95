package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"etcdadm.io/internal/history"
)

// observed are clients under whose eyes a test does what it does.
type observed struct {
	*history.Clients
	c *Cluster
}

// Observe has clients use the cluster, each through one host's member, until check or the end of the test.
func (c *Cluster) Observe(seed uint64) *observed {
	c.T.Helper()
	cfg := history.Config{Seed: seed, TLS: c.ClientTLS()}
	for _, h := range c.Hosts {
		cfg.Endpoints = append(cfg.Endpoints, h.ClientURL())
	}
	if c.Net != nil {
		cfg.Dial = c.Net.Dial
	}
	clients, err := history.Start(context.Background(), cfg)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() { // a test that has given up keeps what was seen
		if c.T.Failed() {
			clients.Stop()
			(&observed{clients, c}).keep(clients.Check())
		}
		clients.Stop()
	})
	return &observed{clients, c}
}

// Judge ends the clients, and holds what they saw against what etcd promises.
func (o *observed) Judge() history.Report {
	o.c.T.Helper()
	o.Stop()
	report := o.Check()
	o.c.T.Log(report)
	if err := report.Err(); err != nil {
		o.c.T.Error(err)
	}
	return report
}

// keep writes down what was seen, with the daemons' words.
func (o *observed) keep(report history.Report) {
	dir, err := os.MkdirTemp("", "etcdadm-history-")
	if err != nil {
		o.c.T.Error(err)
		return
	}
	var logs []history.Lane
	for _, h := range o.c.Hosts {
		logs = append(logs, history.Log(fmt.Sprintf("daemon of host %d", h.N), h.Log))
	}
	if err := report.Write(dir, logs...); err != nil {
		o.c.T.Error(err)
		return
	}
	o.c.T.Logf("see %s", filepath.Join(dir, history.TimelineFile))
}

// More waits for more operations to be answered.
func (o *observed) More(n int) {
	o.c.T.Helper()
	from, _ := o.Counts()
	Eventually(o.c.T, Soon, fmt.Sprintf("%d more operations answered", n), func(context.Context) error {
		if now, _ := o.Counts(); now < from+n {
			return fmt.Errorf("%d were", now-from)
		}
		return nil
	})
}

// Killings kills a daemon or a member at n random moments, one host at a time, and starts it again. It returns what waits for
// the last of them. More than a few in a row, and what waits for five quiet seconds would wait for ever.
func (o *observed) Killings(random *rand.Rand, n int) (wait func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range n {
			time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond) // the schedule's, not a wait for anything
			o.Kill(o.c.Hosts[random.IntN(len(o.c.Hosts))], random)
		}
	}()
	o.c.T.Cleanup(func() { <-ended }) // also of a test that gives up
	return func() { <-ended }
}

// Kill kills a daemon and starts it again after a while, or a member, which its daemon starts again.
func (o *observed) Kill(h *Host, random *rand.Rand) {
	away := time.Duration(random.IntN(3000)) * time.Millisecond
	if random.IntN(2) == 0 {
		healed := o.Fault(fmt.Sprintf("kill the daemon of host %d", h.N))
		h.Kill()
		time.Sleep(away) // as above
		h.Start()
		healed()
		return
	}
	pids := h.EtcdPIDs()
	if len(pids) != 1 { // it is being restarted
		return
	}
	healed := o.Fault(fmt.Sprintf("kill etcd of host %d", h.N))
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		o.c.T.Error(err)
	}
	h.Serves(Disturbed)
	healed()
}
