package form

import (
	"os"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// The walkthrough of the predecessor's handbook: one host, a spec, a cluster
// that clients of every release can use; two more hosts and a larger spec, and
// it grows without a restart of anything; hosts stop, start and lose their
// disks, and are healthy voters again by themselves.
func TestWalkthrough(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	c.Start(1)
	c.Configure(1)
	c.Host(1).Serves(rig.Soon)
	for i, version := range testetcd.Versions() {
		key, value := "hello"+version, strings.Repeat("world", i+1)
		if r := c.Etcdctl(c.Host(1), version, "put", key, value); r.Code != 0 || !strings.Contains(r.Stdout, "OK") {
			t.Fatalf("put: %s", r)
		}
		if r := c.Etcdctl(c.Host(1), version, "get", key); r.Stdout != key+"\n"+value+"\n" {
			t.Fatalf("get: %s", r)
		}
	}
	w := c.Write()
	first, daemon := c.Host(1).EtcdPID(), c.Host(1).Cmd.Process.Pid

	c.Start(2, 3)
	c.Configure(3)
	c.Voters(rig.Soon, 1, 2, 3)
	if pid := c.Host(1).EtcdPID(); pid != first {
		t.Errorf("growing restarted the first etcd: its pid was %d and is %d", first, pid)
	}
	if !c.Host(1).Running() || c.Host(1).Cmd.Process.Pid != daemon {
		t.Error("growing ended the first daemon")
	}
	r := c.Ctl("--backup-store="+c.StoreURL(), "get")
	if r.Code != 0 || r.Stdout != "Backup Store: "+c.StoreURL()+"\nmember_count:3 etcd_version:\"3.6.16\"\n" {
		t.Errorf("get prints: %s", r)
	}

	for _, n := range []int{2, 1} {
		c.Host(n).Interrupt()
		w.WaitFor(10)
		c.Host(n).Start()
		c.Voters(rig.Soon, 1, 2, 3)
	}
	for _, keepIdentity := range []bool{true, false} {
		c.Host(3).Crash()
		c.Host(3).Wipe(keepIdentity)
		w.WaitFor(10)
		c.Host(3).Start()
		c.Voters(rig.Soon, 1, 2, 3)
	}
	w.Check()
}

// The same in the words of etcdadm: seed and auto, and hosts under either
// program are one cluster.
func TestSeedAndAuto(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	if r := c.Etcdadm("seed", "--create-store", c.StoreURL(), "version="+c.Options.Version, "nodes=3"); r.Code != 0 {
		t.Fatal(r)
	}
	c.Host(1).Auto, c.Host(2).Auto = true, true
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	w := c.Write()
	pid := c.Host(1).EtcdPID()
	c.Host(1).Kill()
	c.Host(1).Auto = false
	c.Host(1).Start()
	c.Leader(rig.Soon, c.Host(1))
	c.Voters(rig.Soon, 1, 2, 3)
	if now := c.Host(1).EtcdPID(); now != pid {
		t.Errorf("the other program's daemon did not adopt etcd: its pid was %d and is %d", pid, now)
	}
	w.Check()
}

// The same with the spec first: it waits in the store for the daemons.
func TestSpecBeforeDaemons(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	// A start without any trouble warns of nothing.
	data, err := os.ReadFile(c.Host(1).Log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("a plain start says: %s", line)
		}
	}
}
