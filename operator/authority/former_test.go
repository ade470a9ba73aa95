package authority

import (
	"crypto"
	"crypto/x509"
	"errors"
	"maps"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// An operator that knows of no issuers has the authorities rotated: what it leaves of the former one is not shown, and goes with the
// next step. The same files where an issuer is written down were edited.
func TestFilesOfAFormerIssuer(t *testing.T) {
	issuer := newSigner(t, named("root"), named("issuing"))
	had := byIssuer(t, issuer, false)
	written, err := Describe(had)
	if err != nil || len(written.Shown) != 3 {
		t.Fatalf("%+v %v", written, err)
	}
	trust, err := Next(had, nil, at)
	if err != nil {
		t.Fatal(err)
	}
	leaves, _, err := Issue(trust, nil, host, at)
	if err != nil {
		t.Fatal(err)
	}
	showsAll(t, leaves, issuer)
	half := Sign(trust)
	half[chainFile], half[issuerFile] = had[chainFile], had[issuerFile]
	is, err := Describe(half)
	if err != nil || len(is.Shown) > 0 || !is.Ends.After(at.Add(9*365*24*time.Hour)) {
		t.Fatalf("%+v %v", is, err)
	}
	for _, files := range []Files{leaves, nil} {
		got, _, err := Issue(half, files, host, at)
		if err != nil {
			t.Fatal(err)
		}
		if shown, err := pki.ParseCertificates(got["server.crt"]); err != nil || len(shown) != 1 {
			t.Errorf("%d certificates are shown: %v", len(shown), err)
		}
	}
	drop, err := Drop(half, true)
	if err != nil || drop[chainFile] != nil || drop[issuerFile] != nil {
		t.Errorf("what is left of the former issuer stays: %v", err)
	}
	if trusted, err := pki.ParseCertificates(drop[pki.ClientsCA+".crt"]); err != nil || len(trusted) != 1 {
		t.Errorf("%d are trusted: %v", len(trusted), err)
	}
	for name, text := range map[string][]byte{chainFile: encode(issuer.ca), "": nil, issuerFile: encode(issuer.root)} {
		edited := maps.Clone(had)
		if name != "" {
			edited[name] = text
		}
		if is, err := Describe(edited); err != nil || is.Are(written) != (name == "") {
			t.Errorf("another %s is taken for what was written: %v", name, err)
		}
	}
	if older := (Certificates{Trusts: written.Trusts, Signs: written.Signs}); !written.Are(older) {
		t.Error("what was written without a word of issuers is taken for another one")
	}
	with, public := asked(t, had)
	by, err := Take(with, Answer{Certificate: encode(signed(t, issuer, public), issuer.ca), Own: encode(issuer.root)}, host, at)
	if err != nil {
		t.Fatal(err)
	}
	next, err := Next(with, by, at)
	if err != nil {
		t.Fatal(err)
	}
	next[nextChain] = had[chainFile]
	if _, err := Describe(next); !errors.Is(err, ErrForeign) {
		t.Errorf("the next one shows another's way: %v", err)
	}
}

func signed(t *testing.T, by *signer, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	return sign(t, named("etcd-clients-ca"), public, by.ca, by.key)
}
