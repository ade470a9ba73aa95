package members

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/plan"
)

// A voter is replaced while its host is away. When that comes back its data is
// set aside; it goes by itself once it is old enough and a newer backup was
// proven, and nothing else that lies there does.
func TestRemovedMembersDataIsPruned(t *testing.T) {
	if !*rig.Long {
		t.Skip("waits until data comes of age: -e2e.long")
	}
	t.Parallel()
	const keptFor = 12 * time.Second // more than clocks are taken to be apart
	c := rig.Formed(t, 3, rig.Options{Hosts: 4, Flags: []string{"--dead-after=5s", "--prune-after=" + keptFor.String()}})
	w := c.Write()
	before := c.TakeBackup()
	if r := c.Backups("verify", before); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	away := c.Host(rig.Without(3, c.RaftLeader(1, 2, 3))[0])
	rest := slices.DeleteFunc(rig.Numbers(4), func(n int) bool { return n == away.N })
	away.Crash()
	c.Start(4)
	c.Voters(rig.Soon, rest...)
	theirs := filepath.Join(away.Dir, "data-trashcan", "of-another-program")
	if err := os.MkdirAll(filepath.Join(theirs, "member", "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	away.Start()
	waits := func(within time.Duration, words string) plan.Aside {
		t.Helper()
		var found plan.Aside
		rig.Eventually(t, within, "what was set aside waits: "+words, func(ctx context.Context) error {
			all, err := c.Asides(ctx, away)
			if err != nil {
				return err
			}
			for _, a := range all {
				if a.Reason == "removed" && strings.Contains(a.Waits, words) {
					found = a
					return nil
				}
			}
			return fmt.Errorf("it is %+v", all)
		})
		return found
	}
	aside := waits(rig.Soon, "it is kept for")
	if aside.Log.Index == 0 || aside.Log.Term == 0 || aside.Member == 0 || aside.Bytes == 0 || aside.Cluster != c.Intent().Cluster || aside.After.IsZero() {
		t.Errorf("what is known of it: %+v", aside)
	}
	r := c.Etcdadm("status", "--data-dir", away.Dir)
	if !strings.Contains(r.Stdout, "set aside on "+string(away.ID())+": "+aside.Name()+" (removed, ") || !strings.Contains(r.Stdout, "of-another-program (unknown, ") ||
		!strings.Contains(r.Stdout, "kept: the only known way back;") {
		t.Errorf("%s", r)
	}
	waits(rig.Soon, "a newer backup has to be proven")
	c.Passes(2 * time.Second) // it is old enough, and the backup that was proven is from before
	if len(c.AsideOn(away)) != 3 {
		t.Fatalf("what is set aside: %q", c.AsideOn(away))
	}
	name := c.TakeBackup()
	waits(rig.Soon, "a newer backup has to be proven")
	if r := c.Backups("verify", name); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.TakeBackup() // has them listed anew
	rig.Eventually(t, rig.Soon, "it is pruned", func(context.Context) error {
		if left := c.AsideOn(away); !slices.Equal(left, []string{"of-another-program"}) {
			return fmt.Errorf("there are %q", left)
		}
		if _, err := os.Stat(filepath.Join(away.Dir, "etcdadm", "pruning")); !errors.Is(err, os.ErrNotExist) {
			return errors.New("what was taken out of its place is there still")
		}
		return nil
	})
	away.Said(rig.Soon, "pruned what was set aside of a member that a quorum had removed")
	c.Voters(rig.Soon, rest...)
	w.Check()
}
