package form

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// Three options on a cluster that serves: every member is restarted with them,
// one at a time, no write fails for good, and etcd's own defaults come back.
func TestOptions(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36})
	w, ends := c.Write(), c.Retrying()
	pids := c.Pids()

	set := []string{"set", "quota-backend-bytes=1GiB", "auto-compaction-retention=1h", "initial-corrupt-check=true"}
	dry := c.Config(c.Host(1), append(set, "--dry-run")...)
	if dry.Code != 0 || strings.Count(dry.Stdout, "\nrestart ") != 3 || !strings.Contains(dry.Stdout, "the smallest quota") || !strings.Contains(dry.Stdout, "handed raft's leadership over") {
		t.Fatalf("a dry run: %s", dry)
	}
	if !slices.Equal(pids, c.Pids()) {
		t.Fatal("a dry run restarted a member")
	}
	if r := c.Config(c.Host(1), append(set, "--wait", "2m")...); r.Code != 0 || !strings.Contains(r.Stdout, "every member runs with them") {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	want := []string{"--auto-compaction-retention=1h", "--feature-gates=InitialCorruptCheck=true", "--quota-backend-bytes=1073741824"}
	for i, h := range c.Hosts {
		args := h.EtcdArguments(t)
		for _, a := range want {
			if !slices.Contains(args, a) {
				t.Errorf("etcd of host %d runs without %s: %q", h.N, a, args)
			}
		}
		if h.EtcdPID() == pids[i] {
			t.Errorf("etcd of host %d was not restarted", h.N)
		}
	}
	if r := c.Config(c.Host(1), "get"); r.Stdout != "auto-compaction-retention=1h\ninitial-corrupt-check=true\nquota-backend-bytes=1GiB\n" {
		t.Errorf("get: %s", r)
	}
	if r := c.Config(c.Host(1), "unset", "quota-backend-bytes", "auto-compaction-retention", "initial-corrupt-check", "--wait", "2m"); r.Code != 0 {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	for _, h := range c.Hosts {
		if args := strings.Join(h.EtcdArguments(t), " "); strings.Contains(args, "quota") || strings.Contains(args, "compaction") || strings.Contains(args, "gates") {
			t.Errorf("etcd of host %d runs with %s", h.N, args)
		}
	}
	longest, again := ends()
	t.Logf("the longest write took %s with its retries, %d attempts failed; six restarts", longest.Round(time.Millisecond), again)
	if longest > 5*time.Second {
		t.Errorf("a write took %s", longest)
	}
	w.Check()
}

// A value that etcd refuses takes down one member, for seconds: its host gives
// it back what it had, the leader says so, and the others are not touched.
func TestRefusedOptions(t *testing.T) {
	rig.TakesLong(t, "25 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36})
	w := c.Write()
	if r := c.Config(c.Host(1), "set", "snapshot-count=5000", "--wait", "2m"); r.Code != 0 {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	pids := c.Pids()
	// The table cannot know which providers of tokens etcd has.
	r := c.Config(c.Host(1), "set", "auth-token=nonsense", "--wait", "2m")
	if r.Code == 0 || !strings.Contains(r.Stderr, "did not start with the etcd options") || strings.Contains(r.Stderr, "nonsense") {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	c.Blocked(c.Host(1), "refused: --auth-token", "etcdadm config unset")
	c.Voters(rig.Soon, 1, 2, 3)
	same := 0
	for i, h := range c.Hosts {
		if h.EtcdPID() == pids[i] {
			same++
		}
		if args := h.EtcdArguments(t); !slices.Contains(args, "--snapshot-count=5000") || slices.Contains(args, "--auth-token=nonsense") {
			t.Errorf("etcd of host %d runs with %q", h.N, args)
		}
	}
	if same != 2 {
		t.Errorf("%d of 3 members were left alone", same)
	}
	if r := c.Config(c.Host(1), "unset", "auth-token", "--wait", "1m"); r.Code != 0 {
		t.Errorf("%s\n%s", r, c.Logs())
	}
	w.Check()
}
