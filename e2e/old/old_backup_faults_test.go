package old

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"etcdadm.io/backup"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// ageKey is a secret key in a file, and the flags of daemons that encrypt backups to it
// and may read them.
func ageKey(t *testing.T) (file string, flags []string) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, []string{"--backup-recipient=" + key.Recipient().String(), "--backup-identity-file=" + file}
}

// never is for what goes on as long as the cluster does.
func never() bool { return false }

// Backups of 2.3 come by themselves and before a change, encrypted like all others, while
// clients write and keys run out; a daemon that is killed amid one, at any time, leaves
// nothing behind that looks like one. A restore of one, with daemons killed amid it, ends
// right.
func TestOldV2BackupsAmidKills(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	key, flags := ageKey(t)
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Version: testetcd.V23, Flags: append(flags, "--backup-interval=4s")})
	c.Configure(3)
	c.Start(1, 2, 3)
	c.V2Voters(rig.Soon, 1, 2, 3)
	w := c.V2Write()
	rig.Eventually(t, rig.Soon, "backups by themselves", func(context.Context) error {
		if n := c.Of(backup.ReasonPeriodic); n < 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for range 5 {
		c.KilledAmid(random, "backup", 300*time.Millisecond, never)
	}
	c.V2Voters(rig.Soon, 1, 2, 3)
	before := w.Sofar()
	name := c.TakeBackup()
	w.End()
	for _, b := range c.ListBackups() {
		if b.Problem != "" {
			t.Errorf("%+v", b)
		}
		f, err := os.ReadFile(c.File(b.Name, c.OnlyFile(b.Name)))
		if err != nil || !bytes.HasPrefix(f, []byte("age-encryption.org/")) {
			t.Errorf("backup %s begins with %q: %v", b.Name, f[:min(20, len(f))], err)
		}
		if r := c.Backups("verify", b.Name, "--identity", key); r.Code != cli.ExitOK {
			t.Errorf("%s", r)
		}
	}
	rig.Eventually(t, rig.Soon, "an end of what was left of backups", func(context.Context) error {
		for _, h := range c.Hosts {
			if found, _ := filepath.Glob(filepath.Join(h.Dir, "etcdadm", "backup")); len(found) > 0 {
				return fmt.Errorf("%v", found) // left, or of the next one
			}
		}
		return nil
	})
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Backups("drill", name, "--release-dir", cache, "--identity", key); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	c.V2Put(c.Host(1), "later", "1")
	command := c.RestoreByCtl(name)
	c.KilledAmid(random, "staging/*", 4*time.Second, never)
	folder := c.Folder()
	c.KilledAmid(random, "staging/*", 4*time.Second, func() bool { // with a third one it would be given up
		_, err := rig.EndOf(t.Context(), folder, command)
		return err == nil // the first pause outlasted the stage
	})
	c.EndedWithin(rig.OldWithin, command, "done")
	c.V2Voters(rig.OldWithin, 1, 2, 3)
	got := c.V2Keys(c.Host(2))
	c.Holds("restored", got, before)
	if got["/later"] != "" {
		t.Error("what was written after the backup is there")
	}
	if n := c.Of(backup.ReasonBeforeRestore); n == 0 {
		t.Errorf("no backup before the restore: %+v", c.ListBackups())
	}
}
