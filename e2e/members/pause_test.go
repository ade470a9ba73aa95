package members

import (
	"slices"
	"strings"
	"testing"
	"time"

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
	if r := run(pause, "--reason", "new kernel", "--yes"); r.Code != 0 || !strings.Contains(r.Stdout, "is paused until") {
		t.Fatal(r)
	}
	if r := run("host pause " + string(c.Host(others[1]).ID()) + " --for 1m --reason too --yes"); r.Code != 12 || !strings.Contains(r.Stderr, "clients could neither read nor write") {
		t.Errorf("the second of three was paused: %s", r)
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
