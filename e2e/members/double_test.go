package members

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A second daemon with the disk of one that runs, as when a volume is attached twice: it starts nothing and writes nothing
// while the first one is there. A copy of the directory stands for what a second kernel sees of such a volume, which has pages of
// its own. Once the first one is gone it goes on as a new disk, and nothing is lost that clients were told of.
func TestTwoDaemonsWithOneDisk(t *testing.T) {
	rig.TakesLong(t, "a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{})
	w := c.Write()
	first := c.Host(3)
	second := c.AddHost()
	if err := errors.Join(os.RemoveAll(second.Dir), exec.Command("cp", "-a", first.Dir, second.Dir).Run()); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(second.Dir, "etcdadm", "process.json") // of this boot, and on another machine of no process there
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(second.Dir, "etcdadm", "state.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	was := state()
	second.Start()
	second.Said(rig.Soon, "disk-in-use")
	for began := time.Now(); time.Since(began) < 15*time.Second; time.Sleep(200 * time.Millisecond) { // two looks of its own
		if pid := second.EtcdPID(); pid != 0 {
			t.Fatalf("the second daemon started etcd as %d", pid)
		}
	}
	if now := state(); now != was {
		t.Errorf("the second daemon wrote its state:\n%s\n%s", was, now)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()

	w = c.Write()
	first.Crash()
	rig.Eventually(t, 90*time.Second, "the second daemon on a new disk, with a member of its own", func(ctx context.Context) error {
		if state() == was {
			return errors.New("its state is as it was")
		}
		return second.Healthy(ctx)
	})
	c.Voters(90*time.Second, 1, 2, 4)
	w.Check()
}
