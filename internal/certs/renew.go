package certs

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"etcdadm.io/internal/pki"
)

// Renewal is which certificates are to be renewed.
type Renewal struct {
	All    bool // also those that are good and not due
	DryRun bool // change nothing
}

// Renewed is what became of one certificate.
type Renewed struct {
	File     string    `json:"file"`
	For      string    `json:"for"`
	NotAfter time.Time `json:"notAfter,omitzero"` // of the one that lies there now
	// Renewed is why there is a new one, or would be; empty: the one that is there is good.
	Renewed string `json:"renewed,omitempty"`
	// Trust says that the authority's certificates beside it were written anew, as a rotation needs it.
	Trust bool `json:"trust,omitempty"`
	// Failed is why there is none although one is due.
	Failed string `json:"failed,omitempty"`
}

// Renew issues anew what is due: the leaves of the agent and its member, at two thirds of their life as the agent does, and
// what Issue made, whose CA files then have what the authority's bundle has. Each keeps its key and its names, so that who reads the files takes the new certificate without
// a restart: etcd at its next handshake, the agent within ten minutes. Certificates of former members and those whose files were moved
// to another place are left out.
//
// One certificate that fails keeps no other from being renewed, and stands in the result. The error is what keeps all from it.
func (h Host) Renew(o Renewal, now time.Time) ([]Renewed, error) {
	all, damaged, err := h.renewals()
	if err != nil {
		return nil, err
	}
	out := []Renewed{}
	for _, b := range damaged {
		out = append(out, Renewed{File: b.path, For: unknownUse, Failed: b.err.Error()})
	}
	for _, one := range all {
		done := Renewed{File: one.file(), For: one.use}
		authority, err := pki.LoadAuthority(h.PKI, one.authority, now)
		if err == nil {
			err = h.renew(one, authority, o, now, &done)
		}
		if err != nil {
			done.Failed = err.Error()
		}
		out = append(out, done)
	}
	return out, nil
}

// renewal is a key pair that can be renewed.
type renewal struct {
	leaf
	issued *record // nil: the agent's
	life   pki.Lifetime
}

func (h Host) renewals() ([]renewal, []broken, error) {
	leaves, err := h.leaves()
	if err != nil {
		return nil, nil, err
	}
	issued, damaged, err := h.records()
	if err != nil {
		return nil, nil, err
	}
	var all []renewal
	for _, l := range leaves {
		if !l.unused {
			all = append(all, renewal{leaf: l, life: h.Life})
		}
	}
	for _, r := range issued {
		if _, err := os.Lstat(r.certFile()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		all = append(all, renewal{leaf{r.Dir, r.names(), r.For, pki.ClientsCA, false, ""}, &r, r.lifetime()})
	}
	return all, damaged, nil
}

func (h Host) renew(one renewal, a *pki.Authority, o Renewal, now time.Time, done *Renewed) error {
	certs, err := pki.ReadCertificates(one.file())
	if err != nil {
		return fmt.Errorf("%w; the agent makes its own anew, and etcdadm certs issue the others", err)
	}
	done.NotAfter = certs[0].NotAfter
	if one.issued != nil {
		foreign, err := strangers(*one.issued, *one.issued, a)
		if err != nil {
			return err
		}
		if len(foreign) > 0 {
			return fmt.Errorf("%s: %w; to take its place: etcdadm certs issue --set-aside", foreign[0], ErrForeign)
		}
	}
	request := pki.RequestAgain(certs[0], one.life)
	request.Anew = o.All
	by, err := h.issuer(one, a)
	if err != nil {
		return err
	}
	request.OnRequest = by != nil
	why := pki.WhyRenew(one.dir, one.names, a, request, now)
	if o.DryRun || why == "" && one.issued == nil {
		done.Renewed = why
		return nil
	}
	var kept pki.Ensured
	if one.issued != nil {
		kept, err = h.ensure(*one.issued, *one.issued, a, request, now)
	} else if kept, err = pki.EnsureBy(one.dir, one.names, a, request, now, by); err == nil {
		err = kept.Overdue
	}
	if err != nil {
		return err
	}
	done.Renewed, done.Trust, done.NotAfter = kept.Issued, kept.TrustChanged, kept.Pair.Leaf().NotAfter
	return nil
}

// issuer is another host, where this one does not hold the key of the authority; nil: the authority here.
func (h Host) issuer(one renewal, a *pki.Authority) (pki.Issuer, error) {
	switch {
	case a.CanIssue():
		return nil, nil //nolint:nilnil // no other issuer is an answer
	case one.issued != nil:
		return nil, fmt.Errorf("%w: issue it anew on a host that holds it, with --out, and copy it here", ErrNoAuthority)
	case h.Ask == nil:
		return nil, nil //nolint:nilnil // the authority says that it has no key
	}
	return func(key crypto.Signer, r pki.Request) (*x509.Certificate, error) {
		request, err := pki.SigningRequest(key, r)
		if err != nil {
			return nil, err
		}
		der, err := h.Ask(one.kind, request)
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(der)
	}, nil
}
