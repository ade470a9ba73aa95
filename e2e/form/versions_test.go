package form

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// versions lists what the daemon of a host finds, of directories that the shell does not
// know; and what the shell finds where no daemon answers, which is said.
func TestVersionsAreTheDaemons(t *testing.T) {
	t.Parallel()
	own := t.TempDir()
	program := filepath.Join(own, "etcd-v3.5.30", "etcd")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho etcd Version: 3.5.30\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := rig.NewCluster(t, rig.Options{Hosts: 1, TLS: true, Env: []string{"ETCDADM_RELEASES="}})
	h := c.Host(1)
	h.Env = []string{"ETCDADM_RELEASES=" + own}
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	if r := c.Etcdadm("versions", "--data-dir", h.Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "the daemon of host "+string(h.ID())) || !strings.Contains(r.Stdout, "3.5.30") || !strings.Contains(r.Stdout, own) {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("versions", "-o", "json", "--data-dir", h.Dir); !strings.Contains(r.Stdout, `"host": "`+string(h.ID())+`"`) {
		t.Errorf("%s", r)
	}
	const shells = "this is what this shell finds"
	if r := c.Etcdadm("versions"); r.Code != cli.ExitOK || !strings.Contains(r.Stderr, shells) || strings.Contains(r.Stdout, own) {
		t.Errorf("%s", r)
	}
	h.Interrupt()
	if r := c.Etcdadm("versions", "--data-dir", h.Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stderr, shells) || !strings.Contains(r.Stderr, "no daemon answers") || strings.Contains(r.Stdout, own) {
		t.Errorf("%s", r)
	}
}
