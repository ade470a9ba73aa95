package members

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A host that is gone for longer than --dead-after is replaced by one that is
// free. When it comes back after all, it sets its data aside and is free.
func TestDeadHostIsReplaced(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Flags: []string{"--dead-after=5s"}})
	w := c.Write()
	c.Start(4)
	c.Leader(rig.Soon, c.Host(4))
	c.Host(2).Crash()
	c.Voters(90*time.Second, 1, 3, 4)
	c.Host(2).Start()
	c.Free(rig.Soon, c.Host(2), c.Host(1))
	c.Voters(rig.Soon, 1, 3, 4)
	w.Check()
}

// So is a host on which daemon and etcd hang, though its kernel accepts connections for
// them, with TLS or without. When they go on, the host sets its data aside.
func TestHungHostIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			if !tls {
				rig.TakesLong(t, "20 s")
			}
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{Hosts: 4, TLS: tls, Flags: []string{"--dead-after=5s"}})
			w := c.Write()
			c.Start(4)
			c.Leader(rig.Soon, c.Host(4))
			hung := c.Host(2).EtcdPIDs()
			c.Host(2).Signal(syscall.SIGSTOP)
			for _, pid := range hung {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			c.Voters(90*time.Second, 1, 3, 4)
			for _, pid := range hung {
				if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			c.Host(2).Signal(syscall.SIGCONT)
			c.Free(rig.Soon, c.Host(2), c.Host(1))
			w.Check()
		})
	}
}

// A host that comes back with another address is the same member.
func TestHostMovesToAnotherAddress(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	before := c.Voters(rig.Soon, 1, 2, 3)
	for i, h := range []*rig.Host{c.Host(2), c.Leader(rig.Soon, c.Host(1))} {
		h.Interrupt()
		w.WaitFor(10)
		h.Move(11 + i)
		h.Start()
		c.Voters(rig.Soon, 1, 2, 3)
	}
	after := c.Voters(rig.Soon, 1, 2, 3)
	rig.Same(t, before, after)
	w.Check()
}

// Without a quorum nothing is changed, however long it lasts: two of three
// hosts are gone for longer than --dead-after, and the third waits for them.
func TestTwoOfThreeAreGoneForAWhile(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Flags: []string{"--dead-after=3s"}})
	w := c.Write()
	c.Start(4)
	c.Leader(rig.Soon, c.Host(4))
	before := c.Voters(rig.Soon, 1, 2, 3)
	pid := c.Host(3).EtcdPID()
	c.Host(1).Crash()
	c.Host(2).Crash()
	c.Blocked(c.Host(3), "quorum")
	c.Passes(8 * time.Second)
	if now := c.Host(3).EtcdPID(); now != pid {
		t.Errorf("the etcd that was left had pid %d and has %d", pid, now)
	}
	c.Start(1, 2)
	after := c.Voters(rig.Soon, 1, 2, 3)
	rig.Same(t, before, after)
	w.Check()
}

