package backups

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testetcd"
)

// Backups come on demand and by themselves, in the shape that others read;
// they are listed, shown, verified and restored in a drill; the damaged one is
// found out.
func TestBackups(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, Flags: []string{"--backup-interval=3s"}})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	w := c.Write()
	c.Fill("k/", 500)
	name := c.TakeBackup()
	rig.Eventually(t, rig.Soon, "two backups by themselves", func(context.Context) error {
		n := len(slices.DeleteFunc(c.ListBackups(), func(b rig.Listed) bool { return b.Reason != string(backup.ReasonPeriodic) }))
		if n < 2 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	all := c.ListBackups()
	at := slices.IndexFunc(all, func(b rig.Listed) bool { return b.Name == name })
	if at < 0 || all[at].Reason != string(backup.ReasonRequested) {
		t.Fatalf("backup %s is not listed as requested: %+v", name, all)
	}
	// It was taken while clients wrote, and yet it says exactly where it ends.
	if s, b := c.SnapshotStatus(name), all[at]; s.TotalKey < 500 || s.Revision != b.Revision || b.RevisionAtLeast || b.Keys < 500 {
		t.Errorf("etcdutl says %+v of a backup listed as %+v", s, all[at])
	}
	c.KeepsTheFormat(name)
	var shown struct {
		Manifest struct{ Snapshot backup.Content }
	}
	if r := c.Backups("show", name, "-o", "json"); json.Unmarshal([]byte(r.Stdout), &shown) != nil || shown.Manifest.Snapshot.Size == 0 {
		t.Errorf("show: %s", r)
	}
	if r := c.Backups("verify", name); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Backups("drill", name, "--release-dir", cache); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	if i := slices.IndexFunc(c.ListBackups(), func(b rig.Listed) bool { return b.Name == name && b.Proven == string(backup.DepthDrilled) }); i < 0 {
		t.Errorf("the drill is not kept beside the backup: %+v", c.ListBackups())
	}
	for what, damage := range damages() {
		bad := "2026-01-01T00:00:00Z-00000" + fmt.Sprint(len(what)%10)
		c.CopyBackup(name, bad, damage)
		if r := c.Backups("verify", bad); r.Code != cli.ExitUnsafe {
			t.Errorf("%s: verify says %s", what, r)
		}
	}
	w.Check()
}

// damages are what may have happened to a backup's file.
func damages() map[string]func(file string, data []byte) []byte {
	of := func(damage func([]byte) []byte) func(string, []byte) []byte {
		return func(file string, data []byte) []byte {
			if file == rig.BackupFile {
				return damage(bytes.Clone(data))
			}
			return data
		}
	}
	return map[string]func(string, []byte) []byte{
		"a flipped byte": of(func(data []byte) []byte {
			data[len(data)/2] ^= 1
			return data
		}),
		"truncated": of(func(data []byte) []byte { return data[:len(data)*2/3] }),
	}
}

// A backup that is damaged or not there is refused before anything that runs
// is touched, whichever way the command came, and the command says why.
func TestBadBackupsAreRejected(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	c.Fill("k/", 200)
	name := c.TakeBackup()
	members, pids := c.Voters(rig.Soon, 1, 2, 3), c.Pids()
	n := 0
	rejected := func(what string, r rig.Result, words string) {
		t.Helper()
		if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stdout, "rejected: ") || !strings.Contains(r.Stdout, words) {
			t.Errorf("%s: %s", what, r)
		}
		n++
	}
	for what, damage := range damages() {
		bad := "2026-01-01T00:00:00Z-00000" + fmt.Sprint(len(what)%10)
		c.CopyBackup(name, bad, damage)
		if what == "truncated" { // that shows before the object is read
			if r := c.Restore(bad); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "nothing was queued") || !strings.Contains(r.Stderr, "BAD") {
				t.Errorf("%s: %s", what, r)
			}
		}
		rejected(what, c.Restore(bad, "--accept-damage"), "")
	}
	const missing = "2026-01-01T00:00:00Z-009999"
	if r := c.Ctl("--backup-store="+c.StoreURL(), "restore-backup", missing); r.Code != cli.ExitError || !strings.Contains(r.Stderr, "list-backups") {
		t.Errorf("the ctl takes a name that does not exist: %s", r)
	}
	if r := c.Restore(missing, "--members", "1"); r.Code != cli.ExitError || !strings.Contains(r.Stderr, "backup list") {
		t.Errorf("etcdadm takes a name that does not exist: %s", r)
	}
	queued, err := c.Folder().AddRestore(t.Context(), control.RestoreBackup{Backup: missing}) // as another program may
	if err != nil {
		t.Fatal(err)
	}
	c.Ended(queued, "rejected")
	for _, path := range []string{"../other/2026-01-01T00:00:00Z-000001", "a/b", "..", "/etc/passwd"} {
		if r := c.Ctl("--backup-store="+c.StoreURL(), "restore-backup", path); r.Code != cli.ExitUsage {
			t.Errorf("a path as a backup's name: %s", r)
		}
		if r := c.Restore(path); r.Code != cli.ExitUsage {
			t.Errorf("a path as a backup's name: %s", r)
		}
	}
	c.QueueByHand("2026-01-01T00:00:00Z-000000", `{"timestamp":"1","restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"},"backup":"../../x"}}`)
	c.Ended("2026-01-01T00:00:00Z-000000", "rejected")
	c.RejectsARelease(name)
	rig.Same(t, members, c.Voters(rig.Soon, 1, 2, 3))
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("a backup that cannot be used touched what runs: the etcds had the pids %v and have %v", pids, now)
	}
	if r := c.Ctl("--backup-store="+c.StoreURL(), "list-commands", "--all"); strings.Count(r.Stdout, "rejected at") != n+3 {
		t.Errorf("%s", r)
	}
	w.Check()
}
