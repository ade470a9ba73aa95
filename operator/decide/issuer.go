package decide

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Why has nobody signed the clients' authority yet? signed is all that there is to it; docs/adr/044-an-issuer-for-the-client-side.md
// has the reasons.

// Issuer is who signs the clients' authority; the zero one is the authority itself.
type Issuer struct {
	Name  string `json:"name,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Group string `json:"group,omitempty"`
	// Trusted: whoever it signs for is let in as well.
	Trusted bool `json:"trusted,omitempty"`
}

// Ref is the issuer as a request names it.
func (i Issuer) Ref() Issuer {
	i.Trusted = false
	return i
}

func (i Issuer) String() string {
	if i == (Issuer{}) {
		return "nobody"
	}
	return i.Kind + " " + i.Name
}

// flag is the issuer as --issuers has it.
func (i Issuer) flag() string {
	if i.Group == "cert-manager.io" {
		return i.Kind + "/" + i.Name
	}
	return i.Kind + "." + i.Group + "/" + i.Name
}

// Asked is the request for the certificate of the next clients' authority, whose key lies beside the others.
type Asked struct {
	// Request is its name, and Issuer whom it asks.
	Request string
	Issuer  Issuer
	// Rotate is the number of spec.tls.rotate for which it was asked, and Tries how many requests there were.
	Rotate, Tries int
	// Since is when the first of them was made.
	Since time.Time
	// State is what has become of it, Why is that in words of others, with why it could not be made, and At when it was refused; zero:
	// nobody says.
	State AskedState
	Why   string
	At    time.Time
}

// AskedState is what has become of a request.
type AskedState string

// States of a request.
const (
	AskedUnread  AskedState = "unread"   // nobody knows
	AskedNoKind  AskedState = "no-kind"  // this Kubernetes has no such objects: cert-manager is not installed
	AskedNotSent AskedState = "not-sent" // there is none yet, or none any more
	AskedPending AskedState = "pending"
	AskedSigned  AskedState = "signed"  // with a certificate that serves
	AskedRefused AskedState = "refused" // it is over, without one that serves
)

// askedAgain is how long after a request was refused the next one is made. The one after the last is made by a person's word alone.
var askedAgain = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 24 * time.Hour, 24 * time.Hour}

// found makes the first authorities of a cluster whose clients' one an issuer signs. No host is made before; nobody would trust what
// signs in the meantime.
func (w *World) found(d *Decision) (waits bool) {
	a := w.Authorities
	if a == nil || !a.Unmade || w.Want.Issuer == (Issuer{}) && a.Asked == nil {
		return false
	}
	if w.signed(d, "No host is made before that") {
		d.do(Step{Kind: FoundAuthorities, Rotate: w.Want.Rotate, Issuer: w.Want.Issuer, Why: who(w.Want.Issuer) + " signs the clients' authority"})
	}
	return true
}

// signed says whether the next authorities may be made: the clients' one signs itself, or its issuer has signed it. Else it has the
// issuer asked, or says what is waited for, and what goes on meanwhile.
func (w *World) signed(d *Decision, meanwhile string) bool {
	issuer, k := w.Want.Issuer, w.Authorities.Asked
	ask := func(tries int, why string) bool {
		n := max(w.Authorities.Rotate, w.Want.Rotate)
		d.do(Step{Kind: AskIssuer, Tries: tries, Rotate: n, Issuer: issuer, Why: why})
		d.wait(IssuerWaits, fmt.Sprintf("%s is asked to sign the clients' authority. %s", issuer, meanwhile))
		return false
	}
	switch {
	case issuer == (Issuer{}):
		return true
	case w.Want.IssuerBarred:
		d.wait(IssuerBarred, fmt.Sprintf("this operator may not ask %s to sign the clients' authority: have %s added to the operator's --issuers%s. %s", issuer, issuer.flag(), w.instead(), meanwhile))
		return false
	case k == nil || k.Issuer != issuer:
		return ask(1, fmt.Sprintf("%s is to sign the clients' authority", issuer))
	case w.Want.Rotate > k.Rotate: // a key that was made before a person asked for others is none of those
		return ask(1, fmt.Sprintf("spec.tls.rotate is %d", w.Want.Rotate))
	case k.State == AskedSigned:
		return true
	case k.State == AskedRefused && w.askAt(k) != (time.Time{}) && !w.Now.Before(w.askAt(k)):
		return ask(k.Tries+1, fmt.Sprintf("%s did not sign %s", issuer, k.Request))
	case k.State == AskedNotSent:
		d.do(Step{Kind: SendRequest, Issuer: issuer, Why: fmt.Sprintf("%s is to sign the clients' authority", issuer)})
	}
	d.Waits = append(d.Waits, w.unsigned(k, meanwhile))
	return false
}

// askAt is when the next request follows one that was refused; zero: by a person's word alone.
func (w *World) askAt(k *Asked) time.Time {
	if k.Tries > len(askedAgain) {
		return time.Time{}
	}
	at := k.At
	if at.Before(k.Since) || at.After(w.Now) { // by another clock, or nobody says
		at = k.Since
	}
	return at.Add(askedAgain[max(k.Tries, 1)-1])
}

// instead is what a person may do in place of waiting for the issuer, where nothing was begun; empty: nothing that does no harm. To take
// it away from a cluster that it signed for ends the certificates of that.
func (w *World) instead() string {
	a := w.Authorities
	switch {
	case a.Unmade:
		return ", or take spec.tls.clients away"
	case !a.There || a.ended(w.Now) || a.Phase != cluster.RotateDone:
		return ""
	case a.Issuer == (Issuer{}):
		return ", or take spec.tls.clients away: nothing was begun"
	case a.Issuer.Ref() != w.Want.Issuer.Ref():
		return fmt.Sprintf(", or put spec.tls.clients.issuerRef back to %s: nothing was begun", a.Issuer)
	}
	return ""
}

// unsigned is what is waited for, since when, and what helps.
func (w *World) unsigned(k *Asked, meanwhile string) Wait {
	const stamp = time.RFC3339
	out := Wait{Code: IssuerWaits, Command: w.Kubectl("describe certificaterequests.cert-manager.io " + cluster.ShellWord(k.Request))}
	did, words := "has not signed", ""
	switch k.State {
	case AskedNoKind:
		out.Stands, words = true, "this Kubernetes knows no CertificateRequests of cert-manager.io: install cert-manager"+w.instead()
		out.Command = w.Kubectl("get crd certificaterequests.cert-manager.io")
	case AskedNotSent:
		words = cmp.Or(k.Why, "the request is being made")
		out.Command = w.Kubectl("get certificaterequests.cert-manager.io")
	case AskedUnread:
		did, words = "is to sign", "the request cannot be read: "+k.Why
	case AskedRefused:
		out.Code, did, words = IssuerRefuses, "did not sign", k.Why
		n := max(w.Authorities.Rotate, w.Want.Rotate, k.Rotate) + 1
		if at := w.askAt(k); !at.IsZero() {
			words += fmt.Sprintf(". Request %d of %d follows at %s, or as soon as spec.tls.rotate is set to %d", k.Tries+1, len(askedAgain)+1, at.UTC().Format(stamp), n)
			break
		}
		words += fmt.Sprintf(". %d requests were refused, and no other one follows by itself. Set spec.tls.rotate to %d to have it asked again", k.Tries, n)
		out.Command = w.patchTLS("rotate", strconv.Itoa(n))
	default:
		words = cmp.Or(k.Why, "the request says nothing yet: look whether cert-manager runs, and who approves requests")
	}
	out.Sentence = fmt.Sprintf("%s, asked since %s, %s the clients' authority: %s. %s", k.Issuer, k.Since.UTC().Format(stamp), did, strings.TrimSuffix(words, "."), meanwhile)
	return out
}
