package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"filippo.io/age"

	"etcdadm.io/backup"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
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

// atWork waits until a daemon has something below one of these places of its state, and
// gives its host; nil: none had until the end, or until it is over.
func (c *testCluster) atWork(within time.Duration, pattern string, over func() bool) *host {
	end := time.Now().Add(within)
	for n := 1; time.Now().Before(end); n++ {
		for _, h := range c.hosts {
			if found, _ := filepath.Glob(filepath.Join(h.dir, "etcdadm", pattern)); len(found) > 0 && h.running() {
				return h
			}
		}
		if n%100 == 0 && over() { // which costs more than a glance
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// killedAmid kills the daemon that is at work a random time after it was seen to be, and
// starts it again. What is over needs nobody at work any more.
func (c *testCluster) killedAmid(random *rand.Rand, pattern string, most time.Duration, over func() bool) {
	c.t.Helper()
	h := c.atWork(soon, pattern, over)
	if h == nil {
		if !over() {
			c.t.Fatalf("no daemon has %s", pattern)
		}
		c.t.Logf("nobody is killed: it is over, and no daemon has %s", pattern)
		return
	}
	pause := time.Duration(random.Int64N(int64(most)))
	time.Sleep(pause)
	left, _ := filepath.Glob(filepath.Join(h.dir, "etcdadm", pattern))
	h.kill()
	c.t.Logf("the daemon of host %d is killed after %s; it was at it: %t", h.n, pause, len(left) > 0)
	h.start()
}

// never is for what goes on as long as the cluster does.
func never() bool { return false }

// of are the backups that were taken for a reason.
func (c *testCluster) of(reason backup.Reason) int {
	c.t.Helper()
	return len(c.taken(reason))
}

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
	c := newCluster(t, options{hosts: 3, version: testetcd.V23, flags: append(flags, "--backup-interval=4s")})
	c.configure(3)
	c.start(1, 2, 3)
	c.v2Voters(soon, 1, 2, 3)
	w := c.v2Write()
	eventually(t, soon, "backups by themselves", func(context.Context) error {
		if n := c.of(backup.ReasonPeriodic); n < 2 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for range 5 {
		c.killedAmid(random, "backup", 300*time.Millisecond, never)
	}
	c.v2Voters(soon, 1, 2, 3)
	before := w.sofar()
	name := c.takeBackup()
	w.end()
	for _, b := range c.listBackups() {
		if b.Problem != "" {
			t.Errorf("%+v", b)
		}
		f, err := os.ReadFile(c.file(b.Name, c.onlyFile(b.Name)))
		if err != nil || !bytes.HasPrefix(f, []byte("age-encryption.org/")) {
			t.Errorf("backup %s begins with %q: %v", b.Name, f[:min(20, len(f))], err)
		}
		if r := c.backups("verify", b.Name, "--identity", key); r.code != cli.ExitOK {
			t.Errorf("%s", r)
		}
	}
	eventually(t, soon, "an end of what was left of backups", func(context.Context) error {
		for _, h := range c.hosts {
			if found, _ := filepath.Glob(filepath.Join(h.dir, "etcdadm", "backup")); len(found) > 0 {
				return fmt.Errorf("%v", found) // left, or of the next one
			}
		}
		return nil
	})
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if r := c.backups("drill", name, "--release-dir", cache, "--identity", key); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	c.v2Put(c.host(1), "later", "1")
	command := c.restoreByCtl(name)
	c.killedAmid(random, "staging/*", 4*time.Second, never)
	folder := c.folder()
	c.killedAmid(random, "staging/*", 4*time.Second, func() bool { // with a third one it would be given up
		_, err := endOf(t.Context(), folder, command)
		return err == nil // the first pause outlasted the stage
	})
	c.endedWithin(oldWithin, command, "done")
	c.v2Voters(oldWithin, 1, 2, 3)
	got := c.v2Keys(c.host(2))
	c.holds("restored", got, before)
	if got["/later"] != "" {
		t.Error("what was written after the backup is there")
	}
	if n := c.of(backup.ReasonBeforeRestore); n == 0 {
		t.Errorf("no backup before the restore: %+v", c.listBackups())
	}
}

// onlyFile is the file of a backup that holds the data.
func (c *testCluster) onlyFile(name string) string {
	c.t.Helper()
	files, err := filepath.Glob(c.file(name, "etcd.backup*"))
	if err != nil || len(files) != 1 {
		c.t.Fatalf("backup %s holds %v: %v", name, files, err)
	}
	return filepath.Base(files[0])
}

// endOf is how a command ended; an error: it has not, or nobody can tell.
func endOf(ctx context.Context, folder *control.Folder, name string) (control.Ended, error) {
	all, err := folder.EndedCommands(ctx)
	if err != nil {
		return control.Ended{}, err
	}
	i := slices.IndexFunc(all, func(e control.Ended) bool { return e.Name == name })
	if i < 0 {
		return control.Ended{}, errors.New("it has not ended")
	}
	return all[i], nil
}

func (c *testCluster) endedWithin(within time.Duration, name, how string) {
	c.t.Helper()
	folder := c.folder()
	eventually(c.t, within, fmt.Sprintf("command %s is %s", name, how), func(ctx context.Context) error {
		end, err := endOf(ctx, folder, name)
		if err == nil && end.Result != how {
			err = fmt.Errorf("it ended as %+v", end)
		}
		return err
	})
}
