package restore

import (
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A restore that is waited for has let clients in when the wait ends well. Where
// too few hosts are there for that, the wait ends in time and says so; and once
// fewer are asked for, clients are let in.
func TestRestoreIsWaitedFor(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{})
	c.Fill("k/", 50)
	name := c.TakeBackup()
	r := c.Etcdadm("restore", "--store", c.StoreURL(), "--yes", "--wait", "25s", name, "--members", "3")
	if r.Code != cli.ExitWaiting || !strings.Contains(r.Stdout, "done: generation 2 serves") || !strings.Contains(r.Stdout, "3 members are wanted") ||
		!strings.Contains(r.Stderr, "ordinary clients are not let in after 25s: generation 2 is quarantined") {
		t.Fatalf("with one host for three members: %s", r)
	}
	if in := c.Intent(); !in.Quarantined || in.Generation != 2 {
		t.Errorf("the intent is of generation %d, quarantined: %t", in.Generation, in.Quarantined)
	}
	c.AsksFor(3)
	if r := c.Ctl("--backup-store="+c.StoreURL(), "--member-count=1", "configure-cluster"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	w := c.Write()
	w.WaitFor(5)
	c.AsksFor(1)
	if r := c.Restore(name); r.Code != cli.ExitOK || strings.Contains(r.Stdout, "opened") {
		t.Fatalf("with one member a majority is there at once: %s", r)
	}
	if in := c.Intent(); in.Quarantined || in.Generation != 3 {
		t.Errorf("the intent is of generation %d, quarantined: %t", in.Generation, in.Quarantined)
	}
	if n := c.CountKeys("k/"); n != 50 {
		t.Errorf("there are %d keys, want 50", n)
	}
}
