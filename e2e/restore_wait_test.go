package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
)

// asksFor waits until the spec in the store has a count.
func (c *testCluster) asksFor(n int) {
	c.t.Helper()
	eventually(c.t, soon, fmt.Sprintf("a spec of %d members", n), func(ctx context.Context) error {
		read, err := c.folder().ReadSpec(ctx)
		if err == nil && read.Spec.MemberCount != n {
			err = fmt.Errorf("it asks for %d", read.Spec.MemberCount)
		}
		return err
	})
}

// A restore that is waited for has let clients in when the wait ends well. Where
// too few hosts are there for that, the wait ends in time and says so; and once
// fewer are asked for, clients are let in.
func TestRestoreIsWaitedFor(t *testing.T) {
	if !*long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 1, options{})
	c.fill("k/", 50)
	name := c.takeBackup()
	r := c.etcdadm("restore", "--store", c.storeURL(), "--yes", "--wait", "25s", name, "--members", "3")
	if r.code != cli.ExitWaiting || !strings.Contains(r.stdout, "done: generation 2 serves") || !strings.Contains(r.stdout, "3 members are wanted") ||
		!strings.Contains(r.stderr, "ordinary clients are not let in after 25s: generation 2 is quarantined") {
		t.Fatalf("with one host for three members: %s", r)
	}
	if in := c.intent(); !in.Quarantined || in.Generation != 2 {
		t.Errorf("the intent is of generation %d, quarantined: %t", in.Generation, in.Quarantined)
	}
	c.asksFor(3)
	if r := c.ctl("--backup-store="+c.storeURL(), "--member-count=1", "configure-cluster"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	w := c.write()
	w.waitFor(5)
	c.asksFor(1)
	if r := c.restore(name); r.code != cli.ExitOK || strings.Contains(r.stdout, "opened") {
		t.Fatalf("with one member a majority is there at once: %s", r)
	}
	if in := c.intent(); in.Quarantined || in.Generation != 3 {
		t.Errorf("the intent is of generation %d, quarantined: %t", in.Generation, in.Quarantined)
	}
	if n := c.countKeys("k/"); n != 50 {
		t.Errorf("there are %d keys, want 50", n)
	}
}
