package setup

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

// A joiner's key never leaves it and is the same after an interruption; what the cluster signs is kept if it is this
// host's; and the host asks again when that has ended, or a person says so, and not else.
func TestALeafOfItsOwn(t *testing.T) {
	cluster := t.TempDir()
	all, err := pki.Create(cluster, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Paths: Paths{Root: t.TempDir()}, Build: "test"}
	o := Join{Address: "192.0.2.2", HostID: "b"}
	s := m.hostSettings(o.Address, o.HostID, "")
	s.setFlag("cluster-name", "etcd")
	files := map[string][]byte{}
	for _, one := range all.All() {
		files[one.Name()+".crt"] = one.BundlePEM()
	}
	if err := m.keepAuthorities(s.PKI(m.Paths), files, all.Manager.Hash()); err != nil {
		t.Fatal(err)
	}
	data := s.Flag("data-dir")
	sign := func(request []byte, address string, life time.Duration) []byte {
		t.Helper()
		who := signing.Who{Cluster: "etcd", Host: "b", Names: []string{address}}
		public, r, err := signing.Judge(signing.Daemon, request, who, pki.Lifetime{Duration: life})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := all.Manager.Certify(public, r, time.Now().Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Raw
	}
	request, key, err := m.ask(o, data, "try")
	if err != nil || len(request.Leaf) == 0 || len(request.Former) > 0 {
		t.Fatalf("%v", err)
	}
	if _, err := os.Lstat(data); !errors.Is(err, os.ErrNotExist) {
		t.Error("something is written before the cluster has answered")
	}
	if err := m.keepLeaf(s, key, nil); err == nil {
		t.Error("no certificate was taken for one")
	}
	if err := m.keepLeaf(s, key, sign(request.Leaf, "192.0.2.3", time.Hour)); !errors.Is(err, pki.ErrNotAsked) {
		t.Errorf("a certificate for another address: %v", err)
	}
	other, _, err := m.ask(o, t.TempDir(), "try")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.keepLeaf(s, key, sign(other.Leaf, o.Address, time.Hour)); !errors.Is(err, pki.ErrNotAsked) {
		t.Errorf("a certificate for another key: %v", err)
	}
	// It ends at once: the host has to come back.
	if err := m.keepLeaf(s, key, sign(request.Leaf, o.Address, time.Minute+4*time.Second)); err != nil {
		t.Fatal(err)
	}
	if again, err := m.Paths.asksAgain(s, false); err != nil || again {
		t.Errorf("a host whose certificate is good asks again: %v", err)
	}
	if again, err := m.Paths.asksAgain(s, true); err != nil || !again {
		t.Errorf("a person's word is not heard: %v", err)
	}
	info, err := os.Stat(filepath.Join(daemonPair(data), pki.PeerNames.Key))
	if err != nil || info.Mode().Perm() != modeSecret {
		t.Errorf("%v, %v", info, err)
	}
	for ended := false; !ended; time.Sleep(50 * time.Millisecond) {
		if ended, err = m.Paths.asksAgain(s, false); err != nil {
			t.Fatal(err)
		}
	}
	back, same, err := m.ask(o, data, "try")
	if err != nil || len(back.Former) == 0 {
		t.Fatalf("%v", err)
	}
	former, err1 := x509.ParseCertificate(back.Former)
	public, err2 := signing.Proven(back.Leaf)
	if err := errors.Join(err1, err2); err != nil || !pki.SameKey(former.PublicKey, public) {
		t.Errorf("it does not show that it is the same host: %v", err)
	}
	if err := m.keepLeaf(s, same, sign(back.Leaf, o.Address, time.Hour)); err != nil {
		t.Error(err)
	}
	// With the keys it asks nobody any more.
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		secret, err := os.ReadFile(filepath.Join(cluster, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		files[name+".key"] = secret
	}
	if err := m.keepAuthorities(s.PKI(m.Paths), files, all.Manager.Hash()); err != nil {
		t.Fatal(err)
	}
	if again, err := m.Paths.asksAgain(s, true); err != nil || again {
		t.Errorf("a host that holds the keys asks: %v", err)
	}
	delete(files, pki.PeersCA+".crt")
	if _, err := given(files); err == nil {
		t.Error("five files are taken for all")
	}
}
