package setup

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

// daemonPair is where the agent keeps the certificate that says which host it is.
func daemonPair(data string) string { return filepath.Join(data, "etcdadm", "pki", "daemon") }

// asksAgain tells whether a machine that is a host already asks the cluster once more: it holds no authorities' keys,
// and its certificate does not serve any more, or a person wants it to ask.
func (p Paths) asksAgain(s Settings, again bool) (bool, error) {
	all, err := pki.Load(s.PKI(p), time.Now())
	switch {
	case err != nil:
		return false, err
	case all.CanIssue():
		return false, nil
	case again:
		return true, nil
	}
	pair, err := pki.LoadKeypair(daemonPair(s.Flag("data-dir")), pki.PeerNames)
	if errors.Is(err, fs.ErrPermission) {
		return false, &Error{Problem: "read this host's certificate", Err: err, Advice: "run it as root"}
	}
	now := time.Now()
	return err != nil || now.After(pair.Leaf().NotAfter) || !all.Manager.Signed(pair.Leaf()), nil
}

// ask is what this machine says of itself to be let in. The key of its certificate stays here, as it is there from
// an earlier time or in memory until there is a certificate for it.
func (m *Machine) ask(o Join, data, try string) (peer.JoinRequest, *pki.Keypair, error) {
	r := peer.JoinRequest{Token: o.Token.Reveal(), Host: hostID(o), Address: o.Address, Build: m.Build, Clock: time.Now(), Try: try}
	key, err := pki.Candidate(daemonPair(data), pki.PeerNames, pki.KeyAny)
	if err != nil {
		return r, nil, err
	}
	if r.Leaf, err = key.SigningRequest(pki.Request{CommonName: o.HostID}); err != nil {
		return r, nil, err
	}
	if key.Leaf() != nil {
		r.Former = key.Leaf().Raw
	}
	return r, key, nil
}

// keepLeaf writes the certificate that the cluster has signed for this host, with its key, after it was looked at as a
// stranger's would be.
func (m *Machine) keepLeaf(s Settings, key *pki.Keypair, der []byte) error {
	const release = "install the same release of etcdadm on both hosts"
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return &Error{Problem: "the cluster gave neither the authorities' keys nor a certificate that can be read", Advice: release}
	}
	authority, err := pki.LoadAuthority(s.PKI(m.Paths), pki.ManagerCA, time.Now())
	if err != nil {
		return err
	}
	id := pki.Identity{Cluster: s.Cluster(), Role: pki.RoleHost, ID: string(s.HostID())}
	want, err := pki.HostRequest(id, signing.Names(id.ID, s.Flag("address"), s.Flag("dns-suffix")), pki.DefaultLifetime())
	if err != nil {
		return err
	}
	data := s.Flag("data-dir")
	if err := m.Paths.noteOurs(KindData, data); err != nil {
		return err
	}
	if err := durable.MakeDir(data, modeData); err != nil {
		return &Error{Problem: "make " + data, Err: err}
	}
	want.Anew = true
	given := func(crypto.Signer, pki.Request) (*x509.Certificate, error) { return leaf, nil }
	kept, err := pki.EnsureBy(daemonPair(data), pki.PeerNames, authority, want.ByKeyOf(key), time.Now(), given)
	if err == nil {
		err = kept.Overdue
	}
	if err != nil {
		return &Error{Problem: "keep the certificate that the cluster gave", Err: err, Advice: release}
	}
	return nil
}

// given are the files of the authorities that a cluster gave: with all keys, or with none.
func given(files map[string][]byte) ([]string, error) {
	names := AuthorityFiles()
	if len(files) == len(names)/2 {
		var public []string
		for _, name := range names {
			if !strings.HasSuffix(name, ".key") {
				public = append(public, name)
			}
		}
		names = public
	}
	if len(files) != len(names) {
		return nil, &Error{Problem: fmt.Sprintf("the cluster gave %d files of its authorities, and %d are needed", len(files), len(names)), Advice: "install the same release of etcdadm on both hosts"}
	}
	return names, nil
}
