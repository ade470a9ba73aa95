package e2e

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
)

// Files in the store that nobody can read disturb nothing that runs; a spec is
// named and left where it is, a command is rejected.
func TestMalformedStore(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{})
	w := c.write()
	pid := c.host(1).etcdPID()
	spec := filepath.Join(c.store, "control", "etcd-cluster-spec")
	for _, content := range []string{"", "{", `{"memberCount":2,"etcdVersion":"3.6.16"}`, `{"memberCount":3,"etcdVersion":"latest"}`, strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(spec, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c.gap(c.host(1), cluster.GapSpec)
		if r := c.ctl("--backup-store="+c.storeURL(), "get"); r.code == 0 || strings.Count(r.stderr, "\n") > 2 {
			t.Errorf("get of a malformed spec: %s", r)
		}
		w.waitFor(5)
	}
	c.configure(1)
	command := filepath.Join(c.store, "control", "2026-01-02T03:04:05Z-000001", "_command.json")
	if err := os.MkdirAll(filepath.Dir(command), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(command, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the malformed command is rejected and taken out of the queue", func(context.Context) error {
		r := c.ctl("--backup-store="+c.storeURL(), "list-commands", "--all")
		if r.code != 0 || !strings.Contains(r.stdout, "rejected at") || !strings.Contains(r.stdout, "malformed") || exists(command) {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if now := c.host(1).etcdPID(); now != pid {
		t.Errorf("etcd was restarted: pid %d, now %d", pid, now)
	}
	w.check()
}

// A daemon does not guess about durable state that it cannot read: it starts
// no member, leaves everything where it is, and says so; with the file mended
// it is the old host again.
func TestMalformedState(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{})
	w := c.write()
	h := c.host(1)
	h.interrupt()
	for _, name := range []string{"etcdadm/state.json", "etcdadm/journal.json", "etcdadm/process.json"} {
		path := filepath.Join(h.dir, name)
		good, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, content := range []string{"", "{", string(good[:len(good)/2])} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "process.json") {
				h.refused("process.json", h.dir, c.store)
				continue
			}
			before := tree(t, filepath.Join(h.dir, "data"))
			if err := os.Truncate(h.log, 0); err != nil {
				t.Fatal(err)
			}
			h.start()
			h.said(soon, "cannot be read, so its member is not started")
			h.interrupt()
			sameTree(t, before, tree(t, filepath.Join(h.dir, "data")))
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
	h.start()
	c.voters(soon, 1)
	w.check()
}
