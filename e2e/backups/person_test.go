package backups

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

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A person's steps go through the leading daemon: what fits the spec is done,
// what is against it is refused with the line that changes the spec, or put on
// hold with --hold; --dry-run changes nothing.
func TestPersonsSteps(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4})
	w := c.Write()
	c.Start(4)
	c.Leader(rig.Soon, c.Host(4))
	at := []string{"--data-dir", c.Host(1).Dir}
	member := func(words ...string) rig.Result {
		t.Helper()
		return c.Etcdadm(append(append([]string{"member"}, words...), at...)...)
	}
	four, one := string(c.Host(4).ID()), string(c.Host(1).ID())

	t.Run("dry runs", func(t *testing.T) {
		for _, words := range [][]string{{"add", four, "--hold"}, {"remove", one, "--hold"}, {"move-leader", one}} {
			if r := member(append(words, "--dry-run")...); r.Code != cli.ExitOK {
				t.Errorf("%s", r)
			}
		}
		c.Voters(rig.Soon, 1, 2, 3)
	})
	t.Run("against the spec", func(t *testing.T) {
		for wayOut, words := range map[string][]string{"etcdadm seed": {"add", four}, "etcdadm member replace " + one: {"remove", one, "--yes"}} {
			r := member(words...)
			if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout+r.Stderr, wayOut) || !strings.Contains(r.Stdout+r.Stderr, "--hold") {
				t.Errorf("a step against the spec is not refused with both ways out: %s", r)
			}
		}
		c.Voters(rig.Soon, 1, 2, 3)
	})
	t.Run("a refusal holds nothing", func(t *testing.T) {
		if r := member("add", "nobody", "--hold"); r.Code != cli.ExitUnsafe {
			t.Errorf("%s", r)
		}
		if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); strings.Contains(r.Stdout, "on hold") {
			t.Errorf("a refused step leaves the spec on hold: %s", r)
		}
	})
	t.Run("not confirmed", func(t *testing.T) {
		if r := member("remove", one, "--hold"); r.Code != cli.ExitUnsafe {
			t.Errorf("a removal that nobody confirms: %s", r)
		}
		c.Voters(rig.Soon, 1, 2, 3)
	})
	t.Run("move leader", func(t *testing.T) {
		leader := c.RaftLeader(1, 2, 3)
		to := c.Host(rig.Without(3, leader)[1])
		if r := member("move-leader", string(to.ID())); r.Code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		if now := c.RaftLeader(1, 2, 3); now != to {
			t.Errorf("host %d leads raft, want host %d", now.N, to.N)
		}
	})
	t.Run("hold", func(t *testing.T) {
		if r := member("add", four, "--hold"); r.Code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.Voters(rig.Soon, 1, 2, 3, 4)
		if r := c.Etcdadm("status", "--data-dir", c.Host(1).Dir); !strings.Contains(r.Stdout, "on hold") {
			t.Errorf("status does not say that the spec is on hold: %s", r)
		}
		if r := member("remove", one, "--hold", "--yes"); r.Code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.Voters(rig.Soon, 2, 3, 4)
		c.Free(rig.Soon, c.Host(1), c.Host(2))
	})
	t.Run("nonsense", func(t *testing.T) {
		for _, words := range [][]string{{"add", "nobody"}, {"remove", "nobody", "--yes"}, {"promote", "nobody"}, {"move-leader", "nobody"}, {"promote", string(c.Host(2).ID())}, {"move-leader", one}} {
			began := time.Now()
			r := member(append(words, "--timeout=5s")...)
			if words[0] == "promote" && words[1] != "nobody" {
				continue // a voter is one already; whatever it says
			}
			if r.Code == cli.ExitOK {
				t.Errorf("nonsense succeeds: %s", r)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s: %s", took, r)
			}
		}
		c.Voters(rig.Soon, 2, 3, 4)
	})
	w.Check()
}

