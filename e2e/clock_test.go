package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/cli"
)

// The clock of a daemon jumps by an hour, forth and back, that of the one that
// leads and that of one that does not. People are told; backups are taken on
// demand and by themselves, are tried out and can be restored; commands are run
// once; nobody who is silent for seconds is taken for dead, nobody is restarted,
// and what was acknowledged stays.
func TestClockJumps(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{flags: []string{"--backup-interval=4s", "--backup-drill-interval=15s"}})
	w := c.write()
	before, pids := c.voters(soon, 1, 2, 3), c.pids()
	first := c.takeBackup()
	for _, leads := range []bool{true, false} {
		leader := c.agree()
		h := leader
		if !leads {
			h = c.host(without(3, leader)[0])
		}
		for _, ahead := range []time.Duration{time.Hour, 0, -time.Hour, 0} {
			h.setClock(ahead)
			what := fmt.Sprintf("the clock of host %d, leading: %t, is %s ahead", h.n, leads, ahead)
			t.Log(what)
			if ahead != 0 {
				c.blocked(c.agree(), "the clock of host", "1h0m0s")
			}
			c.backupsGoOn(what)
		}
	}
	c.triedOut()
	same(t, before, c.voters(soon, 1, 2, 3))
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("a clock jumped, and the etcds had the pids %v and have %v", pids, now)
	}
	w.check()

	h := c.agree()
	h.setClock(-time.Hour)
	if r := c.restore(first); r.code != cli.ExitOK {
		t.Fatalf("with the leading daemon's clock an hour behind: %s", r)
	}
	c.generation(2, 1, 2, 3)
	c.backupsGoOn("restored")
	h.setClock(time.Hour)
	if r := c.restore(first); r.code != cli.ExitOK {
		t.Fatalf("with the leading daemon's clock an hour ahead: %s", r)
	}
	c.generation(3, 1, 2, 3)
	c.write().check()
}

// backupsGoOn waits for two more backups by themselves, and for one on demand.
func (c *testCluster) backupsGoOn(what string) {
	c.t.Helper()
	known := map[string]bool{}
	for _, b := range c.listBackups() {
		known[b.Name] = true
	}
	name := c.takeBackup()
	if known[name] {
		c.t.Errorf("%s: backup %s was there before it was asked for", what, name)
	}
	eventually(c.t, soon, what+": two more backups by themselves", func(context.Context) error {
		n := 0
		for _, b := range c.listBackups() {
			if !known[b.Name] && b.Reason == string(backup.ReasonPeriodic) {
				n++
			}
		}
		if n < 2 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands"); r.code != cli.ExitOK || strings.Contains(r.stdout, "Z-") {
		c.t.Errorf("%s: a command was not run, or not once: %s", what, r)
	}
}

// triedOut waits until a backup was found good in a drill.
func (c *testCluster) triedOut() {
	c.t.Helper()
	eventually(c.t, soon, "a backup is tried out", func(context.Context) error {
		if !slices.ContainsFunc(c.listBackups(), func(b listed) bool { return b.Proven == string(backup.DepthDrilled) }) {
			return errors.New("none was")
		}
		return nil
	})
}

// A host is silent for some seconds, in which the clock of the leading daemon
// jumps by an hour: that is no hour of silence.
func TestClockJumpsWhileAHostIsSilent(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{hosts: 4})
	c.start(4) // which could take the place
	leader := c.agree()
	before := c.voters(soon, 1, 2, 3)
	silent := c.host(without(3, leader, c.raftLeader(1, 2, 3))[0])
	w := c.write()
	pid := silent.etcdPID()
	silent.signal(syscall.SIGSTOP)
	if err := stopProcess(pid); err != nil {
		t.Fatal(err)
	}
	mark := leader.mark()
	for _, ahead := range []time.Duration{time.Hour, 2 * time.Hour, 0, -time.Hour, 0} {
		leader.setClock(ahead)
		c.passes(2500 * time.Millisecond) // some looks
	}
	for _, step := range leader.actions(mark) {
		if !strings.Contains(step, "rule=backup") { // a clock that is ahead finds one due, and one that is behind finds none yet
			t.Errorf("while a host was silent for seconds: %s", step)
		}
	}
	if err := continueProcess(pid); err != nil {
		t.Fatal(err)
	}
	silent.signal(syscall.SIGCONT)
	same(t, before, c.voters(soon, 1, 2, 3))
	w.check()
}

// With TLS, a daemon whose clock is further behind than a young certificate is
// old takes nobody's word, and nobody is sure of it. Its member serves on, nobody
// replaces it, people are told where to look, and all is well once the clock is.
func TestClockIsBehindCertificates(t *testing.T) {
	if !*long {
		t.Skip("TestClockJumpsWhileAHostIsSilent is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{tls: true})
	w := c.write()
	before, pids := c.voters(soon, 1, 2, 3), c.pids()
	for _, leads := range []bool{true, false} {
		leader := c.agree()
		h := leader
		if !leads {
			h = c.host(without(3, leader)[0])
		}
		mark := h.mark()
		h.setClock(-time.Hour)
		other := c.host(without(3, h)[0])
		c.leader(soon, other, h)
		c.statusSays(other, h, "unreachable")
		h.saidSince(mark, "is not valid yet")
		w.waitFor(100)
		h.serves(soon)
		h.setClock(0)
		c.agree()
	}
	same(t, before, c.voters(soon, 1, 2, 3))
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("a clock was behind, and the etcds had the pids %v and have %v", pids, now)
	}
	w.check()
}

// saidSince waits for words in the host's log behind a mark.
func (h *host) saidSince(mark int, words string) {
	h.c.t.Helper()
	eventually(h.c.t, soon, fmt.Sprintf("host %d says %q", h.n, words), func(context.Context) error {
		data, err := os.ReadFile(h.log)
		if err == nil && !strings.Contains(string(data[mark:]), words) {
			err = fmt.Errorf("it says:\n%s", tail(h.log, 5))
		}
		return err
	})
}
