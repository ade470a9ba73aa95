package authority

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/internal/pki"
)

// A rotation changes the files of the authorities step by step; docs/adr/042-rotating-the-authorities-of-pods.md has the
// protocol. NAME.crt and NAME.key are at each step what is trusted and what signs. Beside them lie NAME.next.key, which signs
// later, NAME.before.key, which signed before, and what was set aside as NAME.aside.crt and NAME.aside.key.

var names = []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA}

// Certificates are those of the authorities, by their SHA-256, sorted.
type Certificates struct {
	Trusts []string `json:"trusts"`
	Signs  []string `json:"signs,omitempty"`
	// Member are those that etcd is started with.
	Member []string `json:"member"`
	// Shown are those behind the leaves of the clients' authority, and the issuer's own, in their order; empty: it signs itself.
	Shown []string `json:"shown,omitempty"`
	// Due is when two thirds of the life of the first one that signs are over, and Ends when it ends; zero: none signs.
	Due  time.Time `json:"due,omitzero"`
	Ends time.Time `json:"ends,omitzero"`
	// OtherEnds is when the first of those ends that are to sign next, or signed before; zero: there are none.
	OtherEnds time.Time `json:"otherEnds,omitzero"`
}

// Are reports whether they are the certificates that were written down. Who wrote down nothing of an issuer knew of none, and what is
// there of one is of the certificates nonetheless.
func (c Certificates) Are(written Certificates) bool {
	return slices.Equal(c.Trusts, written.Trusts) && slices.Equal(c.Signs, written.Signs) && (len(written.Shown) == 0 || slices.Equal(c.Shown, written.Shown))
}

// Describe says which certificates the files are, whatever their dates: one that has ended is what it was.
//
// Errors: what pki.LoadUndated refuses, such as a key that is none of its certificates'; ErrForeign.
func Describe(files Files) (Certificates, error) {
	out, err := describe(files)
	if err != nil {
		return out, err
	}
	switch trust, sign := Rotating(files); {
	case trust:
		next, err := describe(Sign(files))
		if out.OtherEnds = next.Ends; err == nil && files[nextChain] != nil && len(next.Shown) == 0 {
			err = fmt.Errorf("%s: %w", nextChain, ErrForeign)
		}
		return out, err
	case sign:
		if former, err := describe(unsign(files)); err == nil { // else nobody needs them
			out.OtherEnds = former.Ends
		}
	}
	return out, nil
}

// unsign has those sign that signed before. What an issuer gave for them is not known any more.
func unsign(files Files) Files {
	out := maps.Clone(files)
	for _, name := range names {
		move(out, files, name+".key", name+".before.key")
	}
	delete(out, chainFile)
	delete(out, issuerFile)
	return out
}

func describe(files Files) (out Certificates, err error) {
	err = within(files, func(dir string) error {
		all, err := load(dir, time.Time{})
		if err != nil {
			return err
		}
		shown, own, err := signers(dir, all.Clients)
		if err != nil {
			return err
		}
		for _, c := range append(shown, own...) {
			out.Shown = append(out.Shown, pki.Fingerprint(c))
		}
		for _, a := range all.All() {
			out.Trusts = append(out.Trusts, a.Fingerprints()...)
			if a != all.Manager {
				out.Member = append(out.Member, a.Fingerprints()...)
			}
			signs := a.Signing()
			if signs == nil {
				continue
			}
			out.Signs = append(out.Signs, pki.Fingerprint(signs))
			issued, _ := pki.Life(signs)
			ends := a.Ends().UTC()
			life := max(ends.Sub(issued), 0)
			if due := issued.Add(life - life/3).UTC(); out.Due.IsZero() || due.Before(out.Due) {
				out.Due = due
			}
			if out.Ends.IsZero() || ends.Before(out.Ends) {
				out.Ends = ends
			}
		}
		return nil
	})
	for _, list := range []*[]string{&out.Trusts, &out.Signs, &out.Member} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out, err
}

// Rotating says of files of which nothing is written beside them how far a rotation is by themselves.
func Rotating(files Files) (trust, sign bool) {
	_, trust = files[names[0]+".next.key"]
	_, sign = files[names[0]+".before.key"]
	return trust, sign && !trust
}

// Next makes the next authorities, and trusts both. Their keys sign nothing yet. Those that were to sign next and did not are gone. by is the clients' one where an issuer signed it;
// nil: it signs itself.
func Next(files Files, by *Signed, now time.Time) (Files, error) {
	made, err := Found(by, now)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(files)
	for _, name := range names {
		former, err := without(files[name+".crt"], files[name+".next.key"])
		if err != nil {
			return nil, fmt.Errorf("%s.next.key: %w", name, err)
		}
		out[name+".crt"] = join(former, made[name+".crt"])
		out[name+".next.key"] = made[name+".key"]
		delete(out, name+".before.key")
	}
	move(out, made, nextChain, chainFile)
	move(out, made, nextIssuer, issuerFile)
	delete(out, askedKey)
	return out, nil
}

