package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
)

// A person's steps go through the leading daemon: what fits the spec is done,
// what is against it is refused with the line that changes the spec, or put on
// hold with --hold; --dry-run changes nothing.
func TestPersonsSteps(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{hosts: 4})
	w := c.write()
	c.start(4)
	c.leader(soon, c.host(4))
	at := []string{"--data-dir", c.host(1).dir}
	member := func(words ...string) result {
		t.Helper()
		return c.etcdadm(append(append([]string{"member"}, words...), at...)...)
	}
	four, one := string(c.host(4).id()), string(c.host(1).id())

	t.Run("dry runs", func(t *testing.T) {
		for _, words := range [][]string{{"add", four, "--hold"}, {"remove", one, "--hold"}, {"move-leader", one}} {
			if r := member(append(words, "--dry-run")...); r.code != cli.ExitOK {
				t.Errorf("%s", r)
			}
		}
		c.voters(soon, 1, 2, 3)
	})
	t.Run("against the spec", func(t *testing.T) {
		for _, words := range [][]string{{"add", four}, {"remove", one, "--yes"}} {
			r := member(words...)
			if r.code != cli.ExitUnsafe || !strings.Contains(r.stdout+r.stderr, "etcdadm seed") || !strings.Contains(r.stdout+r.stderr, "--hold") {
				t.Errorf("a step against the spec is not refused with both ways out: %s", r)
			}
		}
		c.voters(soon, 1, 2, 3)
	})
	t.Run("a refusal holds nothing", func(t *testing.T) {
		if r := member("add", "nobody", "--hold"); r.code != cli.ExitUnsafe {
			t.Errorf("%s", r)
		}
		if r := c.etcdadm("status", "--data-dir", c.host(1).dir); strings.Contains(r.stdout, "on hold") {
			t.Errorf("a refused step leaves the spec on hold: %s", r)
		}
	})
	t.Run("not confirmed", func(t *testing.T) {
		if r := member("remove", one, "--hold"); r.code != cli.ExitUsage {
			t.Errorf("a removal that nobody confirms: %s", r)
		}
		c.voters(soon, 1, 2, 3)
	})
	t.Run("move leader", func(t *testing.T) {
		leader := c.raftLeader(1, 2, 3)
		to := c.host(without(3, leader)[1])
		if r := member("move-leader", string(to.id())); r.code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		if now := c.raftLeader(1, 2, 3); now != to {
			t.Errorf("host %d leads raft, want host %d", now.n, to.n)
		}
	})
	t.Run("hold", func(t *testing.T) {
		if r := member("add", four, "--hold"); r.code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.voters(soon, 1, 2, 3, 4)
		if r := c.etcdadm("status", "--data-dir", c.host(1).dir); !strings.Contains(r.stdout, "on hold") {
			t.Errorf("status does not say that the spec is on hold: %s", r)
		}
		if r := member("remove", one, "--hold", "--yes"); r.code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.voters(soon, 2, 3, 4)
		c.free(soon, c.host(1), c.host(2))
	})
	t.Run("nonsense", func(t *testing.T) {
		for _, words := range [][]string{{"add", "nobody"}, {"remove", "nobody", "--yes"}, {"promote", "nobody"}, {"move-leader", "nobody"}, {"promote", string(c.host(2).id())}, {"move-leader", one}} {
			began := time.Now()
			r := member(append(words, "--timeout=5s")...)
			if words[0] == "promote" && words[1] != "nobody" {
				continue // a voter is one already; whatever it says
			}
			if r.code == cli.ExitOK {
				t.Errorf("nonsense succeeds: %s", r)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s: %s", took, r)
			}
		}
		c.voters(soon, 2, 3, 4)
	})
	w.check()
}

// A learner that a person added by etcdctl can be promoted by a person too.
func TestPersonTalksToNoCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	for _, words := range []string{"status", "plan", "member list", "member add x", "member remove x --yes"} {
		r := c.etcdadm(append(strings.Fields(words), "--data-dir", c.host(1).dir)...)
		if r.code != cli.ExitNoCluster || !strings.Contains(r.stderr, "hint:") {
			t.Errorf("%s", r)
		}
		r = c.etcdadm(append(strings.Fields(words), "--endpoint", c.host(1).endpoint(), "--cluster-name", "test")...)
		if r.code != cli.ExitNoCluster || !strings.Contains(r.stderr, "hint:") {
			t.Errorf("%s", r)
		}
		if r := c.etcdadm(strings.Fields(words)...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "hint:") {
			t.Errorf("%s", r)
		}
	}
}

// What etcdadm seed writes is what etcd-manager-ctl writes.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	if err := os.MkdirAll(c.store, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := c.etcdadm("seed", c.storeURL(), "--version", "3.6.16", "--nodes", "3", "--dry-run"); r.code != 0 || exists(filepath.Join(c.store, "control")) {
		t.Errorf("a dry run: %s", r)
	}
	for i, words := range [][]string{{"--version", "3.6.16", "--nodes", "3"}, {"version=3.6.16", "nodes=1"}, {"--member-count=5"}} {
		want := []int{3, 1, 5}[i]
		if r := c.etcdadm(append([]string{"seed", c.storeURL()}, words...)...); r.code != 0 {
			t.Errorf("%s", r)
		}
		if r := c.ctl("--backup-store="+c.storeURL(), "get"); !strings.Contains(r.stdout, fmt.Sprintf("member_count:%d etcd_version:\"3.6.16\"\n", want)) {
			t.Errorf("%s", r)
		}
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands"); r.code != 0 {
		t.Errorf("%s", r)
	}
}
