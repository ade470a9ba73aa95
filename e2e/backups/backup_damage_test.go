package backups

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A backup all of whose files beside the snapshot are damaged, so that nothing
// says which etcd wrote it, is restored from only by who accepts that; it is said
// to the end. A drill is seen at once, and is not repeated by a daemon that was
// restarted. Data that was set aside by a release that did not write down which
// etcd it was of is gone back to all the same.
func TestRestoreOfABackupCalledBad(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{Flags: []string{"--backup-drill-interval=1h"}})
	h := c.Host(1)
	c.Fill("k/", 200)
	name := c.TakeBackup()
	rig.Eventually(t, rig.Soon, "the drill is seen", func(ctx context.Context) error {
		r, err := c.Report(ctx, h)
		switch {
		case err != nil:
			return err
		case r.Backups == nil || r.Backups.Proven == nil || r.Backups.Proven.Drilled.IsZero():
			return fmt.Errorf("it is not: %+v", r.Backups)
		}
		return nil
	})
	h.Term()
	h.Stopped(rig.Soon)
	h.Start()
	c.Voters(rig.Soon, 1)
	for _, file := range []string{"_etcd_backup.meta", "_etcdadm_backup.json"} {
		data, err := os.ReadFile(c.File(name, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte(`"depth": "drilled"`)); file == "_etcdadm_backup.json" && n != 1 {
			t.Errorf("it was tried out %d times:\n%s", n, data)
		}
		if err := os.WriteFile(c.File(name, file), data[:len(data)/3], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Fill("later/", 10)
	if r := c.Restore(name); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "is BAD") || !strings.Contains(r.Stderr, "--accept-damage") {
		t.Errorf("it is restored from unasked: %s", r)
	}
	if r := c.Restore(name, "--accept-damage"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "BAD") {
		t.Fatalf("%s", r)
	}
	c.Generation(2, 1)
	if n, later := c.CountKeys("k/"), c.CountKeys("later/"); n != 200 || later != 0 {
		t.Errorf("%d and %d keys, want 200 and none", n, later)
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands", "--all"); !strings.Contains(r.Stdout, "restore-backup "+name) || !strings.Contains(r.Stdout, "BAD") {
		t.Errorf("%s", r)
	}
	c.UndoesWithoutVersion(h)
	if n, later := c.CountKeys("k/"), c.CountKeys("later/"); n != 200 || later != 10 {
		t.Errorf("after the undo %d and %d keys, want 200 and 10", n, later)
	}
}
