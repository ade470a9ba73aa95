package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
)

// A backup all of whose files beside the snapshot are damaged, so that nothing
// says which etcd wrote it, is restored from only by who accepts that; it is said
// to the end. A drill is seen at once, and is not repeated by a daemon that was
// restarted. Data that was set aside by a release that did not write down which
// etcd it was of is gone back to all the same.
func TestRestoreOfABackupCalledBad(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{flags: []string{"--backup-drill-interval=1h"}})
	h := c.host(1)
	c.fill("k/", 200)
	name := c.takeBackup()
	eventually(t, soon, "the drill is seen", func(ctx context.Context) error {
		r, err := c.report(ctx, h)
		switch {
		case err != nil:
			return err
		case r.Backups == nil || r.Backups.Proven == nil || r.Backups.Proven.Drilled.IsZero():
			return fmt.Errorf("it is not: %+v", r.Backups)
		}
		return nil
	})
	h.term()
	h.stopped(soon)
	h.start()
	c.voters(soon, 1)
	for _, file := range []string{"_etcd_backup.meta", "_etcdadm_backup.json"} {
		data, err := os.ReadFile(c.file(name, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte(`"depth": "drilled"`)); file == "_etcdadm_backup.json" && n != 1 {
			t.Errorf("it was tried out %d times:\n%s", n, data)
		}
		if err := os.WriteFile(c.file(name, file), data[:len(data)/3], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.fill("later/", 10)
	if r := c.restore(name); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "is BAD") || !strings.Contains(r.stderr, "--accept-damage") {
		t.Errorf("it is restored from unasked: %s", r)
	}
	if r := c.restore(name, "--accept-damage"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "BAD") {
		t.Fatalf("%s", r)
	}
	c.generation(2, 1)
	if n, later := c.countKeys("k/"), c.countKeys("later/"); n != 200 || later != 0 {
		t.Errorf("%d and %d keys, want 200 and none", n, later)
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands", "--all"); !strings.Contains(r.stdout, "restore-backup "+name) || !strings.Contains(r.stdout, "BAD") {
		t.Errorf("%s", r)
	}
	c.undoesWithoutVersion(h)
	if n, later := c.countKeys("k/"), c.countKeys("later/"); n != 200 || later != 10 {
		t.Errorf("after the undo %d and %d keys, want 200 and 10", n, later)
	}
}

// undoesWithoutVersion takes away what says which etcd the data was of that host
// has set aside, and goes back to it.
func (c *testCluster) undoesWithoutVersion(h *host) {
	t := c.t
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(h.dir, "data-trashcan", "*.json"))
	if err != nil || len(notes) != 1 {
		t.Fatalf("%v %v", notes, err)
	}
	data, err := os.ReadFile(notes[0])
	if err != nil {
		t.Fatal(err)
	}
	var note map[string]any
	if err := json.Unmarshal(data, &note); err != nil || note["version"] == nil {
		t.Fatalf("%v in %s", err, data)
	}
	delete(note, "version")
	if data, err = json.Marshal(note); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(notes[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.kill() // the next one lists anew what lies there
	h.start()
	var dir string
	eventually(t, soon, "what was set aside says its version", func(ctx context.Context) error {
		r, err := c.report(ctx, h)
		switch {
		case err != nil:
			return err
		case r.Observation == nil:
			return errors.New("nothing was observed yet")
		}
		for _, o := range r.Observation.Hosts {
			for _, a := range o.SetAside {
				if v := a.Version; v.Major == 3 && v.Minor == 6 && v.Patch == 0 {
					dir = a.Dir
					return nil
				}
			}
		}
		return fmt.Errorf("it does not: %+v", r.Observation.Hosts)
	})
	if r := c.etcdadm("restore", "--undo", "--from", string(h.id()), "--dir", dir, "--store", c.storeURL(), "--yes", "--wait", "100s"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.generation(3, 1)
}
