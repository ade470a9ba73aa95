package pki

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Expiry is when something stops being valid, for metrics and status.
type Expiry struct {
	Name     string    `json:"name"` // "etcd-peers-ca", or a bundle's further certificates "etcd-peers-ca[1]"; a leaf as its owner calls it
	NotAfter time.Time `json:"notAfter"`
}

// Expiries lists the certificates of the three authorities, the signing (or, without a key, the first) one of each under the plain name.
func (a *Authorities) Expiries() []Expiry {
	var all []Expiry
	for _, one := range a.All() {
		all = append(all, one.Expiries()...)
	}
	return all
}

// Expiries lists the certificates of the bundle.
func (a *Authority) Expiries() []Expiry {
	first := a.signing
	if first == nil {
		first = a.bundle[0]
	}
	all := []Expiry{{Name: a.name, NotAfter: first.NotAfter}}
	for _, c := range a.bundle {
		if c != first {
			all = append(all, Expiry{Name: fmt.Sprintf("%s[%d]", a.name, len(all)), NotAfter: c.NotAfter})
		}
	}
	return all
}

// LastEnd is when the last leaf ends that may still be issued by who signed this one: with its certificate, of several for one key with
// the one that lasts, and before that with who signed that, as far as it is in the bundle or among others. Zero: nobody of the bundle
// signed the leaf.
func (a *Authority) LastEnd(leaf *x509.Certificate, others []*x509.Certificate) time.Time {
	return lastEnd(leaf, a.bundle, slices.Concat(a.bundle, others))
}

func lastEnd(c *x509.Certificate, by, all []*x509.Certificate) (last time.Time) {
	for _, s := range by {
		if c.CheckSignatureFrom(s) != nil {
			continue
		}
		end := s.NotAfter
		if s.CheckSignatureFrom(s) != nil {
			above := slices.DeleteFunc(slices.Clone(all), s.Equal)
			if first := lastEnd(s, above, above); !first.IsZero() && first.Before(end) {
				end = first
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

// Expiry is when the leaf ends, under the given name.
func (k *Keypair) Expiry(name string) Expiry { return Expiry{Name: name, NotAfter: k.leaf.NotAfter} }
