package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
)

// Report asks the daemons, through the one of a host.
func (c *Cluster) Report(ctx context.Context, h *Host) (console.Report, error) {
	if c.Net != nil {
		return c.reportByTool(ctx, h)
	}
	a, err := console.ReadAccess(h.Dir)
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
func (c *Cluster) reportByTool(ctx context.Context, h *Host) (console.Report, error) {
	var report console.Report
	cmd := exec.CommandContext(ctx, filepath.Join(Programs, "etcdadm"), "status", "-o", "json", "--data-dir", h.Dir)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A cluster that is not well is told of all the same, with an exit code of its own.
	if err := c.RunHere(cmd); err != nil && !slices.Contains([]int{cli.ExitNotLeader, cli.ExitDegraded, cli.ExitNoQuorum}, exitOf(err)) {
		return report, fmt.Errorf("etcdadm status: %w: %s", err, stderr.String())
	}
	return report, duration.FromJSON(stdout.Bytes(), &report)
}

// exitOf is a program's exit code; -1: there is none.
func exitOf(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// Leader waits until a daemon other than the excluded ones leads and answers,
// as seen by a host, and returns its host.
func (c *Cluster) Leader(within time.Duration, seenBy *Host, except ...*Host) *Host {
	c.T.Helper()
	var led *Host
	Eventually(c.T, within, "a daemon that leads", func(ctx context.Context) error {
		r, err := c.Report(ctx, seenBy)
		if err != nil {
			return err
		}
		if !r.Leading || r.Observation == nil {
			return fmt.Errorf("host %s answers and does not lead, it believes in %q", r.Host, r.Leader)
		}
		for _, h := range c.Hosts {
			if h.Endpoint() == r.LeaderEndpoint && !slices.Contains(except, h) {
				led = h
				return nil
			}
		}
		return fmt.Errorf("the daemon at %q leads", r.LeaderEndpoint)
	})
	return led
}

// Agree waits until all daemons follow one.
func (c *Cluster) Agree() *Host {
	c.T.Helper()
	var led *Host
	Eventually(c.T, Soon, "one daemon leads them all", func(ctx context.Context) error {
		led = nil
		for _, h := range c.Hosts {
			r, err := c.Report(ctx, h)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(c.Hosts, func(x *Host) bool { return x.Endpoint() == r.LeaderEndpoint })
			if !r.Leading || at < 0 || led != nil && led != c.Hosts[at] {
				return fmt.Errorf("host %d follows %q", h.N, r.LeaderEndpoint)
			}
			led = c.Hosts[at]
		}
		return nil
	})
	return led
}

// Said waits for words in the log of any of the daemons: the one that leads.
func (c *Cluster) Said(within time.Duration, words string) {
	c.T.Helper()
	Eventually(c.T, within, fmt.Sprintf("a daemon says %q", words), func(context.Context) error {
		for _, h := range c.Hosts {
			if data, err := os.ReadFile(h.Log); err == nil && strings.Contains(string(data), words) {
				return nil
			}
		}
		return errors.New("not in any log")
	})
}

// Blocked waits until the leading daemon says all the words in one blocker.
func (c *Cluster) Blocked(seenBy *Host, words ...string) {
	c.T.Helper()
	Eventually(c.T, Soon, fmt.Sprintf("a blocker with %q", words), func(ctx context.Context) error {
		r, err := c.Report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Decision == nil {
			return errors.New("there is no decision")
		}
		for _, b := range r.Decision.Blockers {
			said, all := b.Sentence.String()+" "+b.Remedy(), true
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

// Gap waits until the leading daemon says that it cannot see something.
func (c *Cluster) Gap(seenBy *Host, kind cluster.GapKind) {
	c.T.Helper()
	Eventually(c.T, Soon, fmt.Sprintf("a gap of kind %s", kind), func(ctx context.Context) error {
		r, err := c.Report(ctx, seenBy)
		if err != nil {
			return err
		}
		if r.Observation == nil || !slices.ContainsFunc(r.Observation.Gaps, func(g cluster.Gap) bool { return g.Kind == kind }) {
			return fmt.Errorf("the observation is %+v", r.Observation)
		}
		return nil
	})
}
