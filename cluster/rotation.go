package cluster

import (
	"slices"
	"time"
)

// RotationPhase is how far a rotation of the authorities is (docs/adr/033-rotating-the-authorities.md).
type RotationPhase string

// The phases, in their order.
const (
	// RotateTrust: both certificates are trusted, and the old one signs.
	RotateTrust RotationPhase = "trust"
	// RotateSign: both are trusted, and the next one signs; after an undo the old one.
	RotateSign RotationPhase = "sign"
	// RotateDrop: only what signs is trusted.
	RotateDrop RotationPhase = "drop"
	// RotateDone: every host and every member has dropped the other one.
	RotateDone RotationPhase = "done"
)

var rotationPhases = []RotationPhase{RotateTrust, RotateSign, RotateDrop, RotateDone}

// Reaches reports whether the phase is the other one or a later one. A phase that this release does not know
// reaches none.
func (p RotationPhase) Reaches(o RotationPhase) bool {
	at := slices.Index(rotationPhases, p)
	return at >= 0 && at >= slices.Index(rotationPhases, o)
}

// Rotation is the replacement of the authorities of a running cluster. It is a part of the record, is replaced
// and never changed in place, and changes by compare-and-swap only. It has no key. It stays after its end, so
// that what was dropped is known.
type Rotation struct {
	ID    string        `json:"id"` // never used before
	Phase RotationPhase `json:"phase"`
	// Until is the last phase that a person has allowed.
	Until RotationPhase `json:"until"`
	// Undo: it goes back to the old authorities.
	Undo bool `json:"undo,omitempty"`
	// By is the host that made the next authorities, At when by its clock.
	By          HostID            `json:"by,omitempty"`
	At          time.Time         `json:"at,omitzero"`
	Authorities []AuthorityChange `json:"authorities"`
}

// AuthorityChange is one authority of a rotation.
type AuthorityChange struct {
	Name string               `json:"name"` // such as etcd-peers-ca
	Old  AuthorityCertificate `json:"old"`
	Next AuthorityCertificate `json:"next"`
}

// AuthorityCertificate is a certificate that signs others.
type AuthorityCertificate struct {
	SHA256 string `json:"sha256"` // of the certificate, in hexadecimal digits
	PEM    string `json:"pem,omitempty"`
}

// Over reports whether nothing is being rotated.
func (r *Rotation) Over() bool { return r == nil || r.Phase == RotateDone }

// Signs is the certificate that leaves are to be of.
func (r *Rotation) Signs(c AuthorityChange) AuthorityCertificate {
	if r.Undo || r.Phase == RotateTrust {
		return c.Old
	}
	return c.Next
}

// Leaves is the certificate that is not trusted any more in the end.
func (r *Rotation) Leaves(c AuthorityChange) AuthorityCertificate {
	if r.Undo {
		return c.Next
	}
	return c.Old
}

// Trusts are the certificates that every host and member has to trust in this phase. In an undo the next one may
// never have been everywhere, and nobody shows a leaf of it by the time it is dropped.
func (r *Rotation) Trusts(c AuthorityChange) []AuthorityCertificate {
	if r.Undo || r.Phase.Reaches(RotateDrop) {
		return []AuthorityCertificate{r.Signs(c)}
	}
	return []AuthorityCertificate{c.Old, c.Next}
}

// Drops reports whether this phase takes the other certificate out.
func (r *Rotation) Drops() bool { return r.Phase.Reaches(RotateDrop) }

// HostAuthorities are whom a host trusts, and who signed its leaves.
type HostAuthorities struct {
	// Daemons: it has TLS between daemons; Etcd: its member has TLS.
	Daemons bool `json:"daemons,omitempty"`
	Etcd    bool `json:"etcd,omitempty"`
	// Rotation, Phase and Undo are what it has followed, wholly.
	Rotation string        `json:"rotation,omitempty"`
	Phase    RotationPhase `json:"phase,omitempty"`
	Undo     bool          `json:"undo,omitempty"`
	// Problem is why it could not follow; empty: it did, or has not tried.
	Problem string          `json:"problem,omitempty"`
	All     []HostAuthority `json:"all,omitempty"` // sorted by name
}

// HostAuthority is one authority, as a host has it. Certificates are named by their SHA-256.
type HostAuthority struct {
	Name   string   `json:"name"`
	Trusts []string `json:"trusts,omitempty"` // sorted
	Signs  string   `json:"signs,omitempty"`  // whose key signs here; empty: no key is here
	// Keys are the certificates of the rotation whose keys are on the host's disk, sorted.
	Keys []string `json:"keys,omitempty"`
	// Leaves are the certificates that signed the leaves which the host uses, sorted; of nobody that it trusts: "".
	Leaves []string `json:"leaves,omitempty"`
}

// Of is the authority of a name; false: the host does not tell of it.
func (h *HostAuthorities) Of(name string) (HostAuthority, bool) {
	if h != nil {
		for _, a := range h.All {
			if a.Name == name {
				return a, true
			}
		}
	}
	return HostAuthority{}, false
}

// Equal reports whether both say the same.
func (h *HostAuthorities) Equal(o *HostAuthorities) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.Daemons == o.Daemons && h.Etcd == o.Etcd && h.Rotation == o.Rotation && h.Phase == o.Phase && h.Undo == o.Undo && h.Problem == o.Problem &&
		slices.EqualFunc(h.All, o.All, func(a, b HostAuthority) bool {
			return a.Name == b.Name && a.Signs == b.Signs && slices.Equal(a.Trusts, b.Trusts) && slices.Equal(a.Keys, b.Keys) && slices.Equal(a.Leaves, b.Leaves)
		})
}

// Followed reports whether the host has followed the rotation as it is now.
func (h *HostAuthorities) Followed(r *Rotation) bool {
	return h != nil && h.Rotation == r.ID && h.Phase == r.Phase && h.Undo == r.Undo
}