// A learner that a person wanted, and that did not catch up in the person's time,
// stays a learner while the spec is on hold: nobody promotes it but a person.
func TestPersonPromotes(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4})
	w := c.Write()
	c.Start(4)
	c.Leader(rig.Soon, c.Host(4))
	four := string(c.Host(4).ID())
	member := func(words ...string) rig.Result {
		t.Helper()
		return c.Etcdadm(append([]string{"member", "--data-dir", c.Host(1).Dir}, words...)...)
	}
	added := make(chan rig.Result, 1)
	go func() {
		added <- c.Etcdadm("member", "add", four, "--hold", "--timeout=6s", "--data-dir", c.Host(1).Dir)
	}()
	learner := c.StopsAsLearner(c.Host(4))
	if r := <-added; r.Code == cli.ExitOK {
		t.Fatalf("a host whose etcd stands still is a voter: %s", r)
	}
	if r := member("promote", four, "--timeout=5s"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout+r.Stderr, "not up") {
		t.Errorf("a learner that does not answer: %s", r)
	}
	if err := rig.ContinueProcess(c.Host(4).EtcdPID()); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Soon, "a dry run that finds the learner ready", func(context.Context) error {
		if r := member("promote", four, "--dry-run"); r.Code != cli.ExitOK {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	w.WaitFor(100)
	list, err := c.Etcd().MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == learner && m.IsLearner }) {
		t.Errorf("without a person learner %x became a voter, or nothing: %v", learner, list.Members)
	}
	// By its member's ID, as member list prints it; the other way is the host's.
	if r := member("promote", fmt.Sprintf("%x", learner)); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Voters(rig.Soon, 1, 2, 3, 4)
	if r := member("move-leader", fmt.Sprintf("%x", learner)); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	if now := c.RaftLeader(1, 2, 3, 4); now.N != 4 {
		t.Errorf("host %d leads raft, want host 4", now.N)
	}
	w.Check()
}

// Nobody who answers: one sentence, a hint, an exit code.
func TestPersonTalksToNoCluster(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	for _, words := range []string{"status", "plan", "member list", "member add x", "member remove x --yes"} {
		r := c.Etcdadm(append(strings.Fields(words), "--data-dir", c.Host(1).Dir)...)
		if r.Code != cli.ExitNoCluster || !strings.Contains(r.Stderr, "hint:") {
			t.Errorf("%s", r)
		}
		r = c.Etcdadm(append(strings.Fields(words), "--endpoint", c.Host(1).Endpoint(), "--cluster-name", "test")...)
		if r.Code != cli.ExitNoCluster || !strings.Contains(r.Stderr, "hint:") {
			t.Errorf("%s", r)
		}
		if r := c.Etcdadm(strings.Fields(words)...); r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, "hint:") {
			t.Errorf("%s", r)
		}
	}
}

// What etcdadm seed writes is what etcd-manager-ctl writes.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	if err := os.MkdirAll(c.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := c.Etcdadm("seed", c.StoreURL(), "--version", "3.6.16", "--nodes", "3", "--dry-run"); r.Code != 0 || rig.Exists(filepath.Join(c.Store, "control")) {
		t.Errorf("a dry run: %s", r)
	}
	for i, words := range [][]string{{"--version", "3.6.16", "--nodes", "3"}, {"version=3.6.16", "nodes=1"}, {"--member-count=5"}} {
		want := []int{3, 1, 5}[i]
		if r := c.Etcdadm(append([]string{"seed", c.StoreURL()}, words...)...); r.Code != 0 {
			t.Errorf("%s", r)
		}
		if r := c.Ctl("--backup-store="+c.StoreURL(), "get"); !strings.Contains(r.Stdout, fmt.Sprintf("member_count:%d etcd_version:\"3.6.16\"\n", want)) {
			t.Errorf("%s", r)
		}
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands"); r.Code != 0 {
		t.Errorf("%s", r)
	}
}
