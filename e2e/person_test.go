package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

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
		if r := member("remove", one, "--hold"); r.code != cli.ExitUnsafe {
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

// A learner that a person wanted, and that did not catch up in the person's time,
// stays a learner while the spec is on hold: nobody promotes it but a person.
func TestPersonPromotes(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{hosts: 4})
	w := c.write()
	c.start(4)
	c.leader(soon, c.host(4))
	four := string(c.host(4).id())
	member := func(words ...string) result {
		t.Helper()
		return c.etcdadm(append([]string{"member", "--data-dir", c.host(1).dir}, words...)...)
	}
	added := make(chan result, 1)
	go func() {
		added <- c.etcdadm("member", "add", four, "--hold", "--timeout=6s", "--data-dir", c.host(1).dir)
	}()
	learner := c.stopsAsLearner(c.host(4))
	if r := <-added; r.code == cli.ExitOK {
		t.Fatalf("a host whose etcd stands still is a voter: %s", r)
	}
	if r := member("promote", four, "--timeout=5s"); r.code != cli.ExitUnsafe || !strings.Contains(r.stdout+r.stderr, "not up") {
		t.Errorf("a learner that does not answer: %s", r)
	}
	if err := continueProcess(c.host(4).etcdPID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a dry run that finds the learner ready", func(context.Context) error {
		if r := member("promote", four, "--dry-run"); r.code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	w.waitFor(100)
	list, err := c.etcd().MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == learner && m.IsLearner }) {
		t.Errorf("without a person learner %x became a voter, or nothing: %v", learner, list.Members)
	}
	// By its member's ID, as member list prints it; the other way is the host's.
	if r := member("promote", fmt.Sprintf("%x", learner)); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.voters(soon, 1, 2, 3, 4)
	if r := member("move-leader", fmt.Sprintf("%x", learner)); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	if now := c.raftLeader(1, 2, 3, 4); now.n != 4 {
		t.Errorf("host %d leads raft, want host 4", now.n)
	}
	w.check()
}

// stopsAsLearner waits for the first etcd of a host and has it stand still
// before it has caught up, and returns the learner that it is.
func (c *testCluster) stopsAsLearner(h *host) uint64 {
	c.t.Helper()
	for deadline := time.Now().Add(soon); h.etcdPID() == 0; time.Sleep(2 * time.Millisecond) { // it would be a voter soon
		if time.Now().After(deadline) {
			c.t.Fatalf("host %d runs no etcd", h.n)
		}
	}
	if err := stopProcess(h.etcdPID()); err != nil {
		c.t.Fatal(err)
	}
	list, err := c.etcd().MemberList(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	at := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.IsLearner })
	if at < 0 {
		c.t.Fatalf("there is no learner: %v", list.Members)
	}
	return list.Members[at].ID
}

// Nobody who answers: one sentence, a hint, an exit code.
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
