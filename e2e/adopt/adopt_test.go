package adopt

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// A live cluster of etcd-manager goes over to our daemons host by host, while a
// client writes: same cluster, same members, same certificates, nothing lost. Then
// it grows and is upgraded like any other.
func TestAdoption(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		options rig.Options
	}{
		{"fixture", rig.Options{Hosts: 5, Fixture: true}},
		{"tls", rig.Options{Hosts: 5, TLS: true}},
		{"3.5", rig.Options{Hosts: 5, Version: testetcd.V35}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if !v.options.Fixture {
				rig.TakesLong(t, "a minute")
			}
			t.Parallel()
			c := rig.NewCluster(t, v.options)
			var x *rig.Theirs
			if v.options.Fixture {
				x = c.UnpackTheirs()
			} else {
				x = c.FormTheirs(1, 2, 3)
			}
			id, members := x.MemberIDs()
			marker := c.Marker()
			certificate := c.CertificateOf(x, 1)
			w := c.Write()
			for n := 1; n <= 3; n++ {
				c.TakeOver(x, n)
				w.WaitFor(10)
				if n < 3 {
					c.Blocked(c.Host(n), "is being taken over", fmt.Sprintf("%d member", n))
					if got := c.Marker(); !bytes.Equal(got, marker) {
						t.Fatalf("the marker was changed after %d of 3 hosts: %s", n, got)
					}
				}
			}
			c.Generation(1, 1, 2, 3)
			if gotID, got := x.MemberIDs(); gotID != id || !maps.Equal(got, members) {
				t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
			}
			if got := c.CertificateOf(x, 1); !bytes.Equal(got, certificate) {
				t.Error("the certificate was changed")
			}
			if v.options.Fixture {
				if n := c.CountKeys("/fixture/"); n != 51 {
					t.Errorf("%d keys of the fixture are there, want 51", n)
				}
			}
			stall := w.Longest
			c.Start(4, 5)
			c.Configure(5)
			c.Voters(2*time.Minute, 1, 2, 3, 4, 5)
			to := testetcd.V37
			if v.options.Version == testetcd.V35 {
				to = testetcd.V36
			}
			c.To(to, 1, 2, 3, 4, 5)
			c.Voters(rig.Soon, 1, 2, 3, 4, 5)
			w.Check()
			t.Logf("longest time without a write while it was taken over: %s", stall.Round(time.Millisecond))
		})
	}
}

// Our daemon started beside the running etcd of theirs waits, says so once, and
// takes over by itself once that has ended.
func TestAdoptionWaits(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	x := c.FormTheirs(1, 2, 3)
	w := c.Write()
	c.Start(1)
	c.Blocked(c.Host(1), "taken over", "stop etcd-manager on this host")
	x.Kill(1)
	began := time.Now()
	c.Host(1).Serves(rig.Soon)
	t.Logf("it serves %s after the end of their etcd", time.Since(began).Round(time.Millisecond))
	w.Check()
}

// In the middle of it a person can go back: two of three hosts are ours, and
// theirs goes on with all data under the same IDs; and can come again.
func TestAdoptionGoesBack(t *testing.T) {
	rig.TakesLong(t, "25 s")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	x := c.FormTheirs(1, 2, 3)
	id, members := x.MemberIDs()
	marker := c.Marker()
	before, err := os.ReadFile(x.StatePath(1))
	if err != nil {
		t.Fatal(err)
	}
	w := c.Write()
	for _, n := range []int{1, 2} {
		c.TakeOver(x, n)
	}
	w.WaitFor(10)
	for _, n := range []int{2, 1} {
		c.Host(n).Interrupt()
		x.Start("existing", n)
	}
	w.WaitFor(10)
	if gotID, got := x.MemberIDs(); gotID != id || !maps.Equal(got, members) {
		t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
	if got := c.Marker(); !bytes.Equal(got, marker) {
		t.Errorf("the marker was changed: %s", got)
	}
	if after, err := os.ReadFile(x.StatePath(1)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("their state was changed (%v)", err)
	}
	for _, n := range []int{1, 2, 3} {
		c.TakeOver(x, n)
		w.WaitFor(10)
	}
	c.Generation(1, 1, 2, 3)
	if *rig.Long {
		c.GoesBackLater(x, w, before)
	}
	w.Check()
}

// The daemon is killed while it takes over, again and again; a state file that is
// empty or torn is made up for by the log and the spec.
func TestAdoptionDisturbed(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	x := c.FormTheirs(1, 2, 3)
	id, members := x.MemberIDs()
	w := c.Write()
	state := x.State()
	rig.Put(t, x.StatePath(2), nil, 0o600)
	rig.Put(t, x.StatePath(3), state[:len(state)/2], 0o600)
	for n := 1; n <= 3; n++ {
		x.Kill(n)
		for try := range 6 { // from before its lock to after its etcd serves
			c.Start(n)
			waitOrEnd(c.Host(n), time.Duration(try)*120*time.Millisecond)
			c.Host(n).Kill()
		}
		c.Start(n)
		c.Host(n).Serves(rig.Soon)
		w.WaitFor(10)
	}
	for range 3 { // around the write of the record
		c.Host(1).Kill()
		c.Start(1)
	}
	c.Generation(1, 1, 2, 3)
	if gotID, got := x.MemberIDs(); gotID != id || !maps.Equal(got, members) {
		t.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
	w.Check()
}

// waitOrEnd gives a daemon some time of its life.
func waitOrEnd(h *rig.Host, d time.Duration) {
	ctx, cancel := context.WithTimeout(h.C.T.Context(), d)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-h.Done:
	}
}
