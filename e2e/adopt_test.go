package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// A live cluster of etcd-manager goes over to our daemons host by host, while a
// client writes: same cluster, same members, same certificates, nothing lost. Then
// it grows and is upgraded like any other.
func TestAdoption(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		options options
	}{
		{"fixture", options{hosts: 5, fixture: true}},
		{"tls", options{hosts: 5, tls: true}},
		{"3.5", options{hosts: 5, version: testetcd.V35}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, v.options)
			var x *theirs
			if v.options.fixture {
				x = c.unpackTheirs()
			} else {
				x = c.formTheirs(1, 2, 3)
			}
			id, members := x.memberIDs()
			marker := c.marker()
			certificate := c.certificateOf(x, 1)
			w := c.write()
			for n := 1; n <= 3; n++ {
				c.takeOver(x, n)
				w.waitFor(10)
				if n < 3 {
					c.blocked(c.host(n), "is being taken over", fmt.Sprintf("%d member", n))
					if got := c.marker(); !bytes.Equal(got, marker) {
						t.Fatalf("the marker was changed after %d of 3 hosts: %s", n, got)
					}
				}
			}
			c.generation(1, 1, 2, 3)
			if gotID, got := x.memberIDs(); gotID != id || !maps.Equal(got, members) {
				t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
			}
			if got := c.certificateOf(x, 1); !bytes.Equal(got, certificate) {
				t.Error("the certificate was changed")
			}
			if v.options.fixture {
				if n := c.countKeys("/fixture/"); n != 51 {
					t.Errorf("%d keys of the fixture are there, want 51", n)
				}
			}
			stall := w.longest
			c.start(4, 5)
			c.configure(5)
			c.voters(2*time.Minute, 1, 2, 3, 4, 5)
			to := testetcd.V37
			if v.options.version == testetcd.V35 {
				to = testetcd.V36
			}
			c.to(to, 1, 2, 3, 4, 5)
			c.voters(soon, 1, 2, 3, 4, 5)
			w.check()
			t.Logf("longest time without a write while it was taken over: %s", stall.Round(time.Millisecond))
		})
	}
}

// takeOver ends their etcd on a host and starts our daemon in its place.
func (c *testCluster) takeOver(x *theirs, n int) {
	c.t.Helper()
	began := time.Now()
	x.kill(n)
	c.start(n)
	c.host(n).serves(soon)
	c.t.Logf("host %d: the member serves %s after their etcd was killed", n, time.Since(began).Round(10*time.Millisecond))
}

func (c *testCluster) marker() []byte {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.store, "control", "etcd-cluster-created"))
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

func (c *testCluster) certificateOf(x *theirs, n int) []byte {
	c.t.Helper()
	if !c.options.tls {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(x.pki(n, "peers"), "me.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// Our daemon started beside the running etcd of theirs waits, says so once, and
// takes over by itself once that has ended.
func TestAdoptionWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	x := c.formTheirs(1, 2, 3)
	w := c.write()
	c.start(1)
	c.blocked(c.host(1), "taken over", "stop etcd-manager on this host")
	x.kill(1)
	began := time.Now()
	c.host(1).serves(soon)
	t.Logf("it serves %s after the end of their etcd", time.Since(began).Round(time.Millisecond))
	w.check()
}

// In the middle of it a person can go back: two of three hosts are ours, and
// theirs goes on with all data under the same IDs; and can come again.
func TestAdoptionGoesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	x := c.formTheirs(1, 2, 3)
	id, members := x.memberIDs()
	marker := c.marker()
	before, err := os.ReadFile(x.statePath(1))
	if err != nil {
		t.Fatal(err)
	}
	w := c.write()
	for _, n := range []int{1, 2} {
		c.takeOver(x, n)
	}
	w.waitFor(10)
	for _, n := range []int{2, 1} {
		c.host(n).interrupt()
		x.start("existing", n)
	}
	w.waitFor(10)
	if gotID, got := x.memberIDs(); gotID != id || !maps.Equal(got, members) {
		t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
	if got := c.marker(); !bytes.Equal(got, marker) {
		t.Errorf("the marker was changed: %s", got)
	}
	if after, err := os.ReadFile(x.statePath(1)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("their state was changed (%v)", err)
	}
	for _, n := range []int{1, 2, 3} {
		c.takeOver(x, n)
		w.waitFor(10)
	}
	c.generation(1, 1, 2, 3)
	if *long {
		c.goesBackLater(x, w, before)
	}
	w.check()
}

// goesBackLater goes back after the record was written, and comes again.
func (c *testCluster) goesBackLater(x *theirs, w *writer, state []byte) {
	c.t.Helper()
	id, members := x.memberIDs()
	for _, n := range []int{1, 2, 3} {
		c.host(n).interrupt()
		x.start("existing", n)
		w.waitFor(10)
	}
	if after, err := os.ReadFile(x.statePath(1)); err != nil || !bytes.Equal(state, after) {
		c.t.Errorf("their state was changed (%v)", err)
	}
	for _, n := range []int{3, 1, 2} {
		c.takeOver(x, n)
		w.waitFor(10)
	}
	c.generation(1, 1, 2, 3)
	c.voters(soon, 1, 2, 3)
	if gotID, got := x.memberIDs(); gotID != id || !maps.Equal(got, members) {
		c.t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
}

// The daemon is killed while it takes over, again and again; a state file that is
// empty or torn is made up for by the log and the spec.
func TestAdoptionDisturbed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 3})
	x := c.formTheirs(1, 2, 3)
	id, members := x.memberIDs()
	w := c.write()
	state := x.state()
	put(t, x.statePath(2), nil, 0o600)
	put(t, x.statePath(3), state[:len(state)/2], 0o600)
	for n := 1; n <= 3; n++ {
		x.kill(n)
		for try := range 6 { // from before its lock to after its etcd serves
			c.start(n)
			waitOrEnd(c.host(n), time.Duration(try)*120*time.Millisecond)
			c.host(n).kill()
		}
		c.start(n)
		c.host(n).serves(soon)
		w.waitFor(10)
	}
	for range 3 { // around the write of the record
		c.host(1).kill()
		c.start(1)
	}
	c.generation(1, 1, 2, 3)
	if gotID, got := x.memberIDs(); gotID != id || !maps.Equal(got, members) {
		t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
	w.check()
}

// waitOrEnd gives a daemon some time of its life.
func waitOrEnd(h *host, d time.Duration) {
	ctx, cancel := context.WithTimeout(h.c.t.Context(), d)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-h.done:
	}
}
