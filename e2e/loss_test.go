package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A host that is gone for longer than --dead-after is replaced by one that is
// free. When it comes back after all, it sets its data aside and is free.
func TestDeadHostIsReplaced(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{hosts: 4, flags: []string{"--dead-after=5s"}})
	w := c.write()
	c.start(4)
	c.leader(soon, c.host(4))
	c.host(2).crash()
	c.voters(90*time.Second, 1, 3, 4)
	c.host(2).start()
	c.free(soon, c.host(2), c.host(1))
	c.voters(soon, 1, 3, 4)
	w.check()
}

// A host that comes back with another address is the same member.
func TestHostMovesToAnotherAddress(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	for i, h := range []*host{c.host(2), c.leader(soon, c.host(1))} {
		h.interrupt()
		w.waitFor(10)
		h.move(11 + i)
		h.start()
		c.voters(soon, 1, 2, 3)
	}
	after := c.voters(soon, 1, 2, 3)
	same(t, before, after)
	w.check()
}

// Without a quorum nothing is changed, however long it lasts: two of three
// hosts are gone for longer than --dead-after, and the third waits for them.
func TestTwoOfThreeAreGoneForAWhile(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{hosts: 4, flags: []string{"--dead-after=3s"}})
	w := c.write()
	c.start(4)
	c.leader(soon, c.host(4))
	before := c.voters(soon, 1, 2, 3)
	pid := c.host(3).etcdPID()
	c.host(1).crash()
	c.host(2).crash()
	c.blocked(c.host(3), "quorum")
	c.passes(8 * time.Second)
	if now := c.host(3).etcdPID(); now != pid {
		t.Errorf("the etcd that was left had pid %d and has %d", pid, now)
	}
	c.start(1, 2)
	after := c.voters(soon, 1, 2, 3)
	same(t, before, after)
	w.check()
}

// Whatever comes, in a random order: sizes, kills, stops, wiped disks (one at
// a time, and only while every other voter is there). The cluster finds its
// way back each time, and no acknowledged write is lost.
func TestStorm(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: -e2e.long")
	}
	t.Parallel()
	for _, seed := range []uint64{1, 2} { // real time goes another way each time all the same
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			storm(t, rand.New(rand.NewPCG(seed, 0)), 3*time.Minute)
		})
	}
}

func storm(t *testing.T, random *rand.Rand, lasts time.Duration) {
	c := newCluster(t, options{hosts: 5})
	c.configure(3)
	c.start(1, 2, 3, 4, 5)
	c.members(soon, 3)
	w := c.write()
	size := 3
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if random.IntN(2) == 0 {
			size = []int{1, 3, 5}[random.IntN(3)]
			t.Logf("%s: %d members are wanted", time.Now().Format(time.TimeOnly), size)
			c.configure(size)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // somewhere on the way
		}
		for range 1 + random.IntN(2) {
			c.harm(random, c.hosts[random.IntN(len(c.hosts))])
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		for _, h := range c.hosts {
			if !h.running() {
				h.start()
			}
		}
		on := c.members(3*time.Minute, size)
		if size > 1 && random.IntN(3) == 0 {
			h := c.host(on[random.IntN(len(on))])
			t.Logf("%s: host %d loses its disk", time.Now().Format(time.TimeOnly), h.n)
			h.crash()
			h.wipe(random.IntN(2) == 0)
			h.start()
			c.members(3*time.Minute, size)
		}
	}
	w.check()
}

// harm does something to a host that it has to survive.
func (c *testCluster) harm(random *rand.Rand, h *host) {
	if !h.running() {
		return
	}
	pids := h.etcdPIDs()
	does := []string{"etcd killed", "daemon killed", "crashed", "interrupted", "daemon paused", "etcd paused"}[random.IntN(6)]
	c.t.Logf("%s: host %d: %s", time.Now().Format(time.TimeOnly), h.n, does)
	paused := func(pids ...int) {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	switch does {
	case "etcd killed":
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	case "daemon killed":
		h.kill()
	case "crashed":
		h.crash()
	case "interrupted":
		// One that was started a moment ago may not listen to signals yet, and
		// ends by this one; so nothing is asked of how it ends.
		h.signal(syscall.SIGINT)
		h.exit(soon)
	case "daemon paused":
		paused(h.cmd.Process.Pid)
	case "etcd paused":
		paused(slices.Clone(pids)...)
	}
}

// A member's data is gone: with the whole disk, with all of it but the host's
// ID, or without the daemon's own state, which remembers a member that has no
// log any more. It must not vote as the member that it was, and nothing is lost.
func TestDataIsWiped(t *testing.T) {
	t.Parallel()
	wipes := map[string]func(*host){
		"identity kept": func(h *host) { h.wipe(true) },
		"all":           func(h *host) { h.wipe(false) },
		"etcd's only": func(h *host) {
			if err := os.RemoveAll(filepath.Join(h.dir, "data")); err != nil {
				t.Fatal(err)
			}
		},
	}
	for what, wipe := range wipes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if what != "etcd's only" && !*long {
				t.Skip("TestWalkthrough does so, too: -e2e.long")
			}
			c := formed(t, 3, options{})
			w := c.write()
			w.waitFor(100)
			before := c.voters(soon, 1, 2, 3)
			h := c.raftLeader(1, 2, 3)
			h.crash()
			wipe(h)
			w.waitFor(10)
			h.start()
			after := c.voters(90*time.Second, 1, 2, 3)
			if before[h.n-1].ID == after[h.n-1].ID {
				t.Errorf("the wiped host %d is member %x again", h.n, before[h.n-1].ID)
			}
			w.check()
		})
	}
}

// A member whose files are damaged cannot start; after --dead-after it is
// replaced on its own host, and the damaged files are set aside, not deleted.
func TestDamagedData(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"snap/db", "wal"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, options{flags: []string{"--dead-after=5s"}})
			w := c.write()
			w.waitFor(100)
			h := c.host(3)
			before := c.voters(soon, 1, 2, 3)
			h.crash()
			files, err := filepath.Glob(filepath.Join(h.dir, "data", "*", "member", what))
			if what == "wal" {
				files, err = filepath.Glob(filepath.Join(h.dir, "data", "*", "member", "wal", "*.wal"))
			}
			if err != nil || len(files) == 0 {
				t.Fatalf("there is nothing to damage (%v)", err)
			}
			for _, f := range files {
				if err := os.WriteFile(f, bytes.Repeat([]byte("damaged "), 4096), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h.start()
			after := c.voters(90*time.Second, 1, 2, 3)
			if before[2].ID == after[2].ID {
				t.Errorf("host 3 is member %x again, on damaged files", before[2].ID)
			}
			aside, err := filepath.Glob(filepath.Join(h.dir, "data-trashcan", "*"))
			if err != nil || len(aside) == 0 {
				t.Errorf("nothing was set aside (%v)", err)
			}
			w.check()
		})
	}
}
