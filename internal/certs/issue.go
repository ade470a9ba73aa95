package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/pki"
)

// Purposes with places of their own, as people name them.
const (
	ForAPIServer   = "kube-apiserver"
	ForHealthcheck = "healthcheck"
	ForEtcdctl     = "etcdctl"
)

// purpose is a client of etcd with the place where it looks for its certificate.
type purpose struct {
	commonName string
	dir        string // below the root
	names      pki.Names
}

// purposes are kubeadm's clients, by the names and in the files that it knows, and etcdctl where etcdadm of
// kubernetes-sigs puts its certificate. kubeadm reads the authority from etcd/ca.crt for both of its own.
var purposes = map[string]purpose{
	ForAPIServer:   {"kube-apiserver-etcd-client", "etc/kubernetes/pki", pki.Names{CA: "etcd/ca.crt", Cert: "apiserver-etcd-client.crt", Key: "apiserver-etcd-client.key"}},
	ForHealthcheck: {"kube-etcd-healthcheck-client", "etc/kubernetes/pki", pki.Names{CA: "etcd/ca.crt", Cert: "etcd/healthcheck-client.crt", Key: "etcd/healthcheck-client.key"}},
	ForEtcdctl:     {"root", "etc/etcd/pki", pki.Names{CA: "ca.crt", Cert: "etcdctl-etcd-client.crt", Key: "etcdctl-etcd-client.key"}},
}

// Order is a client certificate that is wanted.
type Order struct {
	For      string       // one of the purposes, or a common name
	Dir      string       // instead of the purpose's own directory; a common name has none
	Life     pki.Lifetime // of the certificate; zero: as it was issued before, or pki.DefaultLifetime
	SetAside bool         // move what somebody else made to a name beside it
	DryRun   bool         // change nothing
}

// Issued is what came of an order.
type Issued struct {
	For        string    `json:"for"`
	CommonName string    `json:"commonName"`
	CA         string    `json:"ca"`
	Cert       string    `json:"cert"`
	Key        string    `json:"key"`
	NotAfter   time.Time `json:"notAfter,omitzero"` // zero after a dry run
	// Issued is why a certificate was issued, or would be; empty: the one that is there is good.
	Issued string `json:"issued,omitempty"`
	// Aside are the names under which files of somebody else lie now, or would.
	Aside []string `json:"setAside,omitempty"`
}

// maxName bounds a common name, in bytes: X.509 has 64.
const maxName = 64

// planned is the record that an order would leave.
func (h Host) planned(o Order) (record, error) {
	p, known := purposes[o.For]
	if !known {
		odd := func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.@:", r))
		}
		if o.For == "" || len(o.For) > maxName || strings.HasPrefix(o.For, ".") || strings.ContainsFunc(o.For, odd) || o.For == "ca" {
			return record{}, &Error{Problem: fmt.Sprintf("%q is no common name", o.For), Advice: fmt.Sprintf("use 1 to %d letters, digits and -_.@:, not beginning with a dot; with authentication on it is etcd's user", maxName)}
		}
		if o.Dir == "" {
			return record{}, &Error{Problem: "say in which directory the certificate of " + o.For + " is to lie"}
		}
		p = purpose{commonName: o.For, names: pki.Names{CA: "ca.crt", Cert: o.For + ".crt", Key: o.For + ".key"}}
	}
	dir := h.at(p.dir)
	if o.Dir != "" {
		var err error
		if dir, err = filepath.Abs(o.Dir); err != nil {
			return record{}, &Error{Problem: "find " + o.Dir, Err: err}
		}
	}
	return record{For: o.For, CommonName: p.commonName, Dir: dir, Files: files(p.names)}, nil
}

// Files are where the certificate of a purpose lies below a directory that takes the place of its own.
func Files(purpose, dir string) (ca, cert, key string) {
	n := purposes[purpose].names
	return filepath.Join(dir, n.CA), filepath.Join(dir, n.Cert), filepath.Join(dir, n.Key)
}

// NamesPlace tells whether a purpose has a place of its own.
func NamesPlace(purpose string) bool { _, ok := purposes[purpose]; return ok }

