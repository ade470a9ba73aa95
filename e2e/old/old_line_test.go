package old

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// Releases before learners are old, and their tests long: they are a tier of
// their own.
var old = flag.Bool("e2e.old", false, "test members of releases before 3.4")

// oldLines are tested with members of each.
var oldLines = []string{testetcd.V33, testetcd.V32}

func eachOldLine(t *testing.T, f func(t *testing.T, version string)) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	for _, v := range oldLines {
		t.Run(v, func(t *testing.T) { f(t, v) })
	}
}

// One and three hosts form a cluster of an old release, with and without TLS.
func TestOldMembersForm(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		for name, o := range map[string]rig.Options{"plain": {Version: version}, "tls": {Version: version, TLS: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := rig.Formed(t, 3, o)
				w := c.Write()
				w.WaitFor(20)
				w.Check()
			})
		}
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			c := rig.Formed(t, 1, rig.Options{Version: version})
			c.Write().Check()
		})
	})
}

// From one to three: what is added votes at once, and there is no quorum until
// the second one serves. Raft's leader loses its disk afterwards, and so does a
// host for good; then there is one again.
func TestOldMembersChange(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		c := rig.Formed(t, 1, rig.Options{Hosts: 4, Version: version, Flags: []string{"--dead-after=5s"}})
		w := c.Write()
		w.WaitFor(20)
		c.Start(2, 3)
		c.Configure(3)
		before := c.Voters(rig.Soon, 1, 2, 3)
		w.WaitFor(20)

		h := c.RaftLeader(1, 2, 3)
		h.Crash()
		h.Wipe(true)
		w.WaitFor(10)
		h.Start()
		after := c.Voters(90*time.Second, 1, 2, 3)
		if before[h.N-1].ID == after[h.N-1].ID {
			t.Errorf("the wiped host %d is member %x again", h.N, before[h.N-1].ID)
		}

		killed := c.RaftLeader(1, 2, 3)
		killed.KillEtcd()
		killed.Serves(rig.Soon)
		rig.Same(t, after, c.Voters(rig.Soon, 1, 2, 3))

		c.Start(4)
		c.Host(2).Crash()
		c.Voters(90*time.Second, 1, 3, 4)
		w.WaitFor(20)
		c.Configure(1)
		c.Members(90*time.Second, 1)
		w.Check()
	})
}

// The host of the second voter ends while it is added: there may be no quorum
// then, and it is back once the host is.
func TestOldSecondVoterComesLate(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		c := rig.Formed(t, 1, rig.Options{Hosts: 3, Version: version})
		w := c.Write()
		w.WaitFor(20)
		c.Start(2, 3)
		c.Configure(3)
		ended := 0
		rig.Eventually(t, rig.Soon, "a voter that was added", func(ctx context.Context) error {
			for _, n := range []int{2, 3} {
				if _, err := os.Stat(filepath.Join(c.Host(n).Dir, "myid")); err != nil {
					continue // the daemon is about to write it
				}
				in := c.Intent()
				if slices.ContainsFunc(slices.Concat(in.Next, in.Voters), func(v cluster.Voter) bool { return v.Host == c.Host(n).ID() }) {
					ended = n
					return nil
				}
			}
			return errors.New("nobody is to be added yet")
		})
		c.Host(ended).Crash() // no write may be acknowledged from here on
		c.Host(ended).Start()
		c.Voters(90*time.Second, 1, 2, 3)
		w.Check()
	})
}

// Backups are taken, tried out and restored with the release's own tool, which
// raises no revisions.
func TestOldMembersBackups(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		rig.BackUpAndRestore(t, version)
	})
}

// One line after another, up to the first with learners.
func TestOldLinesRollUp(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	t.Parallel()
	testetcd.Binary(t, testetcd.V33)
	testetcd.Binary(t, testetcd.V34)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V32})
	w := c.Write()
	w.WaitFor(50)
	for _, version := range []string{testetcd.V33, testetcd.V34} {
		c.To(version, 1, 2, 3)
		w.WaitFor(20)
	}
	w.Check()
}
