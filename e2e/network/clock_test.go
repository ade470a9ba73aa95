package network

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// The clock of a daemon jumps by an hour, forth and back, that of the one that
// leads and that of one that does not. People are told; backups are taken on
// demand and by themselves, are tried out and can be restored; commands are run
// once; nobody who is silent for seconds is taken for dead, nobody is restarted,
// and what was acknowledged stays.
func TestClockJumps(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes minutes: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Flags: []string{"--backup-interval=4s", "--backup-drill-interval=15s"}})
	w := c.Write()
	before, pids := c.Voters(rig.Soon, 1, 2, 3), c.Pids()
	first := c.TakeBackup()
	for _, leads := range []bool{true, false} {
		leader := c.Agree()
		h := leader
		if !leads {
			h = c.Host(rig.Without(3, leader)[0])
		}
		for _, ahead := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
			h.SetClock(ahead)
			what := fmt.Sprintf("the clock of host %d, leading: %t, is %s ahead", h.N, leads, ahead)
			t.Log(what)
			if ahead != 0 {
				c.Blocked(c.Agree(), "the clock of host", "1h0m0s")
			}
			c.BackupsGoOn(what)
		}
	}
	c.TriedOut()
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("a clock jumped, and the etcds had the pids %v and have %v", pids, now)
	}
	w.Check()

	h := c.Agree()
	h.SetClock(-time.Hour)
	if r := c.Restore(first); r.Code != cli.ExitOK {
		t.Fatalf("with the leading daemon's clock an hour behind: %s", r)
	}
	c.Generation(2, 1, 2, 3)
	c.BackupsGoOn("restored")
	h.SetClock(time.Hour)
	if r := c.Restore(first); r.Code != cli.ExitOK {
		t.Fatalf("with the leading daemon's clock an hour ahead: %s", r)
	}
	c.Generation(3, 1, 2, 3)
	c.Write().Check()
}

// A host is silent for some seconds, in which the clock of the leading daemon
// jumps by an hour: that is no hour of silence.
func TestClockJumpsWhileAHostIsSilent(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4})
	c.Start(4) // which could take the place
	leader := c.Agree()
	before := c.Voters(rig.Soon, 1, 2, 3)
	silent := c.Host(rig.Without(3, leader, c.RaftLeader(1, 2, 3))[0])
	w := c.Write()
	pid := silent.EtcdPID()
	silent.Signal(syscall.SIGSTOP)
	if err := rig.StopProcess(pid); err != nil {
		t.Fatal(err)
	}
	mark := leader.Mark()
	for _, ahead := range []time.Duration{time.Hour, 2 * time.Hour, 0, -time.Hour, 0} {
		leader.SetClock(ahead)
		c.Passes(2500 * time.Millisecond) // some looks
	}
	for _, step := range leader.Actions(mark) {
		if !strings.Contains(step, "rule=backup") { // a clock that is ahead finds one due, and one that is behind finds none yet
			t.Errorf("while a host was silent for seconds: %s", step)
		}
	}
	if err := rig.ContinueProcess(pid); err != nil {
		t.Fatal(err)
	}
	silent.Signal(syscall.SIGCONT)
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	w.Check()
}

// With TLS, a daemon whose clock is further behind than a young certificate is
// old takes nobody's word, and nobody is sure of it. Its member serves on, nobody
// replaces it, people are told where to look, and all is well once the clock is.
func TestClockIsBehindCertificates(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestClockJumpsWhileAHostIsSilent is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{TLS: true})
	w := c.Write()
	before, pids := c.Voters(rig.Soon, 1, 2, 3), c.Pids()
	for _, leads := range []bool{true, false} {
		leader := c.Agree()
		h := leader
		if !leads {
			h = c.Host(rig.Without(3, leader)[0])
		}
		mark := h.Mark()
		h.SetClock(-time.Hour)
		other := c.Host(rig.Without(3, h)[0])
		c.Leader(rig.Soon, other, h)
		c.StatusSays(other, h, "unreachable")
		h.SaidSince(mark, "is not valid yet")
		w.WaitFor(100)
		h.Serves(rig.Soon)
		h.SetClock(0)
		c.Agree()
	}
	rig.Same(t, before, c.Voters(rig.Soon, 1, 2, 3))
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("a clock was behind, and the etcds had the pids %v and have %v", pids, now)
	}
	w.Check()
}
