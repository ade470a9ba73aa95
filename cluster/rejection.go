package cluster

// PeerTLS is what a host's member shows to the other members and trusts of them, and whom it
// cannot speak with because of that.
type PeerTLS struct {
	// File has the authority that the member trusts, as it lies in the daemon's PKI
	// directory, and Fingerprint tells it from others; Cert is the member's own certificate.
	File        string `json:"file,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Cert        string `json:"cert,omitempty"`
	// Rejects are the members whose certificates it rejects now, by etcd's own log.
	Rejects []Rejection `json:"rejects,omitempty"`
}

// Rejection is that one member rejects the certificate of another.
type Rejection struct {
	Member MemberID `json:"member"` // the other one
	// Authority: it is because of who signed it.
	Authority bool   `json:"authority,omitempty"`
	Why       string `json:"why"` // etcd's words
}
