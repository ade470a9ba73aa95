package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// Authorities that expired, that are missing, or that are another cluster's.
func TestAuthoritiesAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 2, tls: true})
	h := c.host(1)
	h.flags = []string{"--pki-dir=" + filepath.Join(c.dir, "none")}
	h.refused("etcd-manager-ca", c.dir)
	expired := filepath.Join(c.dir, "expired")
	if _, err := pki.Create(expired, time.Now().AddDate(-11, 0, 0)); err != nil && !errors.Is(err, pki.ErrExpired) {
		t.Fatal(err)
	}
	h.flags = []string{"--pki-dir=" + expired}
	h.refused("expired", c.dir)

	h.flags = nil
	c.configure(1)
	h.start()
	c.voters(soon, 1)
	w := c.write()
	other := filepath.Join(c.dir, "other")
	if _, err := pki.Create(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	stranger := c.host(2)
	stranger.flags = []string{"--pki-dir=" + other}
	stranger.start()
	c.configure(3)
	stranger.said(soon, "certificate")
	w.waitFor(50)
	c.members(soon, 1)
	if pid := stranger.etcdPID(); pid != 0 {
		t.Errorf("a host with other authorities runs etcd, pid %d", pid)
	}
	w.check()
}

// A leaf that expired, or that is another host's, is replaced by one of its
// own; nobody is let in by it meanwhile.
func TestWrongLeavesAreReplaced(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{tls: true})
	w := c.write()
	authorities, err := pki.Load(c.pkiDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h, dir := c.host(2), filepath.Join(c.host(2).dir, "etcdadm", "pki", "daemon")
	for _, wrong := range []struct {
		host *host
		at   time.Time
		life pki.Lifetime
	}{{h, time.Now().Add(-4 * time.Minute), pki.Lifetime{Duration: 2 * time.Minute}}, {c.host(1), time.Now(), pki.DefaultLifetime()}} {
		h.interrupt()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		request, err := pki.HostRequest(pki.Identity{Cluster: c.name, Role: pki.RoleHost, ID: string(wrong.host.id())}, []string{wrong.host.address}, wrong.life)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Ensure(dir, pki.PeerNames, authorities.Manager, request, wrong.at); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(h.log, 0); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.said(soon, "issued a certificate")
		c.voters(soon, 1, 2, 3)
		pair, err := pki.LoadKeypair(dir, pki.PeerNames)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := pki.IdentityOf(pair.Leaf()); err != nil || id.ID != string(h.id()) || time.Now().After(pair.Leaf().NotAfter) {
			t.Errorf("host 2 uses the certificate of %+v, good until %s (%v)", id, pair.Leaf().NotAfter, err)
		}
	}
	w.check()
}
