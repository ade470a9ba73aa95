package tls

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/pki"
)

// Authorities that expired, that are missing, or that are another cluster's.
func TestAuthoritiesAreRefused(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 2, TLS: true})
	h := c.Host(1)
	h.Flags = []string{"--pki-dir=" + filepath.Join(c.Dir, "none")}
	h.Refused("etcd-manager-ca", c.Dir)
	expired := filepath.Join(c.Dir, "expired")
	if _, err := pki.Create(expired, time.Now().AddDate(-11, 0, 0)); err != nil && !errors.Is(err, pki.ErrExpired) {
		t.Fatal(err)
	}
	h.Flags = []string{"--pki-dir=" + expired}
	h.Refused("expired", c.Dir)

	h.Flags = nil
	c.Configure(1)
	h.Start()
	c.Voters(rig.Soon, 1)
	w := c.Write()
	other := filepath.Join(c.Dir, "other")
	if _, err := pki.Create(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	stranger := c.Host(2)
	stranger.Flags = []string{"--pki-dir=" + other}
	stranger.Start()
	c.Configure(3)
	stranger.Said(rig.Soon, "certificate")
	w.WaitFor(50)
	c.Members(rig.Soon, 1)
	if pid := stranger.EtcdPID(); pid != 0 {
		t.Errorf("a host with other authorities runs etcd, pid %d", pid)
	}
	w.Check()
}

// A leaf that expired, or that is another host's, is replaced by one of its
// own; nobody is let in by it meanwhile.
func TestWrongLeavesAreReplaced(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{TLS: true})
	w := c.Write()
	authorities, err := pki.Load(c.PKIDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h, dir := c.Host(2), filepath.Join(c.Host(2).Dir, "etcdadm", "pki", "daemon")
	for _, wrong := range []struct {
		host *rig.Host
		at   time.Time
		life pki.Lifetime
	}{{h, time.Now().Add(-4 * time.Minute), pki.Lifetime{Duration: 2 * time.Minute}}, {c.Host(1), time.Now(), pki.DefaultLifetime()}} {
		h.Interrupt()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		request, err := pki.HostRequest(pki.Identity{Cluster: c.Name, Role: pki.RoleHost, ID: string(wrong.host.ID())}, []string{wrong.host.Address}, wrong.life)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Ensure(dir, pki.PeerNames, authorities.Manager, request, wrong.at); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(h.Log, 0); err != nil {
			t.Fatal(err)
		}
		h.Start()
		h.Said(rig.Soon, "issued a certificate")
		c.Voters(rig.Soon, 1, 2, 3)
		pair, err := pki.LoadKeypair(dir, pki.PeerNames)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := pki.IdentityOf(pair.Leaf()); err != nil || id.ID != string(h.ID()) || time.Now().After(pair.Leaf().NotAfter) {
			t.Errorf("host 2 uses the certificate of %+v, good until %s (%v)", id, pair.Leaf().NotAfter, err)
		}
	}
	w.Check()
}