// Whatever comes, in a random order: sizes, kills, stops, wiped disks (one at
// a time, and only while every other voter is there). The cluster finds its
// way back each time, and no acknowledged write is lost.
func TestStorm(t *testing.T) {
	if !*rig.Long {
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
	c := rig.NewCluster(t, rig.Options{Hosts: 5})
	c.Configure(3)
	c.Start(1, 2, 3, 4, 5)
	c.Members(rig.Soon, 3)
	w := c.Write()
	size := 3
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if random.IntN(2) == 0 {
			size = []int{1, 3, 5}[random.IntN(3)]
			t.Logf("%s: %d members are wanted", time.Now().Format(time.TimeOnly), size)
			c.Configure(size)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // somewhere on the way
		}
		for range 1 + random.IntN(2) {
			c.Harm(random, c.Hosts[random.IntN(len(c.Hosts))])
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		for _, h := range c.Hosts {
			if !h.Running() {
				h.Start()
			}
		}
		on := c.Members(3*time.Minute, size)
		if size > 1 && random.IntN(3) == 0 {
			h := c.Host(on[random.IntN(len(on))])
			t.Logf("%s: host %d loses its disk", time.Now().Format(time.TimeOnly), h.N)
			h.Crash()
			h.Wipe(random.IntN(2) == 0)
			h.Start()
			c.Members(3*time.Minute, size)
		}
	}
	w.Check()
}

// A member's data is gone: with the whole disk, with all of it but the host's
// ID, or without the daemon's own state, which remembers a member that has no
// log any more. It must not vote as the member that it was, and nothing is lost.
func TestDataIsWiped(t *testing.T) {
	t.Parallel()
	wipes := map[string]func(*rig.Host){
		"identity kept": func(h *rig.Host) { h.Wipe(true) },
		"all":           func(h *rig.Host) { h.Wipe(false) },
		"etcd's only": func(h *rig.Host) {
			if err := os.RemoveAll(filepath.Join(h.Dir, "data")); err != nil {
				t.Fatal(err)
			}
		},
	}
	for what, wipe := range wipes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if what != "etcd's only" && !*rig.Long {
				t.Skip("TestWalkthrough does so, too: -e2e.long")
			}
			c := rig.Formed(t, 3, rig.Options{})
			w := c.Write()
			w.WaitFor(100)
			before := c.Voters(rig.Soon, 1, 2, 3)
			h := c.RaftLeader(1, 2, 3)
			h.Crash()
			wipe(h)
			w.WaitFor(10)
			h.Start()
			after := c.Voters(90*time.Second, 1, 2, 3)
			if before[h.N-1].ID == after[h.N-1].ID {
				t.Errorf("the wiped host %d is member %x again", h.N, before[h.N-1].ID)
			}
			w.Check()
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
			c := rig.Formed(t, 3, rig.Options{Flags: []string{"--dead-after=5s"}})
			w := c.Write()
			w.WaitFor(100)
			h := c.Host(3)
			before := c.Voters(rig.Soon, 1, 2, 3)
			h.Crash()
			files, err := filepath.Glob(filepath.Join(h.Dir, "data", "*", "member", what))
			if what == "wal" {
				files, err = filepath.Glob(filepath.Join(h.Dir, "data", "*", "member", "wal", "*.wal"))
			}
			if err != nil || len(files) == 0 {
				t.Fatalf("there is nothing to damage (%v)", err)
			}
			for _, f := range files {
				if err := os.WriteFile(f, bytes.Repeat([]byte("damaged "), 4096), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h.Start()
			after := c.Voters(90*time.Second, 1, 2, 3)
			if before[2].ID == after[2].ID {
				t.Errorf("host 3 is member %x again, on damaged files", before[2].ID)
			}
			aside, err := filepath.Glob(filepath.Join(h.Dir, "data-trashcan", "*"))
			if err != nil || len(aside) == 0 {
				t.Errorf("nothing was set aside (%v)", err)
			}
			w.Check()
		})
	}
}

// The data of one of two voters, the one that leads raft, is removed under its process: raft
// goes on with it from memory only, so it is taken out while it lives, and joins anew. The
// other one has every acknowledged write, and goes on alone in between.
func TestOneOfTwoServesFromMemory(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes half a minute: -e2e.long")
	}
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 2})
	c.Start(1, 2)
	c.Configure(3)
	before := c.Voters(90*time.Second, 1, 2)
	w := c.Write()
	w.WaitFor(100)
	h := c.RaftLeader(1, 2)
	if err := os.RemoveAll(filepath.Join(h.Dir, "data")); err != nil {
		t.Fatal(err)
	}
	w.WaitFor(10) // from memory
	client := c.NewClient(3 - h.N)
	rig.Eventually(t, 90*time.Second, "another member on that host", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if m.ID == before[h.N-1].ID {
				return fmt.Errorf("member %x is listed still", m.ID)
			}
		}
		return nil
	})
	c.Voters(90*time.Second, 1, 2)
	w.WaitFor(10)
	w.Check()
}
