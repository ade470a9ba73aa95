package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
)

// recovers runs etcdadm recover through a host's daemon.
func (c *testCluster) recovers(through *host, words ...string) result {
	c.t.Helper()
	return c.etcdadm(append([]string{"recover", "--data-dir", through.dir}, words...)...)
}

// founded waits until a generation serves, be it in quarantine.
func (c *testCluster) founded(n uint64) {
	c.t.Helper()
	eventually(c.t, restoreWithin, fmt.Sprintf("generation %d is founded", n), func(context.Context) error {
		if in := c.intent(); in.Generation != n || in.State != cluster.IntentFounded {
			return fmt.Errorf("generation %d is %s", in.Generation, in.State)
		}
		return nil
	})
}

// Two of three machines are gone for good. A command of a person goes on from
// the third, with everything that it has, whether it knew that it was committed
// or not; new machines take the places of the old.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{flags: []string{"--dead-after=10s"}})
	c.fill("k/", 200)
	leader := c.raftLeader(1, 2, 3)
	left := without(3, leader)
	survivor, third := c.host(left[0]), c.host(left[1])
	ids := []string{string(leader.id()), string(third.id())}
	third.crash() // from now on every acknowledged write is in the survivor's log
	w := c.write()
	w.waitFor(200)
	leader.crash() // in the middle of writes
	w.end()
	pid := survivor.etcdPID()

	c.blocked(survivor, "quorum", "etcdadm recover --from "+string(survivor.id()), ids[0]+" (unreachable", ids[1]+" (unreachable")
	r := c.recovers(survivor)
	if r.code != cli.ExitUnsafe || !strings.Contains(r.stdout, string(survivor.id())) {
		t.Errorf("without --yes: %s", r)
	}
	r = c.recovers(survivor, "--from", string(survivor.id()), "--yes", "--wait", "5s")
	if r.code != cli.ExitWaiting {
		t.Errorf("nobody was named as lost: %s", r)
	}
	c.blocked(survivor, "have to stop and promise", "--lost "+ids[0])
	if now := survivor.etcdPID(); now != pid {
		t.Errorf("a recovery that cannot begin stopped the survivor's etcd %d; now it is %d", pid, now)
	}
	began := time.Now()
	waited := make(chan result, 1)
	go func() {
		waited <- c.recovers(survivor, "--from", string(survivor.id()), "--lost", ids[0], "--lost", ids[1], "--yes", "--wait", "100s")
	}()
	c.founded(2)
	t.Logf("recovered after %s", time.Since(began).Round(time.Millisecond))
	if !c.intent().Quarantined {
		t.Error("one member of three is open to clients")
	}
	c.addHost().start()
	c.addHost().start()
	if r := <-waited; r.code != cli.ExitOK || !strings.Contains(r.stdout, "opened") {
		t.Fatalf("%s", r)
	}
	c.generation(2, survivor.n, 4, 5)
	t.Logf("three voters after %s", time.Since(began).Round(time.Millisecond))
	w.compare(c.etcd())
	if n := c.countKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	after := c.write()
	if len(c.asideOn(survivor)) == 0 {
		t.Error("the survivor's old data is not set aside")
	}
	// One that was named lost and comes back after all does no harm.
	third.start()
	eventually(t, soon, "the data of the host that came back is set aside", func(context.Context) error {
		if n := len(c.asideOn(third)); n == 0 {
			return fmt.Errorf("%d directories are", n)
		}
		return nil
	})
	c.voters(soon, survivor.n, 4, 5)
	after.check()
}

// Of two survivors the one that is behind is refused, with the command that
// names the other.
func TestRecoverFromTheFurthest(t *testing.T) {
	if !*long {
		t.Skip("takes five hosts: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 5, options{})
	leader := c.raftLeader(1, 2, 3, 4, 5)
	left := without(5, leader)
	behind, ahead := c.host(left[0]), c.host(left[1])
	lost := []*host{leader, c.host(left[2]), c.host(left[3])}
	behind.crash()
	w := c.write()
	w.waitFor(200)
	var words []string
	for _, h := range lost {
		words = append(words, "--lost", string(h.id()))
		h.crash()
	}
	w.end()
	ahead.crash() // so that the other does not hear from it
	behind.start()
	c.leader(soon, behind)
	ahead.start()
	c.leader(soon, ahead)
	r := c.recovers(ahead, append([]string{"--from", string(behind.id()), "--yes", "--wait", "60s"}, words...)...)
	if r.code != cli.ExitUnsafe || !strings.Contains(r.stdout+r.stderr, "etcdadm recover --from "+string(ahead.id())) {
		t.Fatalf("recovering from the host that is behind: %s", r)
	}
	if r = c.recovers(ahead, append([]string{"--from", string(ahead.id()), "--yes"}, words...)...); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.founded(2)
	for range 3 {
		c.addHost().start()
	}
	c.generation(2, behind.n, ahead.n, 6, 7, 8)
	w.compare(c.newClient(behind.n, ahead.n, 6, 7, 8))
}
