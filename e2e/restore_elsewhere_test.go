package e2e

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
	"etcdadm.io/plan"
)

// Of two restores in the queue one is run: the other's word was given before the generation
// that the first made. Said again it is run, and each is run once, also when every daemon is
// started anew afterwards.
func TestRestoresInTheQueue(t *testing.T) {
	if !*long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{})
	first := c.takeBackup()
	c.fill("k/", 100)
	second := c.takeBackup()
	commands := []string{c.restoreByCtl(first), c.restoreByCtl(second)}
	c.ended(commands[0], "done")
	end := c.ended(commands[1], string(plan.CommandExpired))
	if !strings.Contains(end.Reason, "before generation 2 was made") || !strings.Contains(end.Reason, "etcdadm restore "+second) {
		t.Errorf("the second ended as %+v", end)
	}
	c.generation(2, 1, 2, 3)
	commands[1] = c.restoreByCtl(second)
	c.ended(commands[1], "done")
	c.generation(3, 1, 2, 3)
	w := c.write()
	if in := c.intent(); in.CommandID != commands[1] || !slices.Equal(in.CommandsRun, commands) {
		t.Errorf("the intent says that %v were run, and %s last; they were queued as %v", in.CommandsRun, in.CommandID, commands)
	}
	if n := c.countKeys("k/"); n != 100 {
		t.Errorf("there are %d keys, want 100: the second backup's", n)
	}
	for _, h := range c.hosts {
		h.kill()
		h.start()
	}
	c.agree()
	c.voters(soon, 1, 2, 3)
	if in := c.intent(); in.Generation != 3 {
		t.Errorf("the daemons were started anew, and generation %d was made", in.Generation)
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands", "--all"); strings.Count(r.stdout, "done at") < 2 {
		t.Errorf("%s", r)
	}
	w.check()
}

// A restore onto one host where three were, and onto three where one was: the
// others are free, with their data set aside.
func TestRestoreOntoAnotherCount(t *testing.T) {
	if !*long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{})
	c.fill("k/", 200)
	name := c.takeBackup()
	if r := c.restore(name, "--members", "1"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	on := c.members(restoreWithin, 1)
	c.generation(2, on...)
	c.asksFor(1)
	w := c.write()
	for _, h := range c.others(on) {
		c.free(soon, h, c.host(on[0]))
	}
	w.check()
	name = c.takeBackup()
	if r := c.restore(name, "--members", "3"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "opened") {
		t.Fatalf("%s", r)
	}
	if c.intent().Quarantined {
		t.Error("the wait has ended, and clients are not let in")
	}
	c.generation(3, 1, 2, 3)
	c.asksFor(3)
	w.compare(c.etcd())
	if n := c.countKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
}

// A host that is away during a restore finds out when it is back, sets what it
// has aside, and joins.
func TestHostIsAwayDuringARestore(t *testing.T) {
	if !*long {
		t.Skip("takes a restore: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{})
	c.fill("k/", 200)
	name := c.takeBackup()
	away := c.host(3)
	away.crash()
	c.restoreByCtl(name)
	c.generation(2, 1, 2)
	w := c.write()
	w.waitFor(10)
	away.start()
	c.voters(restoreWithin, 1, 2, 3)
	if len(c.asideOn(away)) == 0 {
		t.Error("the host that was away set nothing aside")
	}
	w.check()
}

// What a restore dropped is there again after its undo, which is made from what
// a host set aside.
func TestRestoreIsUndone(t *testing.T) {
	if !*long {
		t.Skip("takes two restores: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{})
	c.fill("k/", 200)
	name := c.takeBackup()
	w := c.write() // dropped by the restore
	w.waitFor(50)
	w.end()
	leader := c.raftLeader(1, 2, 3) // it has whatever was acknowledged
	if r := c.restore(name); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.generation(2, 1, 2, 3)
	if n := c.countKeys(w.prefix); n != 0 {
		t.Errorf("%d keys of after the backup are there", n)
	}
	report, err := c.report(t.Context(), c.leader(soon, leader))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(report.Observation.Hosts, func(h cluster.HostReport) bool { return h.Host == leader.id() })
	aside := report.Observation.Hosts[at].SetAside
	if len(aside) != 1 {
		t.Fatalf("host %d shows as set aside: %+v", leader.n, aside)
	}
	if r := c.etcdadm("restore", "--undo", "--from", string(leader.id()), "--dir", aside[0].Dir, "--data-dir="+leader.dir); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "log ends at term") {
		t.Errorf("what it drops is not told: %s", r)
	}
	if r := c.etcdadm("restore", "--undo", "--from", string(leader.id()), "--dir", aside[0].Dir, "--store", c.storeURL(), "--yes", "--wait", "100s"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.generation(3, 1, 2, 3)
	w.compare(c.etcd())
	if n := c.countKeys("k/"); n != 200 {
		t.Errorf("there are %d keys, want 200", n)
	}
	c.write().check()
}
