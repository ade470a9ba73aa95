// Package certs looks after the certificates of one host as a person does: it lists them all with their ends, issues
// certificates for clients of etcd into the places where these look for them, and renews what is near its end.
//
// Three kinds lie on a host. Authorities are everybody's, and a person rotates them. The agent's own leaves, those of
// its member among them, the agent renews itself. What Issue made nobody renews but Renew, because it lies where the
// agent may not write.
//
// What must always hold:
//
//   - No file that somebody else made is overwritten. It is set aside on demand: moved to a name beside it.
//   - What was issued is recorded, with its fingerprint, so that a file which somebody put in its place is seen.
//   - Each command can be interrupted and run again. A key is durable before its certificate is.
package certs

import (
	"crypto/x509"
	"errors"
	"path/filepath"
	"time"

	"etcdadm.io/internal/advice"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

// Host is where the certificates of a host lie.
type Host struct {
	Root string       // / but in tests
	PKI  string       // the directory of the authorities
	Data string       // the agent's data directory; empty: none is known
	Life pki.Lifetime // of what the agent issues
	// Ask has another host sign a certificate of the agent's, where this one does not hold the authorities' keys; nil: none is asked.
	Ask func(kind signing.Kind, request []byte) ([]byte, error)
}

func (h Host) at(path string) string { return filepath.Join("/", h.Root, path) }

// Attention is how long before its end a certificate is no longer good: this long, or the last quarter of a life that
// is shorter than four times that.
const Attention = 30 * duration.Day

// State is what a certificate is good for now.
type State string

// The states. All but Good, Unused and Elsewhere want a person's attention.
const (
	Good        State = "ok"
	Expiring    State = "expires soon"
	Expired     State = "expired"
	NotYetValid State = "not valid yet"
	Damaged     State = "damaged"   // a file is missing, or cannot be read, or the key is another one's
	Untrusted   State = "untrusted" // no authority on this host has signed it
	Replaced    State = "replaced"  // somebody put another one in the place of what was issued
	Unused      State = "unused"    // of a member that this host has no more
	Elsewhere   State = "moved"     // it was issued here, and its files were moved to another place
)

// Attention tells whether a person has to do something.
func (s State) Attention() bool { return s != Good && s != Unused && s != Elsewhere }

// Renewer is who renews a certificate.
type Renewer string

// The renewers.
const (
	ByAgent  Renewer = "agent"   // by itself
	ByPerson Renewer = "command" // etcdadm certs renew
	ByNobody Renewer = "rotate"  // an authority: a person rotates it
	ByOthers Renewer = "holder"  // by itself: the agent asks a host that holds the authorities' keys
)

// Certificate is one on this host.
type Certificate struct {
	File       string    `json:"file"`
	For        string    `json:"for"`
	CommonName string    `json:"commonName,omitempty"`
	Issuer     string    `json:"issuer,omitempty"`   // the authority's name
	IssuedBy   string    `json:"issuedBy,omitempty"` // SHA-256 of its certificate, in hexadecimal digits
	NotBefore  time.Time `json:"notBefore,omitzero"`
	NotAfter   time.Time `json:"notAfter,omitzero"`
	Renews     Renewer   `json:"renews"`
	// Key tells of an authority whether its key is on this host.
	Key   bool   `json:"key,omitempty"`
	State State  `json:"state"`
	Why   string `json:"why,omitempty"` // what is wrong with it
}

// judge says what the dates of a certificate make of it.
func judge(notBefore, notAfter, now time.Time) State {
	left := notAfter.Sub(now)
	switch {
	case now.Before(notBefore):
		return NotYetValid
	case left < 0:
		return Expired
	case left < min(Attention, notAfter.Sub(notBefore)/4):
		return Expiring
	}
	return Good
}

// authorities are the certificates of the three bundles, those that have ended too.
type authorities struct {
	bundles map[string][]*x509.Certificate // by the authority's name
}

// Error is what was not done with a file, for people.
type Error = advice.Error

// Errors that callers decide by.
var (
	// ErrForeign says that a file was not made by etcdadm. Nothing was changed.
	ErrForeign = errors.New("it was not made by etcdadm")
	// ErrNoAuthority says that the key of the clients' authority is not on this host.
	ErrNoAuthority = errors.New("this host does not have the key of the authority")
)
