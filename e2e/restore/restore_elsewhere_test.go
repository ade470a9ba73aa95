package restore

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/plan"
)

// Of two restores in the queue one is run: the other's word was given before the generation
// that the first made. Said again it is run, and each is run once, also when every daemon is
// started anew afterwards.
func TestRestoresInTheQueue(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	first := c.TakeBackup()
	c.Fill("k/", 100)
	second := c.TakeBackup()
	commands := []string{c.RestoreByCtl(first), c.RestoreByCtl(second)}
	c.Ended(commands[0], "done")
	end := c.Ended(commands[1], string(plan.CommandExpired))
	if !strings.Contains(end.Reason, "before generation 2 was made") || !strings.Contains(end.Reason, "etcdadm restore "+second) {
		t.Errorf("the second ended as %+v", end)
	}
	c.Generation(2, 1, 2, 3)
	commands[1] = c.RestoreByCtl(second)
	c.Ended(commands[1], "done")
	c.Generation(3, 1, 2, 3)
	w := c.Write()
	if in := c.Intent(); in.CommandID != commands[1] || !slices.Equal(in.CommandsRun, commands) {
		t.Errorf("the intent says that %v were run, and %s last; they were queued as %v", in.CommandsRun, in.CommandID, commands)
	}
	if n := c.CountKeys("k/"); n != 100 {
		t.Errorf("there are %d keys, want 100: the second backup's", n)
	}
	for _, h := range c.Hosts {
		h.Kill()
		h.Start()
	}
	c.Agree()
	c.Voters(rig.Soon, 1, 2, 3)
	if in := c.Intent(); in.Generation != 3 {
		t.Errorf("the daemons were started anew, and generation %d was made", in.Generation)
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands", "--all"); strings.Count(r.Stdout, "done at") < 2 {
		t.Errorf("%s", r)
	}
	w.Check()
}

// A restore onto one host where three were, and onto three where one was: the
// others are free, with their data set aside.
func TestRestoreOntoAnotherCount(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	c.Fill("k/", 200)
	name := c.TakeBackup()
	if r := c.Restore(name, "--members", "1"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	on := c.Members(rig.RestoreWithin, 1)
	c.Generation(2, on...)
	c.AsksFor(1)
	w := c.Write()
	for _, h := range c.Others(on) {
		c.Free(rig.Soon, h, c.Host(on[0]))
	}
	w.Check()
	name = c.TakeBackup()
	if r := c.Restore(name, "--members", "3"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "opened") {
		t.Fatalf("%s", r)
	}
	if c.Intent().Quarantined {
		t.Error("the wait has ended, and clients are not let in")
	}
	c.Generation(3, 1, 2, 3)
	c.AsksFor(3)
	w.Compare(c.Etcd())
	if n := c.CountKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
}

// A host that is away during a restore finds out when it is back, sets what it
// has aside, and joins.
func TestHostIsAwayDuringARestore(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a restore: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	c.Fill("k/", 200)
	name := c.TakeBackup()
	away := c.Host(3)
	away.Crash()
	c.RestoreByCtl(name)
	c.Generation(2, 1, 2)
	w := c.Write()
	w.WaitFor(10)
	away.Start()
	c.Voters(rig.RestoreWithin, 1, 2, 3)
	if len(c.AsideOn(away)) == 0 {
		t.Error("the host that was away set nothing aside")
	}
	w.Check()
}

// What a restore dropped is there again after its undo, which is made from what
// a host set aside.
func TestRestoreIsUndone(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	c.Fill("k/", 200)
	name := c.TakeBackup()
	w := c.Write() // dropped by the restore
	w.WaitFor(50)
	w.End()
	leader := c.RaftLeader(1, 2, 3) // it has whatever was acknowledged
	if r := c.Restore(name); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Generation(2, 1, 2, 3)
	if n := c.CountKeys(w.Prefix); n != 0 {
		t.Errorf("%d keys of after the backup are there", n)
	}
	report, err := c.Report(t.Context(), c.Leader(rig.Soon, leader))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(report.Observation.Hosts, func(h cluster.HostReport) bool { return h.Host == leader.ID() })
	aside := report.Observation.Hosts[at].SetAside
	if len(aside) != 1 {
		t.Fatalf("host %d shows as set aside: %+v", leader.N, aside)
	}
	if r := c.Etcdadm("restore", "--undo", "--from", string(leader.ID()), "--dir", aside[0].Dir, "--data-dir="+leader.Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "log ends at term") {
		t.Errorf("what it drops is not told: %s", r)
	}
	if r := c.Etcdadm("restore", "--undo", "--from", string(leader.ID()), "--dir", aside[0].Dir, "--store", c.StoreURL(), "--yes", "--wait", "100s"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Generation(3, 1, 2, 3)
	w.Compare(c.Etcd())
	if n := c.CountKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	c.Write().Check()
}
