package form

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/testetcd"
)

// Every release forms a cluster, grows, gives a host without its disk a new
// member, and shrinks.
func TestEachRelease(t *testing.T) {
	t.Parallel()
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			if version != testetcd.V36 {
				rig.TakesLong(t, "20 s")
			}
			t.Parallel()
			c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: version})
			c.Configure(1)
			c.Start(1)
			c.Voters(rig.Soon, 1)
			w := c.Write()
			c.Start(2, 3)
			c.Configure(3)
			c.Voters(rig.Soon, 1, 2, 3)
			c.Host(1).Crash()
			c.Host(1).Wipe(true)
			c.Host(1).Start()
			c.Voters(rig.Soon, 1, 2, 3)
			c.Configure(1)
			on := c.Members(rig.Soon, 1)
			for _, h := range c.Others(on) {
				c.Free(rig.Soon, h, c.Host(on[0]))
			}
			w.Check()
		})
	}
}

// One program is a working cluster: with no release on the machine the daemon
// runs the etcd that it carries, and adopts it after a crash like any other.
func TestBuiltinEtcd(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, Version: testetcd.V37})
	if builtin.Version != testetcd.V37 {
		t.Fatalf("the built-in etcd is %s; this test knows %s", builtin.Version, testetcd.V37)
	}
	h := c.Host(1)
	h.Flags = []string{"--release-dir=" + filepath.Join(c.Dir, "none")}
	c.Configure(1)
	h.Start()
	c.Voters(rig.Soon, 1)
	pid := h.EtcdPID()
	if exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); err != nil || exe != filepath.Join(rig.Programs, "etcd-manager") {
		t.Errorf("etcd is the program %s (%v), want the daemon's own", exe, err)
	}
	h.Kill()
	h.Start()
	c.Leader(rig.Soon, h)
	if now := h.EtcdPID(); now != pid {
		t.Errorf("etcd had pid %d and has %d", pid, now)
	}
	h.Interrupt()
	h.Start()
	c.Voters(rig.Soon, 1)
}
