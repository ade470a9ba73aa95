package rig

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

	"etcdadm.io/cluster"
)

// DiskOfItsOwn gives a host an ext4 of its own in a file, which can be frozen.
func (h *Host) DiskOfItsOwn(bytes int64) {
	t := h.C.T
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, a disk that can be frozen needs root")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED, a disk that can be frozen needs %s", tool)
		}
	}
	image := filepath.Join(h.C.Dir, fmt.Sprintf("disk-%d", h.N))
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("make a file system: %v: %s", err, said)
	}
	if said, err := exec.Command("mount", "-o", "loop", image, h.Dir).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, no file can be mounted here: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if err := EndAll(h.Dir); err != nil {
			t.Error(err)
		}
		h.reap()
		if said, err := exec.Command("umount", "--lazy", h.Dir).CombinedOutput(); err != nil {
			t.Errorf("take the disk away: %v: %s", err, said)
		}
	})
}

// Freeze has every write to a host's disk wait, until thaw. A process of its own
// thaws the disk, also when this one is killed, and after a minute at the latest:
// whoever waits for a frozen disk cannot be killed.
func (h *Host) Freeze() (thaw func()) {
	t := h.C.T
	t.Helper()
	guard := exec.Command("sh", "-c", `timeout 60 cat; exec fsfreeze --unfreeze "$1"`, "thaw", h.Dir)
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
	if said, err := exec.Command("fsfreeze", "--freeze", h.Dir).CombinedOutput(); err != nil {
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
			t.Errorf("the disk of host %d was not frozen any more, or cannot be thawed: %v: %s", h.N, err, said.String())
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// StatusSays waits until etcdadm status, asked on a host, has words in the lines
// that name another host.
func (c *Cluster) StatusSays(on, of *Host, words string) {
	c.T.Helper()
	id := string(of.ID())
	Eventually(c.T, Soon, fmt.Sprintf("the status says %q of host %d", words, of.N), func(context.Context) error {
		r := c.Etcdadm("status", "--data-dir", on.Dir)
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, id) && strings.Contains(line, words) {
				return nil
			}
		}
		return errors.New(r.String())
	})
}

// UnderWay runs an etcdadm command and gives the first host for which something
// holds meanwhile, and later how the command ended.
func (c *Cluster) UnderWay(what string, args []string, holds func(cluster.HostReport) bool) (*Host, <-chan Result) {
	c.T.Helper()
	leader := c.Agree()
	done := make(chan Result, 1)
	cmd := exec.Command(filepath.Join(Programs, "etcdadm"), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	go func() {
		said, _ := io.ReadAll(out)
		_ = cmd.Wait() // its code says it
		done <- Result{"etcdadm " + strings.Join(args, " "), string(said), "", cmd.ProcessState.ExitCode()}
	}()
	var found *Host
	Eventually(c.T, Soon, what+" under way", func(ctx context.Context) error {
		r, err := c.Report(ctx, leader)
		if err != nil {
			return err
		}
		if r.Observation == nil {
			return errors.New("there is no observation")
		}
		for _, s := range r.Observation.Hosts {
			for _, h := range c.Hosts {
				if holds(s) && h.ID() == s.Host {
					found = h
					return nil
				}
			}
		}
		return errors.New("on no host")
	})
	return found, done
}

// FillLarge puts n values of a megabyte.
func (c *Cluster) FillLarge(prefix string, n int) {
	c.T.Helper()
	value := make([]byte, 1_000_000)
	for i := range n {
		for j := 0; j+8 < len(value); j += 8 { // nothing that packs well
			x := uint64(i*len(value)+j+1) * 0x9E3779B97F4A7C15
			x ^= x >> 29
			value[j], value[j+1], value[j+2], value[j+3], value[j+4] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32)
		}
		Eventually(c.T, Soon, "writing a large value", func(ctx context.Context) error {
			_, err := c.Etcd().Put(ctx, fmt.Sprintf("%s%06d", prefix, i), string(value))
			return err
		})
	}
}