// without has the certificates but those of a key; nil: all.
func without(certificates, key []byte) (out []byte, err error) {
	if key == nil {
		return certificates, nil
	}
	public, err := pki.PublicKey(key)
	if err != nil {
		return nil, err
	}
	all, err := pki.ParseCertificates(certificates)
	return encode(slices.DeleteFunc(all, func(c *x509.Certificate) bool { return pki.SameKey(c.PublicKey, public) })...), err
}

// move has a file be what another one is; missing: likewise.
func move(out, from Files, to, name string) {
	if delete(out, to); from[name] != nil {
		out[to] = from[name]
	}
}

// Sign has the next authorities sign. Both are trusted.
func Sign(files Files) Files {
	out := maps.Clone(files)
	for _, name := range names {
		if key, is := files[name+".key"]; is {
			out[name+".before.key"] = key
		}
		out[name+".key"] = files[name+".next.key"]
		delete(out, name+".next.key")
	}
	for to, name := range map[string]string{chainFile: nextChain, issuerFile: nextIssuer} {
		move(out, files, to, name)
		delete(out, name)
	}
	return out
}

// Drop trusts nobody any more but who signs; and, where it is trusted, the issuer that signed the clients' one. What lies there of
// others goes.
func Drop(files Files, issuerTrusted bool) (Files, error) {
	out := maps.Clone(files)
	err := within(files, func(dir string) error {
		all, err := load(dir, time.Time{})
		if err != nil {
			return err
		}
		for _, a := range all.All() {
			if a.Signing() == nil {
				return fmt.Errorf("no key of %s is here", a.Name())
			}
			out[a.Name()+".crt"] = []byte(pki.CertificatePEM(a.Signing()))
		}
		shown, own, err := signers(dir, all.Clients)
		switch {
		case err != nil:
			return err
		case len(shown) == 0:
			delete(out, chainFile)
			delete(out, issuerFile)
		case issuerTrusted:
			out[pki.ClientsCA+".crt"] = join(out[pki.ClientsCA+".crt"], encode(own...))
		}
		return nil
	})
	return out, err
}

// Forget lets the former keys go, which nobody trusts any more.
func Forget(files Files) Files {
	out := maps.Clone(files)
	for _, name := range names {
		delete(out, name+".before.key")
	}
	return out
}

// Anew makes authorities in place of those that have ended, which are set aside.
func Anew(ended Files, by *Signed, now time.Time) (Files, error) {
	out, err := Found(by, now)
	setAside(out, ended)
	return out, err
}

// Regain is whom hosts trust, by what lies in the Secrets of their leaves and in what clients have, as the files of authorities
// whose keys are lost. What lies in their place is set aside.
//
// Errors: nothing says whom they trust.
func Regain(foreign Files, trusted ...Files) (Files, error) {
	out := Files{}
	setAside(out, foreign)
	for _, name := range names {
		var known []string
		for _, files := range trusted {
			for rest := files[name+".crt"]; ; {
				var block *pem.Block
				if block, rest = pem.Decode(rest); block == nil {
					break
				}
				c, err := x509.ParseCertificate(block.Bytes)
				if err != nil || slices.Contains(known, pki.Fingerprint(c)) {
					continue
				}
				known = append(known, pki.Fingerprint(c))
				out[name+".crt"] = append(out[name+".crt"], pki.CertificatePEM(c)...)
			}
		}
		if len(known) == 0 {
			return nil, fmt.Errorf("nothing says which %s the hosts trust", name)
		}
	}
	return out, nil
}

// Keys are those of leaves, without the leaves.
func Keys(files Files) Files {
	out := Files{}
	for _, l := range leaves {
		if key, is := files[l.name+".key"]; is {
			out[l.name+".key"] = key
		}
	}
	return out
}

func setAside(out, files Files) {
	for _, name := range names {
		for _, kind := range []string{".crt", ".key"} {
			if data, is := files[name+kind]; is {
				out[name+".aside"+kind] = data
			}
		}
	}
}

// ErrForeign says that a host shows certificates of authorities that these files do not trust: they are not its cluster's, or
// those of an earlier time.
var ErrForeign = errors.New("hosts show certificates of other authorities than these")

// Vouch says whether these authorities, whatever their dates, trust what a host shows. What has ended is shown to nobody.
//
// Errors: ErrForeign.
func Vouch(authorities, leaves Files, now time.Time) error {
	return within(authorities, func(dir string) error {
		all, err := load(dir, time.Time{})
		if err != nil {
			return err
		}
		return within(leaves, func(out string) error { return vouch(all, out, now) })
	})
}

func vouch(all *pki.Authorities, dir string, now time.Time) error {
	for _, l := range leaves {
		shown, err := pki.ReadCertificates(filepath.Join(dir, l.name+".crt"))
		if err == nil && len(shown) > 0 && now.Before(shown[0].NotAfter) && !l.of(all).Signed(shown[0]) {
			return fmt.Errorf("%s: %w", l.of(all).Name(), ErrForeign)
		}
	}
	return nil
}
