package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/testetcd"
)

// Every release forms a cluster, grows, gives a host without its disk a new
// member, and shrinks.
func TestEachRelease(t *testing.T) {
	t.Parallel()
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: 3, version: version})
			c.configure(1)
			c.start(1)
			c.voters(soon, 1)
			w := c.write()
			c.start(2, 3)
			c.configure(3)
			c.voters(soon, 1, 2, 3)
			c.host(1).crash()
			c.host(1).wipe(true)
			c.host(1).start()
			c.voters(soon, 1, 2, 3)
			c.configure(1)
			on := c.members(soon, 1)
			for _, h := range c.others(on) {
				c.free(soon, h, c.host(on[0]))
			}
			w.check()
		})
	}
}

// One program is a working cluster: with no release on the machine the daemon
// runs the etcd that it carries, and adopts it after a crash like any other.
func TestBuiltinEtcd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1, version: testetcd.V37})
	if builtin.Version != testetcd.V37 {
		t.Fatalf("the built-in etcd is %s; this test knows %s", builtin.Version, testetcd.V37)
	}
	h := c.host(1)
	h.flags = []string{"--release-dir=" + filepath.Join(c.dir, "none")}
	c.configure(1)
	h.start()
	c.voters(soon, 1)
	pid := h.etcdPID()
	if exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe")); err != nil || exe != filepath.Join(programs, "etcd-manager") {
		t.Errorf("etcd is the program %s (%v), want the daemon's own", exe, err)
	}
	h.kill()
	h.start()
	c.leader(soon, h)
	if now := h.etcdPID(); now != pid {
		t.Errorf("etcd had pid %d and has %d", pid, now)
	}
	h.interrupt()
	h.start()
	c.voters(soon, 1)
}
