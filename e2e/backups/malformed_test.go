package backups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
)

// Files in the store that nobody can read disturb nothing that runs; a spec is
// named and left where it is, a command is rejected.
func TestMalformedStore(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{})
	w := c.Write()
	pid := c.Host(1).EtcdPID()
	spec := filepath.Join(c.Store, "control", "etcd-cluster-spec")
	for _, content := range []string{"", "{", `{"memberCount":2,"etcdVersion":"3.6.16"}`, `{"memberCount":3,"etcdVersion":"latest"}`, strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(spec, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Gap(c.Host(1), cluster.GapSpec)
		if r := c.Ctl("--backup-store="+c.StoreURL(), "get"); r.Code == 0 || strings.Count(r.Stderr, "\n") > 2 {
			t.Errorf("get of a malformed spec: %s", r)
		}
		w.WaitFor(5)
	}
	c.Configure(1)
	command := filepath.Join(c.Store, "control", "2026-01-02T03:04:05Z-000001", "_command.json")
	if err := os.MkdirAll(filepath.Dir(command), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(command, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, 20*time.Second, "the malformed command is rejected and taken out of the queue", func(context.Context) error {
		r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands", "--all")
		if r.Code != 0 || !strings.Contains(r.Stdout, "rejected at") || !strings.Contains(r.Stdout, "malformed") || rig.Exists(command) {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if now := c.Host(1).EtcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
	w.Check()
}

// A daemon does not guess about durable state that it cannot read: it starts
// no member, leaves everything where it is, and says so; with the file mended
// it is the old host again.
func TestMalformedState(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{})
	w := c.Write()
	h := c.Host(1)
	h.Interrupt()
	for _, name := range []string{"etcdadm/state.json", "etcdadm/journal.json", "etcdadm/process.json"} {
		path := filepath.Join(h.Dir, name)
		good, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, content := range []string{"", "{", string(good[:len(good)/2])} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "process.json") {
				h.Refused("process.json", h.Dir, c.Store)
				continue
			}
			before := rig.Tree(t, filepath.Join(h.Dir, "data"))
			if err := os.Truncate(h.Log, 0); err != nil {
				t.Fatal(err)
			}
			h.Start()
			h.Said(rig.Soon, "does not start its member")
			h.Interrupt()
			rig.SameTree(t, before, rig.Tree(t, filepath.Join(h.Dir, "data")))
		}
		if good == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, good, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Start()
	c.Voters(rig.Soon, 1)
	w.Check()
}
