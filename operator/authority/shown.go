package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/internal/pki"
)

// What the authorities show behind their leaves, and whom they trust.

// load is pki.Load, and of the zero time pki.LoadUndated, where the clients' authority ends with the first of those that are shown
// with it, and with the issuer's own certificate where that is trusted.
//
// Errors: as of pki.Load; ErrForeign where what is to be shown behind its leaves cannot be read, as after an edit.
func load(dir string, now time.Time) (*pki.Authorities, error) {
	all, err := pki.LoadUndated(dir)
	if !now.IsZero() {
		all, err = pki.Load(dir, now)
	}
	if err != nil {
		return nil, err
	}
	shown, own, err := signers(dir, all.Clients)
	if err != nil {
		return nil, err
	}
	own = slices.DeleteFunc(own, func(c *x509.Certificate) bool { return !all.Clients.Trusts(c) })
	if ends := append(shown, own...); len(ends) > 0 {
		all.Clients = all.Clients.Until(slices.MinFunc(ends, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter)
	}
	if !now.IsZero() {
		err = all.Clients.Check(now)
	}
	return all, err
}

// signers are what the clients' authority shows behind its leaves, itself first, and the issuer's own certificate; none where it signs
// itself. What lies there of a former one is nobody's: an operator of before issuers leaves it beside the next one.
//
// Errors: ErrForeign: it cannot be read.
func signers(dir string, a *pki.Authority) (shown, own []*x509.Certificate, err error) {
	read := func(name string) []*x509.Certificate {
		all, failed := pki.ReadCertificates(filepath.Join(dir, name))
		switch {
		case errors.Is(failed, pki.ErrPEM):
			err = errors.Join(err, fmt.Errorf("%s: %w", name, ErrForeign))
		case !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
		return all
	}
	if shown = read(chainFile); len(shown) == 0 || !shown[0].Equal(a.Signing()) {
		return nil, nil, err
	}
	return shown, read(issuerFile), err
}

// chained is a leaf's file with what its authority shows behind it.
func chained(leaf *x509.Certificate, shown []*x509.Certificate) []byte {
	return slices.Concat([]byte(pki.CertificatePEM(leaf)), encode(shown...))
}

// join has the certificates of both, each once.
func join(a, b []byte) (out []byte) {
	var known [][]byte
	for _, rest := range [][]byte{a, b} {
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if !slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, block.Bytes) }) {
				known, out = append(known, block.Bytes), append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
			}
		}
	}
	return out
}
