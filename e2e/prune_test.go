package e2e

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

	"etcdadm.io/internal/cli"
	"etcdadm.io/plan"
)

// asides is what becomes of everything that a host set aside, as the leading
// daemon says.
func (c *testCluster) asides(ctx context.Context, h *host) ([]plan.Aside, error) {
	r, err := c.report(ctx, h)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(r.Aside, func(a plan.Aside) bool { return a.Host != h.id() }), nil
}

// A voter is replaced while its host is away. When that comes back its data is
// set aside; it goes by itself once it is old enough and a newer backup was
// proven, and nothing else that lies there does.
func TestRemovedMembersDataIsPruned(t *testing.T) {
	if !*long {
		t.Skip("waits until data comes of age: -e2e.long")
	}
	t.Parallel()
	const keptFor = 12 * time.Second // more than clocks are taken to be apart
	c := formed(t, 3, options{hosts: 4, flags: []string{"--dead-after=5s", "--prune-after=" + keptFor.String()}})
	w := c.write()
	before := c.takeBackup()
	if r := c.backups("verify", before); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	away := c.host(without(3, c.raftLeader(1, 2, 3))[0])
	rest := slices.DeleteFunc(numbers(4), func(n int) bool { return n == away.n })
	away.crash()
	c.start(4)
	c.voters(soon, rest...)
	theirs := filepath.Join(away.dir, "data-trashcan", "of-another-program")
	if err := os.MkdirAll(filepath.Join(theirs, "member", "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	away.start()
	waits := func(within time.Duration, words string) plan.Aside {
		t.Helper()
		var found plan.Aside
		eventually(t, within, "what was set aside waits: "+words, func(ctx context.Context) error {
			all, err := c.asides(ctx, away)
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
	aside := waits(soon, "it is kept for")
	if aside.Log.Index == 0 || aside.Log.Term == 0 || aside.Member == 0 || aside.Bytes == 0 || aside.Cluster != c.intent().Cluster || aside.After.IsZero() {
		t.Errorf("what is known of it: %+v", aside)
	}
	r := c.etcdadm("status", "--data-dir", away.dir)
	if !strings.Contains(r.stdout, "set aside on "+string(away.id())+": "+aside.Name()+" (removed, ") || !strings.Contains(r.stdout, "of-another-program (unknown, ") ||
		!strings.Contains(r.stdout, "kept until you delete it, as nothing else is known to go back there: etcdadm host prune "+string(away.id())+" --dir of-another-program --force") {
		t.Errorf("%s", r)
	}
	waits(soon, "a newer backup has to be proven")
	c.passes(2 * time.Second) // it is old enough, and the backup that was proven is from before
	if len(c.asideOn(away)) != 3 {
		t.Fatalf("what is set aside: %q", c.asideOn(away))
	}
	name := c.takeBackup()
	waits(soon, "a newer backup has to be proven")
	if r := c.backups("verify", name); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.takeBackup() // has them listed anew
	eventually(t, soon, "it is pruned", func(context.Context) error {
		if left := c.asideOn(away); !slices.Equal(left, []string{"of-another-program"}) {
			return fmt.Errorf("there are %q", left)
		}
		if _, err := os.Stat(filepath.Join(away.dir, "etcdadm", "pruning")); !errors.Is(err, os.ErrNotExist) {
			return errors.New("what was taken out of its place is there still")
		}
		return nil
	})
	away.said(soon, "pruned what was set aside of a member that a quorum had removed")
	c.voters(soon, rest...)
	w.check()
}
