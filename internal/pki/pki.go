// Package pki holds the certificates of one host: it loads (or, for a playground, makes) the three
// authorities, issues and renews leaves, and builds TLS configurations that follow a renewal
// or a rotated authority without a restart.
//
// Three authorities, one purpose each, so that a certificate of one is worth nothing to another:
//
//	etcd-manager-ca   daemons and people to daemons; identity is a URI, etcdadm://CLUSTER/ROLE/ID
//	etcd-peers-ca     etcd to etcd
//	etcd-clients-ca   clients to etcd; with authentication on, the common name is etcd's user
//
// What must always hold:
//
//   - A private key is written before the certificate that needs it, and is kept for as long as
//     it can be read. A renewal therefore replaces one file by one rename, and no reader can ever see
//     a certificate beside another certificate's key (etcd reads both files anew at each handshake).
//   - Ensure is idempotent: called again at the same instant it issues nothing.
//   - No certificate outlives the authority that signed it.
//   - Nothing that exists is overwritten except a certificate by its successor; unreadable files are
//     set aside. No key appears in an error, a log line or a format verb.
//
// The package starts no goroutine and reads time only from the clock it is given.
package pki

import (
	"errors"
	"fmt"
)

// Names of the three authorities; each is NAME.crt and NAME.key in the PKI directory.
const (
	ManagerCA = "etcd-manager-ca"
	PeersCA   = "etcd-peers-ca"
	ClientsCA = "etcd-clients-ca"
)

// Sentinels that callers decide by. They arrive wrapped in an *Error that names the file.
var (
	ErrExpired     = errors.New("has expired")
	ErrNotYetValid = errors.New("is not valid yet")
	ErrNotCA       = errors.New("is not a certificate authority")
	ErrMismatch    = errors.New("does not belong to the certificate")
	ErrNoKey       = errors.New("private key is not on this host")
	ErrKeyKind     = errors.New("is not an RSA key of at least 2048 bits or an ECDSA key of at least 256")
	ErrPEM         = errors.New("is not the PEM that was expected")
)

// Error is one failure in words for people: what was being done, to which file, why it failed, and what to do.
type Error struct {
	Op     string // verb and noun, such as "load authority"
	File   string // the file or directory it is about
	Err    error  // the cause
	Advice string // what to do next; may be empty
}

// Error is one sentence with the file's name and the cause; the advice is apart, see Hint.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Op, e.File, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the advice alone, for callers that print it on a line of its own.
func (e *Error) Hint() string { return e.Advice }
