package e2e

import (
	"os"
	"strings"
	"testing"

	"etcdadm.io/internal/testetcd"
)

// The walkthrough of the predecessor's handbook: one host, a spec, a cluster
// that clients of every release can use; two more hosts and a larger spec, and
// it grows without a restart of anything; hosts stop, start and lose their
// disks, and are healthy voters again by themselves.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	c.start(1)
	c.configure(1)
	c.host(1).serves(soon)
	for i, version := range testetcd.Versions() {
		key, value := "hello"+version, strings.Repeat("world", i+1)
		if r := c.etcdctl(c.host(1), version, "put", key, value); r.code != 0 || !strings.Contains(r.stdout, "OK") {
			t.Fatalf("put: %s", r)
		}
		if r := c.etcdctl(c.host(1), version, "get", key); r.stdout != key+"\n"+value+"\n" {
			t.Fatalf("get: %s", r)
		}
	}
	w := c.write()
	first, daemon := c.host(1).etcdPID(), c.host(1).cmd.Process.Pid

	c.start(2, 3)
	c.configure(3)
	c.voters(soon, 1, 2, 3)
	if pid := c.host(1).etcdPID(); pid != first {
		t.Errorf("growing restarted the first etcd: its pid was %d and is %d", first, pid)
	}
	if !c.host(1).running() || c.host(1).cmd.Process.Pid != daemon {
		t.Error("growing ended the first daemon")
	}
	r := c.ctl("--backup-store="+c.storeURL(), "get")
	if r.code != 0 || r.stdout != "Backup Store: "+c.storeURL()+"\nmember_count:3 etcd_version:\"3.6.16\"\n" {
		t.Errorf("get prints: %s", r)
	}

	for _, n := range []int{2, 1} {
		c.host(n).interrupt()
		w.waitFor(10)
		c.host(n).start()
		c.voters(soon, 1, 2, 3)
	}
	for _, keepIdentity := range []bool{true, false} {
		c.host(3).crash()
		c.host(3).wipe(keepIdentity)
		w.waitFor(10)
		c.host(3).start()
		c.voters(soon, 1, 2, 3)
	}
	w.check()
}

// The same in the words of etcdadm: seed and auto, and hosts under either
// program are one cluster.
func TestSeedAndAuto(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	if r := c.etcdadm("seed", "--create-store", c.storeURL(), "version="+c.options.version, "nodes=3"); r.code != 0 {
		t.Fatal(r)
	}
	c.host(1).auto, c.host(2).auto = true, true
	c.start(1, 2, 3)
	c.voters(soon, 1, 2, 3)
	w := c.write()
	pid := c.host(1).etcdPID()
	c.host(1).kill()
	c.host(1).auto = false
	c.host(1).start()
	c.leader(soon, c.host(1))
	c.voters(soon, 1, 2, 3)
	if now := c.host(1).etcdPID(); now != pid {
		t.Errorf("the other program's daemon did not adopt etcd: its pid was %d and is %d", pid, now)
	}
	w.check()
}

// The same with the spec first: it waits in the store for the daemons.
func TestSpecBeforeDaemons(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	// A start without any trouble warns of nothing.
	data, err := os.ReadFile(c.host(1).log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("a plain start says: %s", line)
		}
	}
}
