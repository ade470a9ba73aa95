package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// withoutKeys are the authorities as a host has them that is to sign nothing.
func withoutKeys(t *testing.T, all *Authorities) *Authorities {
	t.Helper()
	dir := t.TempDir()
	for _, one := range all.All() {
		must(t, os.WriteFile(filepath.Join(dir, one.Name()+".crt"), one.BundlePEM(), 0o600))
	}
	public, err := Load(dir, t0)
	must(t, err)
	return public
}

// What another host signs is taken if it is what was asked for, and nothing else is; what was there stays then.
func TestWhatAnotherHostSigned(t *testing.T) {
	all, err := Create(t.TempDir(), t0.Add(-day))
	must(t, err)
	public := withoutKeys(t, all)
	if !all.CanIssue() || public.CanIssue() || public.Of(PeersCA) != public.Peers || public.Of("x") != nil {
		t.Error("who can issue is not told")
	}
	dir := t.TempDir()
	r := hostRequest(t, "h1")
	r.OnRequest = true
	asked := 0
	signs := func(key crypto.Signer, r Request) (*x509.Certificate, error) {
		asked++
		return all.Peers.Certify(key.Public(), r, t0)
	}
	first, err := EnsureBy(dir, PeerNames, public.Peers, r, t0, signs)
	must(t, err)
	if first.Issued == "" || asked != 1 {
		t.Fatalf("%+v after %d questions", first, asked)
	}
	again, err := EnsureBy(dir, PeerNames, public.Peers, r, t0.Add(day), signs)
	must(t, err)
	if again.Issued != "" || asked != 1 || !again.Pair.Leaf().Equal(first.Pair.Leaf()) {
		t.Errorf("%+v after %d questions", again, asked)
	}
	stranger := ecKey(t)
	r.Anew = true
	for name, by := range map[string]Issuer{
		"another key": func(_ crypto.Signer, r Request) (*x509.Certificate, error) {
			return all.Peers.Certify(stranger.Public(), r, t0)
		},
		"another name": func(key crypto.Signer, _ Request) (*x509.Certificate, error) {
			return all.Peers.Certify(key.Public(), hostRequest(t, "h2"), t0)
		},
		"another authority": func(key crypto.Signer, r Request) (*x509.Certificate, error) {
			return all.Clients.Certify(key.Public(), r, t0)
		},
		"no usage of a server": func(key crypto.Signer, r Request) (*x509.Certificate, error) {
			r.Server = false
			return all.Peers.Certify(key.Public(), r, t0)
		},
		"one that has ended": func(key crypto.Signer, r Request) (*x509.Certificate, error) {
			r.Lifetime = Lifetime{Duration: time.Hour}
			return all.Peers.Certify(key.Public(), r, t0.Add(-2*time.Hour))
		},
		"an authority": func(key crypto.Signer, r Request) (*x509.Certificate, error) {
			uri, err := r.Identity.uri()
			must(t, err)
			der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
				SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: r.CommonName}, NotBefore: t0.Add(-time.Hour), NotAfter: t0.Add(day),
				KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, DNSNames: r.DNS, IPAddresses: r.IPs, ExtKeyUsage: r.usages(), URIs: []*url.URL{uri},
			}, all.Peers.signing, key.Public(), all.Peers.key)
			must(t, err)
			leaf, err := x509.ParseCertificate(der)
			must(t, err)
			must(t, verifyLeaf(leaf, nil, all.Peers.Pool(), x509.ExtKeyUsageServerAuth, t0)) // nothing else is wrong with it
			return leaf, nil
		},
		"nobody": func(crypto.Signer, Request) (*x509.Certificate, error) { return nil, errors.New("nobody signs") },
	} {
		done, err := EnsureBy(dir, PeerNames, public.Peers, r, t0, by)
		if err != nil || done.Overdue == nil || done.Issued != "" || !done.Pair.Leaf().Equal(first.Pair.Leaf()) {
			t.Errorf("%s: %+v, %v", name, done, err)

		}
		if kept, err := LoadKeypair(dir, PeerNames); err != nil || !kept.Leaf().Equal(first.Pair.Leaf()) {
			t.Errorf("%s: %v, %v", name, kept, err)
		}
	}
}

