package pki

import (
	"fmt"
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

// Expiry is when the leaf ends, under the given name.
func (k *Keypair) Expiry(name string) Expiry { return Expiry{Name: name, NotAfter: k.leaf.NotAfter} }
