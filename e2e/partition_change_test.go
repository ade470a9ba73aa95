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
)

// Three are wanted of four hosts, of which two hear each other, and the other
// two; all reach the store. There is one cluster, ever: the side that comes
// second to the store founds nothing. The network breaks before the first
// daemon starts, or when one has just written the intent.
func TestTwoHalvesFoundOneCluster(t *testing.T) {
	t.Parallel()
	t.Run("from the beginning", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, options{hosts: 4, network: true})
		c.configure(3)
		c.partition([]int{1, 2}, []int{3, 4})
		c.start(1, 3, 2, 4)
		on := c.members(soon, 2)
		w := c.write()
		c.passes(3 * time.Second) // the others have seen that they come second
		for _, h := range c.others(on) {
			if pid := h.etcdPID(); pid != 0 {
				t.Errorf("host %d runs etcd, pid %d: the cluster is on hosts %v", h.n, pid, on)
			}
		}
		c.heal()
		c.members(90*time.Second, 3)
		c.oneCluster()
		w.check()
	})
	for i, groups := range [][][]int{{{1, 2}, {3, 4}}, {{1, 3}, {2, 4}}} {
		t.Run(fmt.Sprintf("after the intent %d", i), func(t *testing.T) {
			t.Parallel()
			if !*long {
				t.Skip("takes half a minute: -e2e.long")
			}
			c := newCluster(t, options{hosts: 4, network: true})
			c.configure(3)
			c.start(1, 2, 3, 4)
			eventually(t, soon, "the intent", func(context.Context) error {
				if !exists(filepath.Join(c.store, "control", "etcd-cluster-created")) {
					return errors.New("it is not in the store")
				}
				return nil
			})
			c.partition(groups...)
			c.passes(5 * time.Second)
			c.heal()
			c.members(90*time.Second, 3)
			c.oneCluster()
			c.write().check()
		})
	}
}

// oneCluster complains when the members of the hosts are of more than one
// founding, ever: a data directory is named after its token, and one that was
// set aside begins with it.
func (c *testCluster) oneCluster() {
	c.t.Helper()
	var tokens, aside []string
	for _, h := range c.hosts {
		tokens = append(tokens, c.entries(filepath.Join(h.dir, "data"))...)
		aside = append(aside, c.entries(filepath.Join(h.dir, "data-trashcan"))...)
	}
	slices.Sort(tokens)
	if tokens = slices.Compact(tokens); len(tokens) != 1 {
		c.t.Fatalf("the hosts hold the data of %d clusters: %v", len(tokens), tokens)
	}
	for _, name := range aside {
		if !strings.HasPrefix(name, tokens[0]) {
			c.t.Errorf("%s was set aside, which is not of cluster %s", name, tokens[0])
		}
	}
}

// entries are the names in a directory, which need not be there.
func (c *testCluster) entries(dir string) []string {
	c.t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A host comes back at another address, and nobody answers at the old one: it
// is the same member, and raft is told of the new peer URL. First one that
// follows, then the one whose daemon leads, then two at once, which are most of
// the voters.
func TestAddressesChange(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes half a minute: -e2e.long")
	}
	c := formed(t, 3, options{network: true})
	w := c.write()
	before := c.voters(soon, 1, 2, 3)
	place := 10
	moves := func(hosts ...*host) {
		t.Helper()
		for _, h := range hosts {
			h.crash()
			place++
			h.move(place)
		}
		for _, h := range hosts {
			h.start()
		}
		after := c.voters(90*time.Second, 1, 2, 3)
		same(t, before, after)
		for i, m := range after {
			if want := "http://" + c.block.at(c.host(i+1).place, portPeer); !slices.Equal(m.PeerURLs, []string{want}) {
				t.Errorf("the member of host %d is at %v for its peers, want %s", i+1, m.PeerURLs, want)
			}
		}
	}
	moves(c.host(without(3, c.agree())[0]))
	moves(c.agree())
	moves(c.host(1), c.host(2))
	w.end() // it knows the addresses that were
	w.compare(c.etcd())
	c.write().check()
}

// The network breaks while a cluster grows from one to three, each time between
// other hosts, and goes on after that: nothing is founded twice, nothing is
// lost, and three voters it is.
func TestPartitionWhileGrowing(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("host %d alone", alone), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: 3, network: true})
			c.configure(1)
			c.start(1)
			c.voters(soon, 1)
			w := c.write()
			c.start(2, 3)
			c.agree()
			c.configure(3)
			c.changes(1)
			c.partition([]int{alone}, without(3, c.host(alone)))
			c.passes(4 * time.Second)
			c.heal()
			c.voters(90*time.Second, 1, 2, 3)
			c.oneCluster()
			w.check()
		})
	}
}

// A host that lost its disk is being replaced, by itself, when the network
// breaks: between the new member and the others, or between the leading daemon
// and the rest.
func TestPartitionWhileReplacing(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []string{"the wiped host", "the leading daemon"} {
		t.Run(alone, func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, options{network: true})
			w := c.write()
			before := c.voters(soon, 1, 2, 3)
			leader := c.agree()
			wiped := c.host(without(3, leader)[0])
			wiped.crash()
			wiped.wipe(true)
			wiped.start()
			c.replaced(before[wiped.n-1].ID)
			cut := wiped
			if alone == "the leading daemon" {
				cut = leader
			}
			c.partition([]int{cut.n}, without(3, cut))
			c.passes(4 * time.Second)
			c.heal()
			after := c.voters(90*time.Second, 1, 2, 3)
			if before[wiped.n-1].ID == after[wiped.n-1].ID {
				t.Errorf("the wiped host %d is member %x again", wiped.n, before[wiped.n-1].ID)
			}
			c.oneCluster()
			w.check()
		})
	}
}

// replaced waits until a member is no more.
func (c *testCluster) replaced(id uint64) {
	c.t.Helper()
	eventually(c.t, soon, "the old member is removed", func(context.Context) error {
		if slices.Contains(c.listed(), id) {
			return fmt.Errorf("member %x is still there", id)
		}
		return nil
	})
}
