package certs

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

// names are what the authorities are for.
var names = []struct{ name, use string }{
	{pki.ManagerCA, "authority of agents and people"},
	{pki.PeersCA, "authority of etcd's members"},
	{pki.ClientsCA, "authority of etcd and its clients"},
}

// unknownUse is what a certificate is for whose record cannot be read.
const unknownUse = "record of an issued certificate"

// leaf is a key pair that the agent keeps.
type leaf struct {
	dir       string
	names     pki.Names
	use       string
	authority string
	unused    bool
	kind      signing.Kind
}

func (l leaf) file() string { return filepath.Join(l.dir, l.names.Cert) }

// leaves are the pairs that the agent of this host keeps, or has kept. Those that are not there are left out.
func (h Host) leaves() ([]leaf, error) {
	if h.Data == "" {
		return nil, nil
	}
	own := func(name string) string { return filepath.Join(h.Data, "etcdadm", "pki", name) }
	all := []leaf{
		{own("daemon"), pki.PeerNames, "the agent", pki.ManagerCA, false, signing.Daemon},
		{own("operator"), pki.PeerNames, "etcdadm of root", pki.ManagerCA, false, signing.Operator},
		{own("etcdctl"), pki.ClientNames, "etcdctl of root", pki.ClientsCA, false, signing.Etcdctl},
	}
	token := ""
	state, err := datadir.KnownState(h.Data)
	// What cannot be read does not say that a member is gone: then none is.
	known := err == nil || errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Problem: "find the member of this host", Err: err, Advice: "run it as root"}
	case err == nil && state.Launch != nil:
		token = state.Launch.Token
	}
	members, err := os.ReadDir(filepath.Join(h.Data, "pki"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Problem: "find the members' certificates", Err: err, Advice: "run it as root"}
	}
	for _, m := range members {
		dir, unused := filepath.Join(h.Data, "pki", m.Name()), known && m.Name() != token
		all = append(all,
			leaf{filepath.Join(dir, "peers"), pki.PeerNames, "etcd to its peers", pki.PeersCA, unused, signing.Peer},
			leaf{filepath.Join(dir, "clients"), pki.ServerNames, "etcd to its clients", pki.ClientsCA, unused, signing.Server},
			leaf{filepath.Join(dir, "clients"), pki.ClientNames, "the agent to etcd", pki.ClientsCA, unused, signing.Client})
	}
	there := all[:0]
	for _, l := range all {
		if _, err := os.Lstat(l.file()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		there = append(there, l)
	}
	return there, nil
}

// List tells of every certificate of this host. What is wrong with one stands in its state; an error is only what
// keeps all of them from being found.
func (h Host) List(now time.Time) ([]Certificate, error) {
	var out []Certificate
	known := authorities{map[string][]*x509.Certificate{}}
	for _, n := range names {
		file := filepath.Join(h.PKI, n.name+".crt")
		bundle, err := pki.ReadCertificates(file)
		if errors.Is(err, fs.ErrPermission) {
			return nil, &Error{Problem: "read the authorities", Err: err, Advice: "run it as root"}
		}
		if err != nil {
			out = append(out, Certificate{File: file, For: n.use, Renews: ByNobody, State: Damaged, Why: reason(err)})
			continue
		}
		known.bundles[n.name] = bundle
		for _, c := range bundle {
			one := known.describe(Certificate{File: file, For: n.use, Renews: ByNobody, Key: h.holds(n.name)}, c, now)
			if one.State == Untrusted { // it may be an authority below another one
				one.State, one.Why = judge(c.NotBefore, c.NotAfter, now), ""
			}
			out = append(out, one)
		}
	}
	leaves, err := h.leaves()
	if err != nil {
		return nil, err
	}
	for _, l := range leaves {
		by := ByAgent
		if !h.holds(l.authority) {
			by = ByOthers
		}
		one := known.pair(Certificate{File: l.file(), For: l.use, Renews: by}, l.dir, l.names, now)
		if l.unused {
			one.For, one.State, one.Why = one.For+" (former member)", Unused, ""
		}
		out = append(out, one)
	}
	issued, damaged, err := h.records()
	if err != nil {
		return nil, err
	}
	for _, b := range damaged {
		out = append(out, Certificate{File: b.path, For: unknownUse, Renews: ByPerson, State: Damaged, Why: b.err.Error()})
	}
	for _, r := range issued {
		if one, ok := known.issued(r, now); ok {
			out = append(out, one)
		}
	}
	return out, nil
}

// holds tells whether the key of an authority lies on this host.
func (h Host) holds(authority string) bool {
	_, err := os.Lstat(filepath.Join(h.PKI, authority+".key"))
	return err == nil
}

// reason is an error without the name of the file, which stands beside it.
func reason(err error) string {
	if told, ok := errors.AsType[*pki.Error](err); ok {
		return told.Err.Error()
	}
	return err.Error()
}

// describe fills in what a certificate says, and judges it.
func (a authorities) describe(one Certificate, c *x509.Certificate, now time.Time) Certificate {
	one.CommonName, one.NotBefore, one.NotAfter = c.Subject.CommonName, c.NotBefore, c.NotAfter
	one.State = judge(c.NotBefore, c.NotAfter, now)
	for _, n := range names {
		for _, by := range a.bundles[n.name] {
			if c.CheckSignatureFrom(by) == nil {
				one.Issuer, one.IssuedBy = n.name, pki.Fingerprint(by)
				return one
			}
		}
	}
	one.Issuer, one.State, one.Why = c.Issuer.CommonName, Untrusted, "no authority of this host has signed it"
	return one
}

// pair is describe for a certificate with its key.
func (a authorities) pair(one Certificate, dir string, names pki.Names, now time.Time) Certificate {
	all, err := pki.ReadCertificates(filepath.Join(dir, names.Cert))
	if err != nil {
		one.State, one.Why = Damaged, reason(err)
		return one
	}
	one = a.describe(one, all[0], now)
	if _, err := pki.LoadKeypair(dir, names); err != nil {
		one.State, one.Why = Damaged, "its key: "+reason(err)
	}
	return one
}

// issued is describe for what Issue made; not ok: it has ended, and lies elsewhere or nowhere.
func (a authorities) issued(r record, now time.Time) (one Certificate, ok bool) {
	one = Certificate{File: r.certFile(), For: r.For, CommonName: r.CommonName, NotBefore: r.NotBefore, NotAfter: r.NotAfter, Renews: ByPerson}
	_, certErr := os.Lstat(r.certFile())
	_, keyErr := os.Lstat(r.keyFile())
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		one.State, one.Why = Elsewhere, "its files are not here any more"
		if r.Fingerprint == "" { // it was never finished
			one.State, one.Why = Damaged, "issuing it was interrupted: run etcdadm certs issue again"
		}
		return one, now.Before(r.NotAfter) || r.Fingerprint == ""
	}
	one = a.pair(one, r.Dir, r.names(), now)
	if all, err := pki.ReadCertificates(r.certFile()); err == nil && r.Fingerprint != "" && pki.Fingerprint(all[0]) != r.Fingerprint && one.State == Untrusted {
		one.State, one.Why = Replaced, "another certificate lies in its place"
	}
	return one, true
}
