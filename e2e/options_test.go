package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// config runs etcdadm config through a host's daemon.
func (c *testCluster) config(h *host, words ...string) result {
	c.t.Helper()
	return c.etcdadm(slices.Concat([]string{"config"}, words, []string{"--data-dir", h.dir})...)
}

// arguments are those of the etcd that runs on a host, by /proc.
func (h *host) etcdArguments(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.etcdPID()), "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// retrying writes one key after the other, each again and again until it is
// acknowledged, and gives the longest that one of them took.
func (c *testCluster) retrying() (stop func() (longest time.Duration, again int64)) {
	var worst, failed atomic.Int64
	end := c.during(func(ctx context.Context, client *clientv3.Client) {
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			for ctx.Err() == nil {
				attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				_, err := client.Put(attempt, fmt.Sprintf("retried/%06d", n), "x")
				cancel()
				if err == nil {
					break
				}
				if ctx.Err() == nil {
					failed.Add(1)
				}
			}
			worst.Store(max(worst.Load(), int64(time.Since(began))))
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() (time.Duration, int64) {
		end()
		return time.Duration(worst.Load()), failed.Load()
	}
}

// Three options on a cluster that serves: every member is restarted with them,
// one at a time, no write fails for good, and etcd's own defaults come back.
func TestOptions(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{version: testetcd.V36})
	w, ends := c.write(), c.retrying()
	pids := c.pids()

	set := []string{"set", "quota-backend-bytes=1GiB", "auto-compaction-retention=1h", "initial-corrupt-check=true"}
	dry := c.config(c.host(1), append(set, "--dry-run")...)
	if dry.code != 0 || strings.Count(dry.stdout, "\nrestart ") != 3 || !strings.Contains(dry.stdout, "the smallest quota") || !strings.Contains(dry.stdout, "handed raft's leadership over") {
		t.Fatalf("a dry run: %s", dry)
	}
	if !slices.Equal(pids, c.pids()) {
		t.Fatal("a dry run restarted a member")
	}
	if r := c.config(c.host(1), append(set, "--wait", "2m")...); r.code != 0 || !strings.Contains(r.stdout, "every member runs with them") {
		t.Fatalf("%s\n%s", r, c.logs())
	}
	want := []string{"--auto-compaction-retention=1h", "--feature-gates=InitialCorruptCheck=true", "--quota-backend-bytes=1073741824"}
	for i, h := range c.hosts {
		args := h.etcdArguments(t)
		for _, a := range want {
			if !slices.Contains(args, a) {
				t.Errorf("etcd of host %d runs without %s: %q", h.n, a, args)
			}
		}
		if h.etcdPID() == pids[i] {
			t.Errorf("etcd of host %d was not restarted", h.n)
		}
	}
	if r := c.config(c.host(1), "get"); r.stdout != "auto-compaction-retention=1h\ninitial-corrupt-check=true\nquota-backend-bytes=1GiB\n" {
		t.Errorf("get: %s", r)
	}
	if r := c.config(c.host(1), "unset", "quota-backend-bytes", "auto-compaction-retention", "initial-corrupt-check", "--wait", "2m"); r.code != 0 {
		t.Fatalf("%s\n%s", r, c.logs())
	}
	for _, h := range c.hosts {
		if args := strings.Join(h.etcdArguments(t), " "); strings.Contains(args, "quota") || strings.Contains(args, "compaction") || strings.Contains(args, "gates") {
			t.Errorf("etcd of host %d runs with %s", h.n, args)
		}
	}
	longest, again := ends()
	t.Logf("the longest write took %s with its retries, %d attempts failed; six restarts", longest.Round(time.Millisecond), again)
	if longest > 5*time.Second {
		t.Errorf("a write took %s", longest)
	}
	w.check()
}

// A value that etcd refuses takes down one member, for seconds: its host gives
// it back what it had, the leader says so, and the others are not touched.
func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{version: testetcd.V36})
	w := c.write()
	if r := c.config(c.host(1), "set", "snapshot-count=5000", "--wait", "2m"); r.code != 0 {
		t.Fatalf("%s\n%s", r, c.logs())
	}
	pids := c.pids()
	// The table cannot know which providers of tokens etcd has.
	r := c.config(c.host(1), "set", "auth-token=nonsense", "--wait", "2m")
	if r.code == 0 || !strings.Contains(r.stderr, "did not start with the etcd options") || strings.Contains(r.stderr, "nonsense") {
		t.Fatalf("%s\n%s", r, c.logs())
	}
	c.blocked(c.host(1), "refused: --auth-token", "etcdadm config unset")
	c.voters(soon, 1, 2, 3)
	same := 0
	for i, h := range c.hosts {
		if h.etcdPID() == pids[i] {
			same++
		}
		if args := h.etcdArguments(t); !slices.Contains(args, "--snapshot-count=5000") || slices.Contains(args, "--auth-token=nonsense") {
			t.Errorf("etcd of host %d runs with %q", h.n, args)
		}
	}
	if same != 2 {
		t.Errorf("%d of 3 members were left alone", same)
	}
	if r := c.config(c.host(1), "unset", "auth-token", "--wait", "1m"); r.code != 0 {
		t.Errorf("%s\n%s", r, c.logs())
	}
	w.check()
}
