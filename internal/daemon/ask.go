package daemon

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

const (
	// askTotal bounds what a host without the authorities' keys waits for others to sign: nobody else's work waits
	// for it but the certificates' and a member's start.
	askTotal = 10 * time.Second
	// signOne bounds each of them.
	signOne = 3 * time.Second
	// askAgain is how soon nobody is asked again after nobody signed: several certificates are due at once.
	askAgain = 5 * time.Second
	// lackFirst and lackMost are between looks while certificates are lacking that a host needs first.
	lackFirst, lackMost = 200 * time.Millisecond, 30 * time.Second
)

// errNotAsked says that a certificate has to be signed elsewhere and no other host is known yet.
var errNotAsked = errors.New("this host does not hold the authorities' keys, and has not heard another host yet")

// asking is how a host without the authorities' keys comes by its certificates: others sign them. Nothing that runs
// waits for it: a certificate is asked for from a third of its life on.
type asking struct {
	// holders has a host that holds the keys sign a request; nil: none can be asked yet.
	holders func(ctx context.Context, kind signing.Kind, request []byte) ([]byte, error)
	// until when nobody is asked again, and why.
	until time.Time
	why   error
}

// signs has other hosts sign what this one cannot.
func (k *certs) signs(ctx context.Context, name string) pki.Issuer {
	return func(key crypto.Signer, r pki.Request) (*x509.Certificate, error) {
		if k.asking.holders == nil {
			return nil, errNotAsked
		}
		if time.Now().Before(k.asking.until) {
			return nil, k.asking.why
		}
		request, err := pki.SigningRequest(key, r)
		if err != nil {
			return nil, err
		}
		der, err := k.asking.holders(ctx, signing.Kind(name), request)
		if err != nil {
			if !errors.Is(err, errNotAsked) { // which costs nothing, and is over soon
				k.asking.until, k.asking.why = time.Now().Add(askAgain), err
			}
			return nil, err
		}
		return x509.ParseCertificate(der)
	}
}

// mayAsk says whom to ask from now on.
func (k *certs) mayAsk(holders func(context.Context, signing.Kind, []byte) ([]byte, error)) {
	k.writing.Lock()
	defer k.writing.Unlock()
	k.asking.holders = holders
}

// member keeps a pair that the member reads. Where others sign it, the same key and certificate lie beside the daemon's
// own: a launch with a new token, as of a restore, then finds them there and waits for nobody.
func (k *certs) member(ctx context.Context, name, dir string, names pki.Names, a *pki.Authority, r pki.Request) error {
	if a.CanIssue() || r.Kept {
		_, err := k.ensure(ctx, name, dir, names, a, r)
		return err
	}
	own := k.stateDir(name)
	lying, _ := pki.LoadKeypair(dir, names) // nil where it is not whole
	by := k.signs(ctx, name)
	if _, err := pki.LoadKeypair(own, names); err != nil && lying != nil {
		kept, err := pki.EnsureBy(own, names, a, r.ByKeyOf(lying), time.Now(), lent(lying, by))
		if err == nil {
			err = kept.Overdue
		}
		if err != nil {
			k.failed("could not keep a copy of a certificate", err, "certificate", name)
		}
	}
	stock, err := k.ensureBy(name, own, names, a, r, by)
	if err != nil {
		if lying == nil {
			return err
		}
		_, err = k.ensureBy(name, dir, names, a, r, by)
		return err
	}
	if lying == nil || !lying.Leaf().Equal(stock.Leaf()) { // else it is due, if at all, for want of who signs
		by = lent(stock, by)
	}
	_, err = k.ensureBy(name, dir, names, a, r.ByKeyOf(stock), by)
	return err
}

// lent gives the certificate of another pair, where it is for the same key and says what is asked for.
func lent(pair *pki.Keypair, otherwise pki.Issuer) pki.Issuer {
	return func(key crypto.Signer, r pki.Request) (*x509.Certificate, error) {
		if pair.Certifies(key, r) {
			return pair.Leaf(), nil
		}
		return otherwise(key, r)
	}
}

