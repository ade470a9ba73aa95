package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// report asks the daemons, through the one of a host.
func (c *testCluster) report(ctx context.Context, h *host) (console.Report, error) {
	if c.net != nil {
		return c.reportByTool(ctx, h)
	}
	a, err := console.ReadAccess(h.dir)
	if err != nil {
		return console.Report{}, err
	}
	k, err := console.Open(a)
	if err != nil {
		return console.Report{}, err
	}
	defer k.Close()
	return k.Status(ctx)
}

// reportByTool is report for hosts that this process cannot dial.
func (c *testCluster) reportByTool(ctx context.Context, h *host) (console.Report, error) {
	var report console.Report
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "etcdadm"), "status", "-o", "json", "--data-dir", h.dir)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := c.runHere(cmd); err != nil {
		return report, fmt.Errorf("etcdadm status: %w: %s", err, stderr.String())
	}
	return report, json.Unmarshal(stdout.Bytes(), &report)
}

// leader waits until a daemon other than the excluded ones leads and answers,
// as seen by a host, and returns its host.
func (c *testCluster) leader(within time.Duration, seenBy *host, except ...*host) *host {
	c.t.Helper()
	var led *host
	eventually(c.t, within, "a daemon that leads", func(ctx context.Context) error {
		r, err := c.report(ctx, seenBy)
		if err != nil {
			return err
		}
		if !r.Leading || r.Observation == nil {
			return fmt.Errorf("host %s answers and does not lead, it believes in %q", r.Host, r.Leader)
		}
		for _, h := range c.hosts {
			if h.endpoint() == r.LeaderEndpoint && !slices.Contains(except, h) {
				led = h
				return nil
			}
		}
		return fmt.Errorf("the daemon at %q leads", r.LeaderEndpoint)
	})
	return led
}

// agree waits until all daemons follow one.
func (c *testCluster) agree() *host {
	c.t.Helper()
	var led *host
	eventually(c.t, soon, "one daemon leads them all", func(ctx context.Context) error {
		led = nil
		for _, h := range c.hosts {
			r, err := c.report(ctx, h)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(c.hosts, func(x *host) bool { return x.endpoint() == r.LeaderEndpoint })
			if !r.Leading || at < 0 || led != nil && led != c.hosts[at] {
				return fmt.Errorf("host %d follows %q", h.n, r.LeaderEndpoint)
			}
			led = c.hosts[at]
		}
		return nil
	})
	return led
}

// said waits for words in the log of any of the daemons: the one that leads.
func (c *testCluster) said(within time.Duration, words string) {
	c.t.Helper()
	eventually(c.t, within, fmt.Sprintf("a daemon says %q", words), func(context.Context) error {
		for _, h := range c.hosts {
			if data, err := os.ReadFile(h.log); err == nil && strings.Contains(string(data), words) {
				return nil
			}
		}
		return errors.New("not in any log")
	})
}

// blocked waits until the leading daemon says all the words in one blocker.
func (c *testCluster) blocked(seenBy *host, words ...string) {
	c.t.Helper()
	eventually(c.t, soon, fmt.Sprintf("a blocker with %q", words), func(ctx context.Context) error {
		r, err := c.report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Decision == nil {
			return errors.New("there is no decision")
		}
		for _, b := range r.Decision.Blockers {
			said, all := b.Sentence+" "+b.Command, true
			for _, w := range words {
				all = all && strings.Contains(said, w)
			}
			if all {
				return nil
			}
		}
		return fmt.Errorf("the decision is %+v", r.Decision)
	})
}

// gap waits until the leading daemon says that it cannot see something.
func (c *testCluster) gap(seenBy *host, kind cluster.GapKind) {
	c.t.Helper()
	eventually(c.t, soon, fmt.Sprintf("a gap of kind %s", kind), func(ctx context.Context) error {
		r, err := c.report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Observation == nil || !slices.ContainsFunc(r.Observation.Gaps, func(g cluster.Gap) bool { return g.Kind == kind }) {
			return fmt.Errorf("the observation is %+v", r.Observation)
		}
		return nil
	})
}
