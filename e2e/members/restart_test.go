package members

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
)

// Each member is restarted once, raft's leader last, while clients write; a second voter is
// not taken away beside one that is down.
func TestRestartOneAfterTheOther(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	leads, before := c.RaftLeader(1, 2, 3), c.Pids()
	run := func(words ...string) rig.Result {
		return c.Etcdadm(append(append([]string{"restart"}, words...), "--data-dir", c.Host(1).Dir)...)
	}
	if r := run(); r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, "--reason") {
		t.Errorf("%s", r)
	}
	if r := run("nobody", "--reason", "x", "--yes"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "carries no listed member") {
		t.Errorf("%s", r)
	}
	if r := run("--reason", "memory", "--dry-run"); r.Code != cli.ExitOK || strings.Count(r.Stdout, "as asked (memory)") != 3 {
		t.Errorf("%s", r)
	}
	if r := run("--reason", "memory"); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "one after the other?") {
		t.Errorf("%s", r)
	}
	if now := c.Pids(); now[0] != before[0] || now[1] != before[1] || now[2] != before[2] {
		t.Fatalf("restarted before anybody said yes: %v, %v", before, now)
	}

	r := run("--reason", "memory", "--yes", "-o", "json")
	var all []console.Rolled
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || r.Code != cli.ExitOK || len(all) != 3 {
		t.Fatalf("%v: %s", err, r)
	}
	if all[2].Host != leads.ID() {
		t.Errorf("raft was led by %s, and the last one is %s", leads.ID(), all[2].Host)
	}
	for i, one := range all {
		if one.Result.Outcome != manager.GoalDone {
			t.Errorf("%d: %+v", i, one)
		}
	}
	for i, now := range c.Pids() {
		if now == before[i] || now == 0 {
			t.Errorf("the etcd of host %d was %d and is %d", i+1, before[i], now)
		}
	}
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()

	down, other := c.Host(3), c.Host(2)
	before = c.Pids()
	down.Crash()
	began := time.Now()
	if r := run(string(other.ID()), "--reason", "memory", "--yes", "--timeout", "5s"); r.Code == cli.ExitOK || !strings.Contains(r.Stderr, "0 of 1 member restarted") || time.Since(began) > 30*time.Second {
		t.Errorf("%s", r)
	}
	if now := c.Pids(); now[1] != before[1] {
		t.Errorf("the etcd of host 2 was restarted beside one that is down")
	}
}