// lacks waits until a host without the authorities' keys has the certificates that it needs first. Others have just let
// it in, or answer once this host has found them.
func (k *certs) lacks(ctx context.Context) error {
	for wait := lackFirst; ; wait = min(2*wait, lackMost) {
		if cas := k.authorities(); cas == nil || cas.CanIssue() || k.given {
			return nil
		}
		err := k.look(ctx)
		if err == nil {
			return nil
		}
		if wait >= lackMost/10 { // it takes others a moment to be found
			k.failed("certificates are lacking that another host is to sign", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait + rand.N(wait/4)):
		}
	}
}

// every is how often certificates are looked at, at least. Those that others sign live as long as these say.
func (k *certs) every() time.Duration {
	shortest := k.life.Duration
	if k.given {
		return givenLook
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cas != nil && !k.cas.CanIssue() {
		for _, leaf := range k.leaves {
			_, life := pki.Life(leaf)
			shortest = min(shortest, life)
		}
	}
	return max(min(renewEvery, shortest/12), renewLeast)
}

// holdsKeys tells whether this host could sign for others; nil: it needs no certificates, or none of the cluster's hosts is to
// hold the keys.
func (k *certs) holdsKeys() *bool {
	cas := k.authorities()
	if cas == nil || k.given {
		return nil
	}
	holds := cas.CanIssue()
	return &holds
}

// problems tells of certificates that others were to renew, and of which less than a third of the life is left.
func (k *certs) problems() []cluster.Problem {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.cas == nil:
		return nil
	case k.given:
		return k.givenProblems(now)
	case k.cas.CanIssue():
		return nil
	}
	first, left := k.endsFirst(now)
	if first == "" {
		return nil
	}
	return []cluster.Problem{{
		Code:     "not-renewed",
		Sentence: fmt.Sprintf("the certificate %s %s, and no host that holds the authorities' keys has signed a new one: %s", first, left, orNever(k.overdue[first])),
		Hint:     "start the daemon of a host that holds the keys; docs/operations/certs.md says how this host comes back after the end",
	}}
}

// endsFirst is the certificate of which less than a third of the life is left, the first of those to end, and when that is;
// empty: of none. The caller holds mu.
func (k *certs) endsFirst(now time.Time) (first, left string) {
	for name, leaf := range k.leaves {
		if !leaf.NotAfter.Before(lastEnd(k.cas, leaf, k.behind[name])) { // none that lasts longer could be issued, which is told of elsewhere
			continue
		}
		if _, life := pki.Life(leaf); leaf.NotAfter.Sub(now) < life/3 && (first == "" || leaf.NotAfter.Before(k.leaves[first].NotAfter)) {
			first = name
		}
	}
	if first == "" {
		return "", ""
	}
	if d := k.leaves[first].NotAfter.Sub(now); d > 0 {
		return first, "ends in " + leftWords(d)
	}
	return first, "has ended"
}

// leftWords is a time that is told anew a few times only while it passes.
func leftWords(d time.Duration) string {
	unit := time.Minute
	switch {
	case d > 2*duration.Day:
		unit = duration.Day
	case d > 2*time.Hour:
		unit = time.Hour
	}
	return duration.Format(max(d.Round(unit), time.Minute))
}

func orNever(err error) string {
	if err == nil {
		return "none was asked yet"
	}
	return err.Error()
}

// lastEnd is when the last certificate ends that who signed a leaf may sign, also where others are to follow him; where nobody here
// signed it, with the last authority. behind is what the leaf's file shows behind it.
func lastEnd(cas *pki.Authorities, leaf *x509.Certificate, behind []*x509.Certificate) (last time.Time) {
	for _, a := range cas.All() {
		if end := a.LastEnd(leaf, behind); !end.IsZero() {
			return end
		}
	}
	for _, e := range cas.Expiries() {
		if e.NotAfter.After(last) {
			last = e.NotAfter
		}
	}
	return last
}
