package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"etcdadm.io/internal/cli"
)

// UndoesWithoutVersion takes away what says which etcd the data was of that host
// has set aside, and goes back to it.
func (c *Cluster) UndoesWithoutVersion(h *Host) {
	t := c.T
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(h.Dir, "data-trashcan", "*.json"))
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
	h.Kill() // the next one lists anew what lies there
	h.Start()
	var dir string
	Eventually(t, Soon, "what was set aside says its version", func(ctx context.Context) error {
		r, err := c.Report(ctx, h)
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
	if r := c.Etcdadm("restore", "--undo", "--from", string(h.ID()), "--dir", dir, "--store", c.StoreURL(), "--yes", "--wait", "100s"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Generation(3, 1)
}
