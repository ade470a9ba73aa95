package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
)

// diskOfItsOwn gives a host an ext4 of its own in a file, which can be frozen.
func (h *host) diskOfItsOwn(bytes int64) {
	t := h.c.t
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, a disk that can be frozen needs root")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED, a disk that can be frozen needs %s", tool)
		}
	}
	image := filepath.Join(h.c.dir, fmt.Sprintf("disk-%d", h.n))
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("make a file system: %v: %s", err, said)
	}
	if said, err := exec.Command("mount", "-o", "loop", image, h.dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, no file can be mounted here: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if err := endAll(h.dir); err != nil {
			t.Error(err)
		}
		h.reap()
		if said, err := exec.Command("umount", "--lazy", h.dir).CombinedOutput(); err != nil {
			t.Errorf("take the disk away: %v: %s", err, said)
		}
	})
}

// freeze has every write to a host's disk wait, until thaw. A process of its own
// thaws the disk, also when this one is killed, and after a minute at the latest:
// whoever waits for a frozen disk cannot be killed.
func (h *host) freeze() (thaw func()) {
	t := h.c.t
	t.Helper()
	guard := exec.Command("sh", "-c", `timeout 60 cat; exec fsfreeze --unfreeze "$1"`, "thaw", h.dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	held, err := guard.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	guard.Stdout, guard.Stderr = &said, &said
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("fsfreeze", "--freeze", h.dir).CombinedOutput(); err != nil {
		held.Close()
		_ = guard.Wait() // there is nothing to thaw
		t.Skipf("SKIPPED, no file system can be frozen here: %v: %s", err, said)
	}
	done := false
	thaw = func() {
		if done {
			return
		}
		done = true
		held.Close()
		if err := guard.Wait(); err != nil {
			t.Errorf("the disk of host %d was not frozen any more, or cannot be thawed: %v: %s", h.n, err, said.String())
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// statusSays waits until etcdadm status, asked on a host, has words in the lines
// that name another host.
func (c *testCluster) statusSays(on, of *host, words string) {
	c.t.Helper()
	id := string(of.id())
	eventually(c.t, soon, fmt.Sprintf("the status says %q of host %d", words, of.n), func(context.Context) error {
		r := c.etcdadm("status", "--data-dir", on.dir)
		for line := range strings.Lines(r.stdout) {
			if strings.Contains(line, id) && strings.Contains(line, words) {
				return nil
			}
		}
		return errors.New(r.String())
	})
}

// The disk of one host stands still: every write to it waits. That is the disk
// of raft's leader, of the host that takes a backup, and of the one that makes a
// restore ready. Whoever asks is told which disk it is, others go on where they
// can, and nothing waits for a person once the disk goes on.
func TestDiskStandsStill(t *testing.T) {
	if !*long {
		t.Skip("takes some minutes: -e2e.long")
	}
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	for _, h := range c.hosts {
		h.diskOfItsOwn(3 << 30)
	}
	c.configure(3)
	c.start(1, 2, 3)
	before := c.voters(soon, 1, 2, 3)
	c.fillLarge("large/", 300)
	w := c.write()

	led := c.raftLeader(1, 2, 3)
	thaw := led.freeze()
	began := time.Now()
	w.waitFor(20)
	t.Logf("the disk of raft's leader stands still: 20 writes more after %s", time.Since(began).Round(time.Millisecond))
	c.statusSays(c.host(without(3, led)[0]), led, "disk")
	thaw()
	same(t, before, c.voters(soon, 1, 2, 3))

	h, done := c.underWay("a backup", []string{"backup", "--store", c.storeURL(), "create", "--wait=90s"}, func(s cluster.HostReport) bool {
		return s.Taken != nil && s.Taken.Running
	})
	thaw = h.freeze()
	c.statusSays(c.host(without(3, h)[0]), h, "disk")
	w.waitFor(20)
	thaw()
	if r := <-done; r.code != cli.ExitOK {
		t.Errorf("the disk of the host that took it stood still: %s", r)
	}
	same(t, before, c.voters(soon, 1, 2, 3))
	w.check()

	name := c.takeBackup()
	h, done = c.underWay("staging", []string{"restore", "--store", c.storeURL(), "--yes", "--wait=100s", name}, func(s cluster.HostReport) bool {
		return s.Staged != nil && (s.Staged.State == cluster.StageFetching || s.Staged.State == cluster.StageBuilding)
	})
	thaw = h.freeze()
	c.statusSays(c.host(without(3, h)[0]), h, "disk")
	c.passes(5 * time.Second)
	thaw()
	if r := <-done; r.code != cli.ExitOK {
		t.Errorf("the disk of the host that made the restore ready stood still: %s", r)
	}
	c.generation(2, 1, 2, 3)
	w.compare(c.etcd()) // all of it was before the backup
	c.write().check()
}

// underWay runs an etcdadm command and gives the first host for which something
// holds meanwhile, and later how the command ended.
func (c *testCluster) underWay(what string, args []string, holds func(cluster.HostReport) bool) (*host, <-chan result) {
	c.t.Helper()
	leader := c.agree()
	done := make(chan result, 1)
	cmd := exec.Command(filepath.Join(programs, "etcdadm"), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		said, _ := io.ReadAll(out)
		_ = cmd.Wait() // its code says it
		done <- result{"etcdadm " + strings.Join(args, " "), string(said), "", cmd.ProcessState.ExitCode()}
	}()
	var found *host
	eventually(c.t, soon, what+" under way", func(ctx context.Context) error {
		r, err := c.report(ctx, leader)
		if err != nil {
			return err
		}
		if r.Observation == nil {
			return errors.New("there is no observation")
		}
		for _, s := range r.Observation.Hosts {
			for _, h := range c.hosts {
				if holds(s) && h.id() == s.Host {
					found = h
					return nil
				}
			}
		}
		return errors.New("on no host")
	})
	return found, done
}

// fillLarge puts n values of a megabyte.
func (c *testCluster) fillLarge(prefix string, n int) {
	c.t.Helper()
	value := make([]byte, 1_000_000)
	for i := range n {
		for j := 0; j+8 < len(value); j += 8 { // nothing that packs well
			x := uint64(i*len(value)+j+1) * 0x9E3779B97F4A7C15
			x ^= x >> 29
			value[j], value[j+1], value[j+2], value[j+3], value[j+4] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32)
		}
		eventually(c.t, soon, "writing a large value", func(ctx context.Context) error {
			_, err := c.etcd().Put(ctx, fmt.Sprintf("%s%06d", prefix, i), string(value))
			return err
		})
	}
}
