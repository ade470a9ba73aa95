package tls

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/pki"
)

// Three daemons as in pods: below a first process, with leaves that somebody else renews and no authority's key. Clients
// write while a daemon is killed, which ends no etcd; while other authorities are to be trusted, for which members restart one by
// one; and while a pod is ended, which moves raft's leader before it.
func TestPods(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{TLS: true, Hosts: 3})
	dir := func(h *rig.Host) string { return filepath.Join(c.Dir, fmt.Sprintf("leaves%d", h.N)) }
	id := func(h *rig.Host) string { return fmt.Sprintf("pod-%d", h.N) }
	for _, h := range c.Hosts {
		h.PutLeaves(dir(h), id(h))
		rig.Put(t, filepath.Join(h.Dir, "myid"), []byte(id(h)+"\n"), 0o600)
		h.Pod, h.Flags = true, []string{"--leaves-dir=" + dir(h), "--etcd-log=stdout"}
	}
	c.Form(3)
	c.Host(1).Said(rig.Soon, "ready to serve client requests") // etcd's own words
	for _, h := range c.Hosts {
		if made, err := filepath.Glob(filepath.Join(h.Dir, "pki", "*")); err != nil || len(made) > 0 {
			t.Errorf("certificates were made on the disk of host %d: %v %v", h.N, made, err)
		}
	}
	if r := c.Etcdadm("member", "promote", id(c.Host(2)), "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "is a voter") {
		t.Errorf("a person in the pod may not have a step taken: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	w := c.Write()

	before := c.Pids()
	if err := syscall.Kill(c.Host(1).DaemonBelow(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Soon, "another daemon of host 1 that has adopted its etcd", func(context.Context) error {
		data, err := os.ReadFile(c.Host(1).Log)
		if err == nil && !strings.Contains(string(data), "adopted the running etcd") {
			err = errors.New("not in its log")
		}
		return err
	})
	c.Voters(rig.Soon, 1, 2, 3)
	if now := c.Pids(); now[0] != before[0] {
		t.Errorf("the etcd of host 1 was %d and is %d after its daemon was killed", before[0], now[0])
	}

	other := filepath.Join(c.Dir, "other")
	if _, err := pki.Create(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	next, err := pki.Load(other, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range c.Hosts {
		h.PutLeaves(dir(h), id(h), next)
	}
	for _, h := range c.Hosts {
		c.Process(h, c.Host(1), "a member that was started with both authorities of two", func(p cluster.Process) bool { return len(p.Trusts) == 4 })
	}
	c.Voters(rig.Soon, 1, 2, 3)
	for i, now := range c.Pids() {
		if now == before[i] {
			t.Errorf("the etcd of host %d still trusts what it was started with", i+1)
		}
	}
	c.Host(1).Term()
	if pid := c.Host(1).EtcdPID(); pid != 0 {
		t.Errorf("etcd outlives its pod, as %d", pid)
	}
	w.Check()
}
