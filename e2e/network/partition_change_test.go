package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// Three are wanted of four hosts, of which two hear each other, and the other
// two; all reach the store. There is one cluster, ever: the side that comes
// second to the store founds nothing. The network breaks before the first
// daemon starts, or when one has just written the intent.
func TestTwoHalvesFoundOneCluster(t *testing.T) {
	t.Parallel()
	t.Run("from the beginning", func(t *testing.T) {
		t.Parallel()
		c := rig.NewCluster(t, rig.Options{Hosts: 4, Network: true})
		c.Configure(3)
		c.Partition([]int{1, 2}, []int{3, 4})
		c.Start(1, 3, 2, 4)
		on := c.Members(rig.Soon, 2)
		w := c.Write()
		c.Passes(3 * time.Second) // the others have seen that they come second
		for _, h := range c.Others(on) {
			if pid := h.EtcdPID(); pid != 0 {
				t.Errorf("host %d runs etcd, pid %d: the cluster is on hosts %v", h.N, pid, on)
			}
		}
		c.Heal()
		c.Members(90*time.Second, 3)
		c.OneCluster()
		w.Check()
	})
	for i, groups := range [][][]int{{{1, 2}, {3, 4}}, {{1, 3}, {2, 4}}} {
		t.Run(fmt.Sprintf("after the intent %d", i), func(t *testing.T) {
			t.Parallel()
			if !*rig.Long {
				t.Skip("takes half a minute: -e2e.long")
			}
			c := rig.NewCluster(t, rig.Options{Hosts: 4, Network: true})
			c.Configure(3)
			c.Start(1, 2, 3, 4)
			rig.Eventually(t, rig.Soon, "the intent", func(context.Context) error {
				if !rig.Exists(filepath.Join(c.Store, "control", "etcd-cluster-created")) {
					return errors.New("it is not in the store")
				}
				return nil
			})
			c.Partition(groups...)
			c.Passes(5 * time.Second)
			c.Heal()
			c.Members(90*time.Second, 3)
			c.OneCluster()
			c.Write().Check()
		})
	}
}

// A host comes back at another address, and nobody answers at the old one: it
// is the same member, and raft is told of the new peer URL. First one that
// follows, then the one whose daemon leads, then two at once, which are most of
// the voters.
func TestAddressesChange(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes half a minute: -e2e.long")
	}
	c := rig.Formed(t, 3, rig.Options{Network: true})
	w := c.Write()
	before := c.Voters(rig.Soon, 1, 2, 3)
	place := 10
	moves := func(hosts ...*rig.Host) {
		t.Helper()
		for _, h := range hosts {
			h.Crash()
			place++
			h.Move(place)
		}
		for _, h := range hosts {
			h.Start()
		}
		after := c.Voters(90*time.Second, 1, 2, 3)
		rig.Same(t, before, after)
		for i, m := range after {
			if want := "http://" + c.Block.At(c.Host(i+1).Place, rig.PortPeer); !slices.Equal(m.PeerURLs, []string{want}) {
				t.Errorf("the member of host %d is at %v for its peers, want %s", i+1, m.PeerURLs, want)
			}
		}
	}
	moves(c.Host(rig.Without(3, c.Agree())[0]))
	moves(c.Agree())
	moves(c.Host(1), c.Host(2))
	w.End() // it knows the addresses that were
	w.Compare(c.Etcd())
	c.Write().Check()
}

// The network breaks while a cluster grows from one to three, each time between
// other hosts, and goes on after that: nothing is founded twice, nothing is
// lost, and three voters it is.
func TestPartitionWhileGrowing(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("host %d alone", alone), func(t *testing.T) {
			t.Parallel()
			c := rig.NewCluster(t, rig.Options{Hosts: 3, Network: true})
			c.Configure(1)
			c.Start(1)
			c.Voters(rig.Soon, 1)
			w := c.Write()
			c.Start(2, 3)
			c.Agree()
			c.Configure(3)
			c.Changes(1)
			c.Partition([]int{alone}, rig.Without(3, c.Host(alone)))
			c.Passes(4 * time.Second)
			c.Heal()
			c.Voters(90*time.Second, 1, 2, 3)
			c.OneCluster()
			w.Check()
		})
	}
}

// A host that lost its disk is being replaced, by itself, when the network
// breaks: between the new member and the others, or between the leading daemon
// and the rest.
func TestPartitionWhileReplacing(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	for _, alone := range []string{"the wiped host", "the leading daemon"} {
		t.Run(alone, func(t *testing.T) {
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{Network: true})
			w := c.Write()
			before := c.Voters(rig.Soon, 1, 2, 3)
			leader := c.Agree()
			wiped := c.Host(rig.Without(3, leader)[0])
			wiped.Crash()
			wiped.Wipe(true)
			wiped.Start()
			c.Replaced(before[wiped.N-1].ID)
			cut := wiped
			if alone == "the leading daemon" {
				cut = leader
			}
			c.Partition([]int{cut.N}, rig.Without(3, cut))
			c.Passes(4 * time.Second)
			c.Heal()
			after := c.Voters(90*time.Second, 1, 2, 3)
			if before[wiped.N-1].ID == after[wiped.N-1].ID {
				t.Errorf("the wiped host %d is member %x again", wiped.N, before[wiped.N-1].ID)
			}
			c.OneCluster()
			w.Check()
		})
	}
}
