package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// The backup store is gone for a while. The cluster serves on and says so; a
// member is not taken out meanwhile; the backups catch up when it is back.
func TestStoreIsGoneForAWhile(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Flags: []string{"--backup-interval=3s"}})
	c.Start(4)
	leader := c.Leader(rig.Soon, c.Host(4))
	w := c.Write()
	c.TakeBackup()
	last := c.ListBackups()[0].Name
	away := c.Store + ".away"
	if err := os.Rename(c.Store, away); err != nil {
		t.Fatal(err)
	}
	c.Blocked(leader, "the backup store cannot be read")
	pids := c.Pids()
	w.WaitFor(200)
	c.Passes(4 * time.Second) // a backup is due
	h := c.Host(rig.Without(3, c.RaftLeader(1, 2, 3))[0])
	r := c.Etcdadm("member", "remove", string(h.ID()), "--hold", "--yes", "--timeout=5s", "--data-dir", leader.Dir)
	if r.Code == cli.ExitOK || !strings.Contains(r.Stdout+r.Stderr, "backup store") {
		t.Errorf("a member is to be taken out while the store is gone: %s", r)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("without the store the etcds had the pids %v and have %v", pids, now)
	}
	if err := os.RemoveAll(c.Store); err != nil { // nobody makes it anew
		t.Fatal(err)
	}
	if err := os.Rename(away, c.Store); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, rig.Soon, "a newer backup", func(context.Context) error {
		if now := c.ListBackups()[0].Name; now <= last {
			return fmt.Errorf("the newest is %s", now)
		}
		return nil
	})
	w.Check()
}

// Old backups are removed by the policy once another one was taken; the first
// of each day and the newest proven one stay.
func TestOldBackupsArePruned(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, Flags: []string{"--backup-interval=1h"}})
	c.Host(1).Env = []string{"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=1d", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION=3d"}
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	newest := c.TakeBackup()
	old := time.Now().UTC().Add(-400 * 24 * time.Hour).Truncate(time.Second)
	proven := fakeName(old.Add(17 * time.Hour))
	for i := range 300 {
		name := fakeName(old.Add(time.Duration(i) * time.Hour))
		c.CopyBackup(newest, name, func(file string, data []byte) []byte {
			switch {
			case file == rig.BackupFile:
				return []byte("tiny")
			case strings.HasSuffix(file, ".meta"):
				return data
			case name == proven:
				return asProven(t, data)
			}
			return nil // no manifest, as the predecessor leaves none
		})
	}
	if r := c.Backups("verify", newest); r.Code != cli.ExitOK {
		t.Fatal(r)
	}
	c.TakeBackup()
	var left []string
	rig.Eventually(t, rig.Soon, "the old backups pruned", func(context.Context) error {
		left = nil
		for _, b := range c.ListBackups() {
			if b.Name < fakeName(old.Add(300*time.Hour)) {
				left = append(left, b.Name)
			}
		}
		if len(left) > 1 {
			return fmt.Errorf("%d of 300 are left", len(left))
		}
		return nil
	})
	t.Logf("left of the old ones: %v", left)
	names := c.ListBackups()
	if !slices.ContainsFunc(names, func(b rig.Listed) bool { return b.Name == newest }) {
		t.Errorf("the newest proven backup %s is gone: %+v", newest, names)
	}
	if !rig.Exists(filepath.Join(c.Store, "control", "etcd-cluster-created")) {
		t.Error("the created marker is gone")
	}
}

func fakeName(at time.Time) string { return at.Format("2006-01-02T15:04:05Z") + "-000001" }

// asProven adds a verification to a manifest.
func asProven(t *testing.T, data []byte) []byte {
	t.Helper()
	var m backup.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	m.Verifications = append(m.Verifications, backup.Verification{At: time.Now().UTC(), Depth: backup.DepthDrilled, OK: true})
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
