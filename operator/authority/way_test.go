package authority

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// One issuer over two rotations: once one is over, who has a leaf of the former authority, and shows what it was signed by, is let in
// no more. Where the issuer is trusted he is, as the field says, before another one is named.
func TestFormerOfOneIssuer(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		issuer := newSigner(t, named("root"), named("issuing"))
		beside := issuer.beside()
		files, stolen := Files(nil), Files(nil)
		for n := range 3 {
			with, public := asked(t, files)
			by, err := Take(with, Answer{encode(sign(t, named("etcd-clients-ca"), public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), trusted}, host, at)
			if err != nil {
				t.Fatal(err)
			}
			if files == nil {
				files, err = Found(by, at)
			} else if with, err = Next(with, by, at); err == nil {
				files, err = Drop(Sign(with), trusted)
			}
			if err != nil {
				t.Fatal(err)
			}
			leaves, _, err := Issue(Forget(files), nil, host, at)
			if err != nil {
				t.Fatal(err)
			}
			if is := letsIn(t, leaves, issuer.application()); is != trusted {
				t.Errorf("trusted %v, %d: an application is let in: %v", trusted, n, is)
			}
			if letsIn(t, leaves, beside.application()) {
				t.Errorf("trusted %v, %d: one of another issuer below the same root is let in", trusted, n)
			}
			if stolen != nil && letsIn(t, leaves, stolen["client.crt"]) != trusted {
				t.Errorf("trusted %v, %d: a stolen leaf is let in: %v", trusted, n, !trusted)
			}
			if !letsIn(t, leaves, leaves["client.crt"]) {
				t.Error("its own is not let in")
			}
			if files, stolen = Forget(files), leaves; n == 1 && trusted != bytes.Contains(files[pki.ClientsCA+".crt"], encode(issuer.ca)) {
				t.Error("trusted is another one than is asked for")
			}
		}
	}
}

// application is what one with a certificate of the issuer shows, who calls itself root.
func (s *signer) application() []byte {
	c := x509.Certificate{Subject: pkix.Name{CommonName: "root"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	return encode(sign(s.t, c, makeKey(s.t).Public(), s.ca, s.key), s.ca)
}

// letsIn says whether a member with these files takes who shows this, as etcd does: all but the first are on the way.
func letsIn(t *testing.T, member Files, shows []byte) bool {
	t.Helper()
	shown, err := pki.ParseCertificates(shows)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := pki.ParseCertificates(member[pki.ClientsCA+".crt"])
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err = shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// Of an answer only the way from the authority to the issuer's own certificate is kept, in its order, however much else came; and a way
// that is too long, or an answer that is too large, is refused.
func TestOnlyTheWayIsKept(t *testing.T) {
	issuer, others := newSigner(t, named("root"), named("issuing")), newSigner(t, named("corporate root"), named("corporate issuing"))
	files, public := asked(t, nil)
	own := sign(t, named("etcd-clients-ca"), public, issuer.ca, issuer.key)
	ended := named("old root")
	ended.NotAfter = at.Add(-time.Minute)
	old := newSigner(t, ended, named("x"))
	for name, a := range map[string]Answer{
		"told":       {encode(others.root, others.ca, issuer.ca, own, issuer.root), encode(others.root, old.root, issuer.root, others.ca), true},
		"untold":     {encode(others.ca, issuer.ca, others.root, own, issuer.root), nil, false},
		"the rest":   {encode(issuer.ca, others.ca, own), encode(issuer.ca), false},
		"each twice": {encode(own, issuer.ca, own, issuer.ca), encode(issuer.root, issuer.root), false},
	} {
		s, err := Take(files, a, host, at)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made := s.files()
		if !bytes.Equal(made[chainFile], encode(own, issuer.ca)) || !bytes.Equal(made[issuerFile], encode(issuer.ca)) {
			t.Errorf("%s: shown are %d bytes, the issuer's are %d", name, len(made[chainFile]), len(made[issuerFile]))
		}
		want := encode(own)
		if a.Trusted {
			want = encode(own, issuer.ca)
		}
		if !bytes.Equal(made[pki.ClientsCA+".crt"], want) {
			t.Errorf("%s: others are trusted", name)
		}
	}
	last, key := issuer.ca, issuer.key
	way := []*x509.Certificate{issuer.ca}
	for n := range longestWay {
		next := makeKey(t)
		last = sign(t, named(strings.Repeat("x", n+1)), next.Public(), last, key)
		way, key = append(way, last), next
	}
	own = sign(t, named("etcd-clients-ca"), public, last, key)
	for name, a := range map[string]Answer{
		"too long":         {encode(append(way, own)...), encode(issuer.root), false},
		"too long, untold": {encode(append(way, own)...), nil, false},
		"too large":        {bytes.Repeat(encode(own), largestText/500), nil, false},
		"trusted, untold":  {encode(append(way, own)...), nil, true},
	} {
		if _, err := Take(files, a, host, at); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Authorities that ended are what they were: nothing of them was edited. A next one that ended is replaced by another next one, and who
// signs stays.
func TestNextThatEnded(t *testing.T) {
	issuer := newSigner(t, named("root"), named("issuing"))
	short := func(files Files) *Signed {
		with, public := asked(t, files)
		c := named("etcd-clients-ca")
		c.NotAfter = at.Add(40 * 24 * time.Hour)
		by, err := Take(with, Answer{encode(sign(t, c, public, issuer.ca, issuer.key), issuer.ca), encode(issuer.root), false}, host, at)
		if err != nil {
			t.Fatal(err)
		}
		return by
	}
	files, err := Create(at)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := Next(files, short(files), at)
	if err != nil {
		t.Fatal(err)
	}
	is, err := Describe(trust)
	if err != nil || !is.OtherEnds.Equal(at.Add(40*24*time.Hour)) || is.Ends.Before(at.Add(9*365*24*time.Hour)) {
		t.Fatalf("%+v %v", is, err)
	}
	if is, err = Describe(Sign(trust)); err != nil || !is.Ends.Equal(at.Add(40*24*time.Hour)) || is.OtherEnds.Before(at.Add(9*365*24*time.Hour)) {
		t.Fatalf("%+v %v", is, err)
	}
	again, err := Next(trust, nil, at.Add(50*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if is, err := Describe(again); err != nil || len(is.Trusts) != 6 || !bytes.Equal(again[pki.ClientsCA+".key"], files[pki.ClientsCA+".key"]) || again[nextChain] != nil {
		t.Errorf("%+v %v", is, err)
	}
	for _, name := range names {
		if bytes.Equal(again[name+".next.key"], trust[name+".next.key"]) {
			t.Errorf("%s is the one that ended", name)
		}
	}
}
