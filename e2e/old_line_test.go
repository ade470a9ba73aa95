package e2e

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
		for name, o := range map[string]options{"plain": {version: version}, "tls": {version: version, tls: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := formed(t, 3, o)
				w := c.write()
				w.waitFor(20)
				w.check()
			})
		}
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			c := formed(t, 1, options{version: version})
			c.write().check()
		})
	})
}

// From one to three: what is added votes at once, and there is no quorum until
// the second one serves. Raft's leader loses its disk afterwards, and so does a
// host for good; then there is one again.
func TestOldMembersChange(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		c := formed(t, 1, options{hosts: 4, version: version, flags: []string{"--dead-after=5s"}})
		w := c.write()
		w.waitFor(20)
		c.start(2, 3)
		c.configure(3)
		before := c.voters(soon, 1, 2, 3)
		w.waitFor(20)

		h := c.raftLeader(1, 2, 3)
		h.crash()
		h.wipe(true)
		w.waitFor(10)
		h.start()
		after := c.voters(90*time.Second, 1, 2, 3)
		if before[h.n-1].ID == after[h.n-1].ID {
			t.Errorf("the wiped host %d is member %x again", h.n, before[h.n-1].ID)
		}

		killed := c.raftLeader(1, 2, 3)
		killed.killEtcd()
		killed.serves(soon)
		same(t, after, c.voters(soon, 1, 2, 3))

		c.start(4)
		c.host(2).crash()
		c.voters(90*time.Second, 1, 3, 4)
		w.waitFor(20)
		c.configure(1)
		c.members(90*time.Second, 1)
		w.check()
	})
}

// The host of the second voter ends while it is added: there may be no quorum
// then, and it is back once the host is.
func TestOldSecondVoterComesLate(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		c := formed(t, 1, options{hosts: 3, version: version})
		w := c.write()
		w.waitFor(20)
		c.start(2, 3)
		c.configure(3)
		ended := 0
		eventually(t, soon, "a voter that was added", func(ctx context.Context) error {
			for _, n := range []int{2, 3} {
				if _, err := os.Stat(filepath.Join(c.host(n).dir, "myid")); err != nil {
					continue // the daemon is about to write it
				}
				in := c.intent()
				if slices.ContainsFunc(slices.Concat(in.Next, in.Voters), func(v cluster.Voter) bool { return v.Host == c.host(n).id() }) {
					ended = n
					return nil
				}
			}
			return errors.New("nobody is to be added yet")
		})
		c.host(ended).crash() // no write may be acknowledged from here on
		c.host(ended).start()
		c.voters(90*time.Second, 1, 2, 3)
		w.check()
	})
}

// Backups are taken, tried out and restored with the release's own tool, which
// raises no revisions.
func TestOldMembersBackups(t *testing.T) {
	eachOldLine(t, func(t *testing.T, version string) {
		t.Parallel()
		backUpAndRestore(t, version)
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
	c := formed(t, 3, options{version: testetcd.V32})
	w := c.write()
	w.waitFor(50)
	for _, version := range []string{testetcd.V33, testetcd.V34} {
		c.to(version, 1, 2, 3)
		w.waitFor(20)
	}
	w.check()
}
