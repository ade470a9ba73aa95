package members

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// The leading daemon's host is paused for its maintenance, and is off for longer than
// --dead-after while a spare is there: whoever leads then replaces nobody before the pause is
// over, and the second of three is not paused beside it. After the end the spare takes over.
func TestPausedHostIsNotReplaced(t *testing.T) {
	rig.TakesLong(t, "46 s")
	t.Parallel()
	const deadAfter, paused = 4 * time.Second, 30 * time.Second
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Flags: []string{"--dead-after=" + deadAfter.String()}})
	w := c.Write()
	c.Start(4)
	off := c.Leader(rig.Soon, c.Host(4))
	others := rig.Without(3, off)
	at := func(n int) []string { return []string{"--data-dir", c.Host(n).Dir} }
	run := func(words string, more ...string) rig.Result {
		return c.Etcdadm(append(append(strings.Fields(words), more...), at(others[0])...)...)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	before := c.Listed()
	began := time.Now()
	pause := "host pause " + string(off.ID()) + " --for " + paused.String()
	if r := run(pause, "--reason", "new kernel"); r.Code != 12 || !strings.Contains(r.Stderr, "does not survive one more failure") {
		t.Fatalf("nobody said yes: %s", r)
	}
	if r := run(pause, "--reason", "new kernel", "--yes"); r.Code != 0 || !strings.Contains(r.Stderr, "may be taken down now") {
		t.Fatal(r)
	}
	if r := run("host pause " + string(c.Host(others[1]).ID()) + " --for 1m --reason too --yes --timeout 3s"); r.Code != cli.ExitWaiting || !strings.Contains(r.Stderr, "may not be taken down yet") {
		t.Errorf("the second of three may go: %s", r)
	}
	if r := run("host resume " + string(c.Host(others[1]).ID())); r.Code != 0 {
		t.Error(r)
	}
	off.Crash()
	c.Leader(rig.Soon, c.Host(others[0]), off)
	c.Passes(3 * deadAfter)
	if now := c.Listed(); !slices.Equal(now, before) {
		t.Errorf("the members were %x and are %x", before, now)
	}
	c.Blocked(c.Host(others[0]), "is paused until", "new kernel", "etcdadm host resume")
	for words, code := range map[string]int{"status": cli.ExitDegraded, "member list": cli.ExitOK} {
		if r := run(words); r.Code != code || !strings.Contains(r.Stdout, "host "+string(off.ID())+" is paused until") || !strings.Contains(r.Stdout, "new kernel, by ") {
			t.Errorf("it is not told: %s", r)
		}
	}
	if now := c.Listed(); !slices.Equal(now, before) {
		t.Errorf("the members were %x and are %x", before, now)
	}
	if gone := time.Since(began); gone >= paused {
		t.Fatalf("the pause was over when that was looked at, after %s", gone)
	}
	c.Voters(90*time.Second, append(others, 4)...)
	if took := time.Since(began); took < paused+deadAfter {
		t.Errorf("it was replaced %s after the pause began, and silence counts from its end", took)
	}
	off.Start()
	c.Free(rig.Soon, off, c.Host(others[0]))
	w.Check()
}

// A host is let go, its daemon is killed and starts again, and it stays let go: a change of
// the settings restarts nobody else, and the next host waits, until a person ends it.
func TestPausedHostMayGoUntilItIsResumed(t *testing.T) {
	rig.TakesLong(t, "25 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 3})
	w := c.Write()
	goes := c.Host(2)
	run := func(words string) rig.Result {
		return c.Etcdadm(append(strings.Fields(words), "--data-dir", c.Host(1).Dir)...)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	if r := run("host pause " + string(goes.ID()) + " --for 10m --reason kernel --yes"); r.Code != 0 || !strings.Contains(r.Stderr, "may be taken down now") {
		t.Fatal(r)
	}
	before := pids(c)
	goes.Kill()
	goes.Start()
	c.Voters(rig.Soon, 1, 2, 3)
	if r := run("status"); !strings.Contains(r.Stdout, "host "+string(goes.ID())+" may be taken down by that pause") {
		t.Errorf("the daemon started, and the pause is forgotten: %s", r)
	}
	if r := c.Etcdadm("config", "set", "--store", c.StoreURL(), "snapshot-count=20000"); r.Code != 0 {
		t.Fatal(r)
	}
	if r := run("host pause " + string(c.Host(3).ID()) + " --for 10m --reason too --yes --timeout 8s"); r.Code != cli.ExitWaiting || !strings.Contains(r.Stderr, "may not be taken down yet") {
		t.Errorf("the next one may go beside it: %s", r)
	}
	if r := run("host resume " + string(c.Host(3).ID())); r.Code != 0 {
		t.Error(r)
	}
	for id, pid := range pids(c) {
		if id != goes.ID() && pid != before[id] {
			t.Errorf("the member of host %s was restarted while host %s may go", id, goes.ID())
		}
	}
	goes.Crash()
	goes.Start()
	c.Voters(rig.Soon, 1, 2, 3)
	if r := run("host resume " + string(goes.ID())); r.Code != 0 {
		t.Fatal(r)
	}
	if r := run("host pause " + string(c.Host(3).ID()) + " --for 1m --reason next --yes --timeout 2m"); r.Code != 0 {
		t.Errorf("the next one may not go after it: %s", r)
	}
	w.Check()
}

// pids are the processes of the members, as the leading daemon sees them.
func pids(c *rig.Cluster) map[cluster.HostID]int {
	c.T.Helper()
	out := map[cluster.HostID]int{}
	rig.Eventually(c.T, rig.Soon, "the members' processes", func(ctx context.Context) error {
		r, err := c.Report(ctx, c.Host(1))
		if err != nil || r.Observation == nil {
			return fmt.Errorf("nobody tells: %w", err)
		}
		for _, h := range r.Observation.Hosts {
			out[h.Host] = h.Process.PID
		}
		return nil
	})
	return out
}