// Issue makes a client certificate, and keeps it as it is while it is good. Run again it goes on after an interruption.
//
// Errors: *Error with ErrForeign or ErrNoAuthority, and then nothing was changed; *pki.Error.
func (h Host) Issue(o Order, now time.Time) (Issued, error) {
	want, err := h.planned(o)
	if err != nil {
		return Issued{}, err
	}
	authority, err := h.clientsAuthority(now)
	if err != nil {
		return Issued{}, err
	}
	had, err := readRecord(h.recordFile(want.certFile()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Issued{}, err
	}
	life := o.Life
	if life == (pki.Lifetime{}) {
		life = had.lifetime()
	}
	if life == (pki.Lifetime{}) {
		life = pki.DefaultLifetime()
	}
	if err := life.Validate(); err != nil {
		return Issued{}, &Error{Problem: "the certificate's life", Err: err}
	}
	want.Duration, want.MinTimeLeft = life.Duration, life.MinTimeLeft
	request, err := pki.ClientRequest(want.CommonName, life)
	if err != nil {
		return Issued{}, &Error{Problem: "issue a certificate", Err: err}
	}
	done := Issued{For: want.For, CommonName: want.CommonName, CA: want.caFile(), Cert: want.certFile(), Key: want.keyFile()}
	foreign, err := strangers(want, had, authority)
	if err != nil {
		return Issued{}, err
	}
	if len(foreign) > 0 && !o.SetAside {
		return Issued{}, &Error{Problem: strings.Join(foreign, ", "), Err: ErrForeign,
			Advice: "see who needs it first: a stacked etcd of kubeadm has files of these names; then give --set-aside to move it to a name beside it, or --out another directory"}
	}
	stamp := now.UTC().Format("20060102T150405.000000000Z")
	for _, path := range foreign {
		done.Aside = append(done.Aside, path+".set-aside-"+stamp)
	}
	if o.DryRun {
		done.Issued = pki.WhyRenew(want.Dir, want.names(), authority, request, now)
		if len(foreign) > 0 {
			done.Issued = "there is no certificate of etcdadm's"
		}
		return done, nil
	}
	for i, path := range foreign {
		if err := durable.OS().Rename(path, done.Aside[i]); err != nil {
			return Issued{}, &Error{Problem: "set aside " + path, Err: err}
		}
		if err := durable.SyncDir(filepath.Dir(path)); err != nil {
			return Issued{}, &Error{Problem: "set aside " + path, Err: err}
		}
	}
	kept, err := h.ensure(want, had, authority, request, now)
	if err != nil {
		return Issued{}, err
	}
	done.NotAfter, done.Issued = kept.Pair.Leaf().NotAfter, kept.Issued
	return done, nil
}

func (h Host) clientsAuthority(now time.Time) (*pki.Authority, error) {
	a, err := pki.LoadAuthority(h.PKI, pki.ClientsCA, now)
	if err != nil {
		return nil, err
	}
	if !a.CanIssue() {
		return nil, &Error{Problem: fmt.Sprintf("%s.key is not in %s", pki.ClientsCA, h.PKI), Err: ErrNoAuthority,
			Advice: "run it on a host that has it, which etcdadm status names, with --out DIR, and copy the files here"}
	}
	return a, nil
}

// ensure records first that files of these names are ours, makes them, and records what they are.
func (h Host) ensure(want, had record, a *pki.Authority, request pki.Request, now time.Time) (pki.Ensured, error) {
	if had.Dir == "" {
		if err := h.keep(want); err != nil {
			return pki.Ensured{}, err
		}
	}
	mode := fs.FileMode(0o700)
	if p, ok := purposes[want.For]; ok && want.Dir == h.at(p.dir) { // which other programs share
		mode = 0o755
	}
	for _, path := range []string{want.caFile(), want.certFile()} {
		if err := durable.MakeDir(filepath.Dir(path), mode); err != nil {
			return pki.Ensured{}, &Error{Problem: "make " + filepath.Dir(path), Err: err, Advice: "run it as root"}
		}
	}
	kept, err := pki.Ensure(want.Dir, want.names(), a, request, now)
	if err == nil {
		err = kept.Overdue
	}
	if err != nil {
		return kept, err
	}
	leaf := kept.Pair.Leaf()
	want.Fingerprint, want.NotBefore, want.NotAfter, want.Trusted = pki.Fingerprint(leaf), leaf.NotBefore, leaf.NotAfter, a.Fingerprints()
	if had.equal(want) {
		return kept, nil
	}
	return kept, h.keep(want)
}

// equal is about what is recorded, but for the format.
func (r record) equal(o record) bool {
	return r.For == o.For && r.CommonName == o.CommonName && r.Dir == o.Dir && r.Files == o.Files && r.Duration == o.Duration && r.MinTimeLeft == o.MinTimeLeft &&
		r.Fingerprint == o.Fingerprint && r.NotAfter.Equal(o.NotAfter) && slices.Equal(r.Trusted, o.Trusted)
}

// strangers are the files of an order that lie there and are not ours to replace.
func strangers(want, had record, a *pki.Authority) (foreign []string, err error) {
	certs, certErr := pki.ReadCertificates(want.certFile())
	ours := false // the certificate
	switch {
	case errors.Is(certErr, fs.ErrNotExist):
	case errors.Is(certErr, fs.ErrPermission):
		return nil, &Error{Problem: "look at what is there", Err: certErr, Advice: "run it as root"}
	case certErr != nil:
		foreign = append(foreign, want.certFile())
	default:
		ours = certs[0].Subject.CommonName == want.CommonName && (pki.Fingerprint(certs[0]) == had.Fingerprint || a.Signed(certs[0]))
		if !ours {
			foreign = append(foreign, want.certFile())
		}
	}
	if _, err := os.Lstat(want.keyFile()); err == nil {
		// A key by itself is ours where an order was recorded: it was interrupted, or the certificate was lost.
		alone := had.Dir != "" && errors.Is(certErr, fs.ErrNotExist)
		if _, err := pki.LoadKeypair(want.Dir, want.names()); !alone && (!ours || err != nil) {
			foreign = append(foreign, want.keyFile())
		}
	}
	trusted, caErr := pki.ReadCertificates(want.caFile())
	known := func(c *x509.Certificate) bool { return a.Trusts(c) || slices.Contains(had.Trusted, pki.Fingerprint(c)) }
	switch {
	case errors.Is(caErr, fs.ErrNotExist):
	case caErr != nil || slices.ContainsFunc(trusted, func(c *x509.Certificate) bool { return !known(c) }):
		foreign = append(foreign, want.caFile())
	}
	return foreign, nil
}