// What is signed on request is due early, and not for all at the same time; and not where a new one would end no later.
func TestDueOnRequest(t *testing.T) {
	all, err := Create(t.TempDir(), t0)
	must(t, err)
	r := hostRequest(t, "h1")
	r.OnRequest, r.Lifetime = true, Lifetime{Duration: 360 * day}
	seen := map[time.Time]bool{}
	for range 20 {
		pair, err := all.Peers.Issue(r, t0)
		must(t, err)
		due := r.renewAt(pair.Leaf())
		if due.Before(t0.Add(120*day-time.Minute)) || due.After(t0.Add(151*day)) {
			t.Errorf("due at %s", due)
		}
		seen[due] = true
		issued, life := Life(pair.Leaf())
		if issued != t0 || life != 360*day {
			t.Errorf("issued at %s for %s", issued, life)
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d times for 20 certificates", len(seen))
	}
	public := withoutKeys(t, all)
	late := t0.Add(AuthorityLifetime - 100*day)
	pair, err := all.Peers.Issue(r, late)
	must(t, err)
	if why := public.Peers.whyIssue(pair, r, late.Add(90*day)); why != "" {
		t.Errorf("with the authority's end for its own: %s", why)
	}
}

// A key is the same from the request to the certificate, and after an interruption.
func TestCandidate(t *testing.T) {
	all, err := Create(t.TempDir(), t0)
	must(t, err)
	public := withoutKeys(t, all)
	dir := t.TempDir()
	key, err := Candidate(dir, PeerNames, KeyAny)
	must(t, err)
	if key.Leaf() != nil || key.String() == "" {
		t.Errorf("%s", key)
	}
	if _, err := os.Lstat(filepath.Join(dir, PeerNames.Key)); err == nil {
		t.Error("a key was written before there is a certificate for it")
	}
	r := hostRequest(t, "h1")
	request, err := key.SigningRequest(r)
	must(t, err)
	parsed, err := x509.ParseCertificateRequest(request)
	must(t, err)
	must(t, parsed.CheckSignature())
	leaf, err := all.Peers.Certify(parsed.PublicKey, r, t0)
	must(t, err)
	given := func(crypto.Signer, Request) (*x509.Certificate, error) { return leaf, nil }
	done, err := EnsureBy(dir, PeerNames, public.Peers, r.ByKeyOf(key), t0, given)
	must(t, err)
	if !done.Pair.Leaf().Equal(leaf) || !done.Pair.Certifies(key.key, r) || done.Pair.Certifies(ecKey(t), r) {
		t.Errorf("%+v", done)
	}
	back, err := Candidate(dir, PeerNames, KeyAny)
	must(t, err)
	if !SameKey(back.key.Public(), key.key.Public()) || back.Leaf() == nil {
		t.Error("the key is another one")
	}
	must(t, os.Remove(filepath.Join(dir, PeerNames.Cert)))
	if back, err = Candidate(dir, PeerNames, KeyAny); err != nil || !SameKey(back.key.Public(), key.key.Public()) || back.Leaf() != nil {
		t.Errorf("%v, %v", back, err)
	}
}

// A seal is of one authority and one statement.
func TestSeal(t *testing.T) {
	all, err := Create(t.TempDir(), t0)
	must(t, err)
	public := withoutKeys(t, all)
	seal, err := all.Manager.Seal([]byte("a statement"))
	must(t, err)
	if !public.Manager.Sealed([]byte("a statement"), seal) || public.Manager.Sealed([]byte("another"), seal) || public.Peers.Sealed([]byte("a statement"), seal) || public.Manager.Sealed([]byte("a statement"), nil) {
		t.Error("the seal fits what it does not seal, or not what it does")
	}
	if _, err := public.Manager.Seal([]byte("a statement")); !errors.Is(err, ErrNoKey) {
		t.Errorf("%v", err)
	}
}
