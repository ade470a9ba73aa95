package disks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// Two of three machines are gone for good. A command of a person goes on from
// the third, with everything that it has, whether it knew that it was committed
// or not; new machines take the places of the old.
func TestRecover(t *testing.T) {
	rig.TakesLong(t, "a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Flags: []string{"--dead-after=10s"}})
	c.Fill("k/", 200)
	leader := c.RaftLeader(1, 2, 3)
	left := rig.Without(3, leader)
	survivor, third := c.Host(left[0]), c.Host(left[1])
	ids := []string{string(leader.ID()), string(third.ID())}
	third.Crash() // from now on every acknowledged write is in the survivor's log
	w := c.Write()
	w.WaitFor(200)
	leader.Crash() // in the middle of writes
	w.End()
	pid := survivor.EtcdPID()

	c.Blocked(survivor, "quorum", "etcdadm recover --from "+string(survivor.ID()), ids[0]+" (unreachable", ids[1]+" (unreachable")
	r := c.Recovers(survivor)
	if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout, string(survivor.ID())) {
		t.Errorf("without --yes: %s", r)
	}
	r = c.Recovers(survivor, "--from", string(survivor.ID()), "--yes", "--wait", "5s")
	if r.Code != cli.ExitWaiting {
		t.Errorf("nobody was named as lost: %s", r)
	}
	c.Blocked(survivor, "have to stop and fence it off", "--lost "+ids[0])
	if now := survivor.EtcdPID(); now != pid {
		t.Errorf("a recovery that cannot begin stopped the survivor's etcd %d; now it is %d", pid, now)
	}
	began := time.Now()
	waited := make(chan rig.Result, 1)
	go func() {
		waited <- c.Recovers(survivor, "--from", string(survivor.ID()), "--lost", ids[0], "--lost", ids[1], "--yes", "--wait", "100s")
	}()
	c.Founded(2)
	t.Logf("recovered after %s", time.Since(began).Round(time.Millisecond))
	if !c.Intent().Quarantined {
		t.Error("one member of three is open to clients")
	}
	c.AddHost().Start()
	c.AddHost().Start()
	if r := <-waited; r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "opened") {
		t.Fatalf("%s", r)
	}
	c.Generation(2, survivor.N, 4, 5)
	t.Logf("three voters after %s", time.Since(began).Round(time.Millisecond))
	w.Compare(c.Etcd())
	if n := c.CountKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	after := c.Write()
	if len(c.AsideOn(survivor)) == 0 {
		t.Error("the survivor's old data is not set aside")
	}
	// One that was named lost and comes back after all does no harm.
	third.Start()
	rig.Eventually(t, rig.Soon, "the data of the host that came back is set aside", func(context.Context) error {
		if n := len(c.AsideOn(third)); n == 0 {
			return fmt.Errorf("%d directories are", n)
		}
		return nil
	})
	c.Voters(rig.Soon, survivor.N, 4, 5)
	after.Check()
}

// Of two survivors the one that is behind is refused, with the command that
// names the other.
func TestRecoverFromTheFurthest(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes five hosts: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 5, rig.Options{})
	leader := c.RaftLeader(1, 2, 3, 4, 5)
	left := rig.Without(5, leader)
	behind, ahead := c.Host(left[0]), c.Host(left[1])
	lost := []*rig.Host{leader, c.Host(left[2]), c.Host(left[3])}
	behind.Crash()
	w := c.Write()
	w.WaitFor(200)
	var words []string
	for _, h := range lost {
		words = append(words, "--lost", string(h.ID()))
		h.Crash()
	}
	w.End()
	ahead.Crash() // so that the other does not hear from it
	behind.Start()
	c.Leader(rig.Soon, behind)
	ahead.Start()
	c.Leader(rig.Soon, ahead)
	r := c.Recovers(ahead, append([]string{"--from", string(behind.ID()), "--yes", "--wait", "60s"}, words...)...)
	if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout+r.Stderr, "etcdadm recover --from "+string(ahead.ID())) {
		t.Fatalf("recovering from the host that is behind: %s", r)
	}
	if r = c.Recovers(ahead, append([]string{"--from", string(ahead.ID()), "--yes"}, words...)...); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Founded(2)
	for range 3 {
		c.AddHost().Start()
	}
	c.Generation(2, behind.N, ahead.N, 6, 7, 8)
	w.Compare(c.NewClient(behind.N, ahead.N, 6, 7, 8))
}
