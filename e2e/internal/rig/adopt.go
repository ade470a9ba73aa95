package rig

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// TakeOver ends their etcd on a host and starts our daemon in its place.
func (c *Cluster) TakeOver(x *Theirs, n int) {
	c.T.Helper()
	began := time.Now()
	x.Kill(n)
	c.Start(n)
	c.Host(n).Serves(Soon)
	c.T.Logf("host %d: the member serves %s after their etcd was killed", n, time.Since(began).Round(10*time.Millisecond))
}

func (c *Cluster) Marker() []byte {
	c.T.Helper()
	data, err := os.ReadFile(filepath.Join(c.Store, "control", "etcd-cluster-created"))
	if err != nil {
		c.T.Fatal(err)
	}
	return data
}

func (c *Cluster) CertificateOf(x *Theirs, n int) []byte {
	c.T.Helper()
	if !c.Options.TLS {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(x.pki(n, "peers"), "me.crt"))
	if err != nil {
		c.T.Fatal(err)
	}
	return data
}

// GoesBackLater goes back after the record was written, and comes again.
func (c *Cluster) GoesBackLater(x *Theirs, w *writer, state []byte) {
	c.T.Helper()
	id, members := x.MemberIDs()
	for _, n := range []int{1, 2, 3} {
		c.Host(n).Interrupt()
		x.Start("existing", n)
		w.WaitFor(10)
	}
	if after, err := os.ReadFile(x.StatePath(1)); err != nil || !bytes.Equal(state, after) {
		c.T.Errorf("their state was changed (%v)", err)
	}
	for _, n := range []int{3, 1, 2} {
		c.TakeOver(x, n)
		w.WaitFor(10)
	}
	c.Generation(1, 1, 2, 3)
	c.Voters(Soon, 1, 2, 3)
	if gotID, got := x.MemberIDs(); gotID != id || !maps.Equal(got, members) {
		c.T.Errorf("cluster %x with members %x became %x with %x", id, members, gotID, got)
	}
}
