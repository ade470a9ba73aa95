package e2e

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
	"etcdadm.io/internal/cli"
)

// The backup store is gone for a while. The cluster serves on and says so; a
// member is not taken out meanwhile; the backups catch up when it is back.
func TestStoreIsGoneForAWhile(t *testing.T) {
	if !*long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := formed(t, 3, options{hosts: 4, flags: []string{"--backup-interval=3s"}})
	c.start(4)
	leader := c.leader(soon, c.host(4))
	w := c.write()
	c.takeBackup()
	last := c.listBackups()[0].Name
	away := c.store + ".away"
	if err := os.Rename(c.store, away); err != nil {
		t.Fatal(err)
	}
	c.blocked(leader, "the backup store cannot be read")
	pids := c.pids()
	w.waitFor(200)
	c.passes(4 * time.Second) // a backup is due
	h := c.host(without(3, c.raftLeader(1, 2, 3))[0])
	r := c.etcdadm("member", "remove", string(h.id()), "--hold", "--yes", "--timeout=5s", "--data-dir", leader.dir)
	if r.code == cli.ExitOK || !strings.Contains(r.stdout+r.stderr, "backup store") {
		t.Errorf("a member is to be taken out while the store is gone: %s", r)
	}
	c.voters(soon, 1, 2, 3)
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("without the store the etcds had the pids %v and have %v", pids, now)
	}
	if err := os.RemoveAll(c.store); err != nil { // nobody makes it anew
		t.Fatal(err)
	}
	if err := os.Rename(away, c.store); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a newer backup", func(context.Context) error {
		if now := c.listBackups()[0].Name; now <= last {
			return fmt.Errorf("the newest is %s", now)
		}
		return nil
	})
	w.check()
}

// Old backups are removed by the policy once another one was taken; the first
// of each day and the newest proven one stay.
func TestOldBackupsArePruned(t *testing.T) {
	if !*long {
		t.Skip("TestBackups is enough for every day: -e2e.long")
	}
	t.Parallel()
	c := newCluster(t, options{hosts: 1, flags: []string{"--backup-interval=1h"}})
	c.host(1).env = []string{"ETCD_MANAGER_HOURLY_BACKUPS_RETENTION=1d", "ETCD_MANAGER_DAILY_BACKUPS_RETENTION=3d"}
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	newest := c.takeBackup()
	old := time.Now().UTC().Add(-400 * 24 * time.Hour).Truncate(time.Second)
	proven := fakeName(old.Add(17 * time.Hour))
	for i := range 300 {
		name := fakeName(old.Add(time.Duration(i) * time.Hour))
		c.copyBackup(newest, name, func(file string, data []byte) []byte {
			switch {
			case file == backupFile:
				return []byte("tiny")
			case strings.HasSuffix(file, ".meta"):
				return data
			case name == proven:
				return asProven(t, data)
			}
			return nil // no manifest, as the predecessor leaves none
		})
	}
	if r := c.backups("verify", newest); r.code != cli.ExitOK {
		t.Fatal(r)
	}
	c.takeBackup()
	var left []string
	eventually(t, soon, "the old backups pruned", func(context.Context) error {
		left = nil
		for _, b := range c.listBackups() {
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
	names := c.listBackups()
	if !slices.ContainsFunc(names, func(b listed) bool { return b.Name == newest }) {
		t.Errorf("the newest proven backup %s is gone: %+v", newest, names)
	}
	if !exists(filepath.Join(c.store, "control", "etcd-cluster-created")) {
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
