package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

var at = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// signer is an issuer: a root, and a certificate of its own by which it signs.
type signer struct {
	t            *testing.T
	root, ca     *x509.Certificate
	rootKey, key crypto.Signer
}

func makeKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a certificate; what it does not say of its life is from an hour ago for twenty years.
func sign(t *testing.T, c x509.Certificate, public crypto.PublicKey, by *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	c.SerialNumber, c.BasicConstraintsValid = big.NewInt(int64(len(c.Subject.CommonName))), true
	if c.NotBefore.IsZero() {
		c.NotBefore = at.Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = at.Add(20 * 365 * 24 * time.Hour)
	}
	if by == nil {
		by = &c
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, by, public, key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func named(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}
}

func newSigner(t *testing.T, root, ca x509.Certificate) *signer {
	t.Helper()
	s := &signer{t: t, rootKey: makeKey(t), key: makeKey(t)}
	s.root = sign(t, root, s.rootKey.Public(), nil, s.rootKey)
	s.ca = sign(t, ca, s.key.Public(), s.root, s.rootKey)
	return s
}

// beside is another issuer below the same root.
func (s *signer) beside() *signer {
	out := &signer{t: s.t, root: s.root, rootKey: s.rootKey, key: makeKey(s.t)}
	out.ca = sign(s.t, named("another issuing"), out.key.Public(), s.root, s.rootKey)
	return out
}

// asked are files with a key for which an issuer is asked, and its public key.
func asked(t *testing.T, files Files) (Files, crypto.PublicKey) {
	t.Helper()
	out, id, err := Ask(files)
	if err != nil {
		t.Fatal(err)
	}
	request, err := Request(out)
	if err != nil || Requests(request) != id {
		t.Fatalf("the request is for %q, want %q: %v", Requests(request), id, err)
	}
	public, err := pki.PublicKey(out[askedKey])
	if err != nil {
		t.Fatal(err)
	}
	return out, public
}

// What an issuer gives is looked at as if a stranger had made it, in whatever order it comes.
func TestTake(t *testing.T) {
	issuer := newSigner(t, named("root"), named("issuing"))
	files, public := asked(t, nil)
	good := sign(t, named("etcd-clients-ca"), public, issuer.ca, issuer.key)
	until := func(c x509.Certificate, end time.Time) x509.Certificate { c.NotAfter = end; return c }
	leaf := named("etcd-clients-ca")
	leaf.IsCA, leaf.KeyUsage = false, x509.KeyUsageDigitalSignature
	late := named("etcd-clients-ca")
	late.NotBefore = at.Add(time.Hour)
	flat := named("issuing")
	flat.MaxPathLen, flat.MaxPathLenZero = 0, true
	narrow := named("issuing")
	narrow.PermittedDNSDomains, narrow.PermittedDNSDomainsCritical = []string{"example.org"}, true
	ending := newSigner(t, named("root"), until(named("issuing"), at.Add(LeastLife-time.Second)))
	short, flatIssuer, narrowIssuer := newSigner(t, until(named("root"), at.Add(LeastLife-time.Second)), named("issuing")), newSigner(t, named("root"), flat), newSigner(t, named("root"), narrow)
	trusted := map[string]bool{"a root that ends above a trusted issuer": true, "a trusted issuer that ends": true, "a trusted issuer, untold": true, "a trusted issuer that tells nothing": true}
	by := func(s *signer) []byte { return encode(sign(t, named("etcd-clients-ca"), public, s.ca, s.key), s.ca) }
	for name, test := range map[string]struct {
		certificate, ca []byte
		says            string
	}{
		"as it comes":                             {encode(good, issuer.ca), encode(issuer.root), ""},
		"in another order, with the root":         {encode(issuer.root, issuer.ca, good), encode(issuer.root), ""},
		"without the issuer's own":                {encode(good, issuer.ca), nil, ""},
		"the issuing one as its own":              {encode(good), encode(issuer.ca), ""},
		"the rest of a life":                      {encode(sign(t, until(named("etcd-clients-ca"), at.Add(LeastLife)), public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), ""},
		"rubbish":                                 {[]byte("x"), encode(issuer.root), "the certificate cannot be read"},
		"rubbish of the issuer's own":             {encode(good, issuer.ca), []byte("x"), "status.ca) cannot be read"},
		"another key":                             {encode(sign(t, named("x"), makeKey(t).Public(), issuer.ca, issuer.key)), encode(issuer.root), "for another key"},
		"no authority":                            {encode(sign(t, leaf, public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), "is no authority's"},
		"the issuer's own is no authority":        {encode(good, issuer.ca), encode(sign(t, leaf, makeKey(t).Public(), issuer.ca, issuer.key)), "would not trust the members"},
		"a second too short":                      {encode(sign(t, until(named("etcd-clients-ca"), at.Add(LeastLife-time.Second)), public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), "30d are needed"},
		"ended":                                   {encode(sign(t, until(named("etcd-clients-ca"), at.Add(-time.Minute)), public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), "30d are needed"},
		"later":                                   {encode(sign(t, late, public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), "is not valid before"},
		"a root that ends above a trusted issuer": {by(short), encode(short.root), ""},
		"a trusted issuer that ends":              {encode(sign(t, named("etcd-clients-ca"), public, short.root, short.rootKey)), encode(short.root), "30d are needed"},
		"a trusted issuer, untold":                {encode(good, issuer.ca), nil, ""},
		"a trusted issuer that tells nothing":     {encode(good), nil, "by which certificate it signs"},
		"a root that ends":                        {by(short), encode(short.root), ""},
		"one between that ends":                   {by(ending), encode(ending.root), "30d are needed"},
		"a stranger's root":                       {encode(good, issuer.ca), encode(newSigner(t, named("root"), named("issuing")).root), "would not trust the members"},
		"one between is missing":                  {encode(good), encode(issuer.root), "would not trust the members"},
		"an issuer of leaves alone":               {by(flatIssuer), encode(flatIssuer.root), "would not trust the members"},
		"an issuer for other names":               {by(narrowIssuer), encode(narrowIssuer.root), "would not trust the members"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Take(files, Answer{Certificate: test.certificate, Own: test.ca, Trusted: trusted[name]}, host, at)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says == "" && (!got.own.PublicKey.(*ecdsa.PublicKey).Equal(public) || slices.ContainsFunc(got.between, issuer.root.Equal)):
				t.Errorf("it is %s, and %d are shown behind it", got.own.Subject, len(got.between))
			case test.says != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), test.says)):
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
	if _, err := Take(Files{}, Answer{Certificate: encode(good)}, host, at); !errors.Is(err, pki.ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
}

// From authorities of the cluster's own to an issuer's, to another one's, and back: at each step leaves show the whole way to who
// signs them, hosts of neighbouring steps take each other's, and nothing of who was dropped is left.
func TestRotationToAnIssuer(t *testing.T) {
	step := func(files Files, err error) Files {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	files := step(Create(at))
	had, _, err := Issue(files, nil, host, at)
	if err != nil {
		t.Fatal(err)
	}
	issuers := []*signer{newSigner(t, named("first root"), named("issuing")), newSigner(t, named("second root"), named("issuing")), nil}
	for i, issuer := range issuers {
		var by *Signed
		if issuer != nil {
			with, public := asked(t, files)
			by, err = Take(with, Answer{Certificate: encode(sign(t, named("etcd-clients-ca"), public, issuer.ca, issuer.key), issuer.ca), Own: encode(issuer.root)}, host, at)
			if err != nil {
				t.Fatal(err)
			}
			if is, err := Describe(with); err != nil || len(is.Trusts) != len(step3(t, files)) {
				t.Fatalf("a key that is asked for changes who is trusted: %+v %v", is, err)
			}
			files = with
		}
		trust := step(Next(files, by, at))
		next := Sign(trust)
		drop := step(Drop(next, false))
		for name, files := range map[string]Files{"trust": trust, "sign": next, "drop": drop, "done": Forget(drop)} {
			if _, err := Describe(files); err != nil {
				t.Errorf("%d, %s: %v", i, name, err)
			}
		}
		steps := []Files{had}
		for _, files := range []Files{trust, next, drop} {
			got, _, err := Issue(files, steps[len(steps)-1], host, at)
			if err != nil {
				t.Fatal(err)
			}
			if last := steps[len(steps)-1]; !bytes.Equal(got["server.key"], had["server.key"]) || !takes(t, got, last, at) || !takes(t, last, got, at) {
				t.Errorf("%d: hosts of two steps do not take each other", i)
			}
			steps = append(steps, got)
		}
		if takes(t, steps[0], steps[3], at) {
			t.Errorf("%d: the former ones trust the next ones", i)
		}
		files, had = Forget(drop), steps[3]
		want := 6
		if issuer != nil {
			want = 8
			if trusted, err := pki.ParseCertificates(had[pki.ClientsCA+".crt"]); err != nil || len(trusted) != 1 || trusted[0].CheckSignatureFrom(issuer.ca) != nil {
				t.Errorf("%d: trusted are %d: %v", i, len(trusted), err)
			}
			showsAll(t, had, issuer)
		} else if all, err := pki.ParseCertificates(had["server.crt"]); err != nil || len(all) != 1 {
			t.Errorf("it shows %d certificates: %v", len(all), err)
		}
		if len(files) != want {
			t.Errorf("%d: left are %v", i, slices.Sorted(maps.Keys(files)))
		}
	}
}

func step3(t *testing.T, files Files) []string {
	t.Helper()
	is, err := Describe(files)
	if err != nil {
		t.Fatal(err)
	}
	return is.Trusts
}

// showsAll: who trusts the issuer's root alone trusts what is shown, whose root is not among it; and who signed the leaf is named by
// its own authority, though the issuer's is trusted as well, in whatever order they lie there.
func showsAll(t *testing.T, leaves Files, issuer *signer) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(issuer.root)
	for _, name := range []string{"server", "client"} {
		shown, err := pki.ParseCertificates(leaves[name+".crt"])
		if err != nil || len(shown) != 3 || !shown[2].Equal(issuer.ca) {
			t.Fatalf("%s shows %d: %v", name, len(shown), err)
		}
		between := x509.NewCertPool()
		for _, c := range shown[1:] {
			between.AddCert(c)
		}
		if _, err := shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(err)
		}
		own, err := pki.ParseCertificates(leaves[pki.ClientsCA+".crt"])
		if err != nil {
			t.Fatal(err)
		}
		trusted := []*x509.Certificate{own[0], issuer.ca} // as with trustIssuer
		for range trusted {
			slices.Reverse(trusted)
			files := maps.Clone(leaves)
			files[pki.ClientsCA+".crt"] = encode(trusted...)
			if err := within(files, func(dir string) error {
				all, err := pki.Load(dir, at)
				if err == nil && !all.Clients.SignerOf(shown[0]).Equal(shown[1]) {
					t.Errorf("%s is told to be signed by %s", name, all.Clients.SignerOf(shown[0]).Subject)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	}
}

// An authority ends with the first of those that are verified with it: what it shows, and the certificate by which the issuer signs
// where that is trusted. What nobody trusts ends for itself, as the root above a trusted issuer.
func TestWhoseEndCounts(t *testing.T) {
	end := at.Add(90 * 24 * time.Hour)
	ends := func(name string, it bool) x509.Certificate {
		c := named(name)
		if it {
			c.NotAfter = end
		}
		return c
	}
	for _, test := range []struct{ root, between, direct, trusted, ends bool }{
		{root: true}, {root: true, trusted: true}, {between: true, ends: true}, {between: true, trusted: true, ends: true}, {trusted: true},
		{root: true, direct: true}, {root: true, direct: true, trusted: true, ends: true},
	} {
		issuer := newSigner(t, ends("root", test.root), ends("issuing", test.between))
		if test.direct { // by what signs itself
			issuer.ca, issuer.key = issuer.root, issuer.rootKey
		}
		made := byIssuer(t, issuer, test.trusted)
		is, err := Describe(made)
		if err != nil || is.Ends.Equal(end) != test.ends {
			t.Errorf("%+v: it ends at %s: %v", test, is.Ends, err)
		}
		leaves, _, err := Issue(made, nil, host, end.Add(-time.Hour))
		if err != nil || leafOf(t, leaves, "server.crt").NotAfter.Equal(end) != test.ends {
			t.Errorf("%+v: a leaf ends at %s: %v", test, leafOf(t, leaves, "server.crt").NotAfter, err)
		}
	}
}

// byIssuer are the first authorities of a cluster, of which an issuer signed the clients'.
func byIssuer(t *testing.T, issuer *signer, trusted bool) Files {
	t.Helper()
	files, public := asked(t, nil)
	by, err := Take(files, Answer{Certificate: encode(sign(t, named("etcd-clients-ca"), public, issuer.ca, issuer.key), issuer.ca), Own: encode(issuer.root), Trusted: trusted}, host, at)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Found(by, at)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Leaves end with their authority, two thirds of whose life are those up to its end; and leaves that end with it are not renewed for
// nothing.
func TestIssuerThatEnds(t *testing.T) {
	end := at.Add(90 * 24 * time.Hour)
	between := named("issuing")
	between.NotAfter = end
	made := byIssuer(t, newSigner(t, named("root"), between), false)
	is, err := Describe(made)
	if err != nil || !is.Ends.Equal(end) || is.Due.Before(at.Add(59*24*time.Hour)) || is.Due.After(at.Add(61*24*time.Hour)) {
		t.Fatalf("%+v %v", is, err)
	}
	leaves, due, err := Issue(made, nil, host, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server", "client"} {
		if c := leafOf(t, leaves, name+".crt"); !c.NotAfter.Equal(end) {
			t.Errorf("%s ends at %s", name, c.NotAfter)
		}
	}
	if c := leafOf(t, leaves, "peer.crt"); !c.NotAfter.After(end) {
		t.Error("the peers' side ends with the clients'")
	}
	if want := at.Add(80 * 24 * time.Hour); due.Before(want) {
		t.Errorf("it is due at %s", due)
	}
	for _, name := range []string{chainFile, issuerFile} {
		edited := maps.Clone(made)
		edited[name] = []byte("x")
		if _, _, err := Issue(edited, leaves, host, at); !errors.Is(err, ErrForeign) {
			t.Errorf("issued with an edited %s: %v", name, err)
		}
	}
	later := at.Add(70 * 24 * time.Hour)
	again, _, err := Issue(made, leaves, host, later)
	if err != nil || !bytes.Equal(again["server.crt"], leaves["server.crt"]) {
		t.Errorf("it was renewed for nothing: %v", err)
	}
	if _, _, err := Issue(made, nil, host, end.Add(time.Second)); !errors.Is(err, pki.ErrExpired) {
		t.Errorf("it has not ended: %v", err)
	}
}
