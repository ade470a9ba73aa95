package peer

import (
	"etcdadm.io/cluster"
	"etcdadm.io/internal/register"
)

// MoveRequest is a person's wish to have the control record kept elsewhere. It has secrets, and is never queued or logged.
type MoveRequest struct {
	// Name is random, and names the place that the store is to be: asked again with it, the daemon says how far it is.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Variables are how the store is reached, besides its URL.
	Variables map[string]string `json:"variables,omitempty"`
	// Hosts has the hosts of the cluster keep the record; there is no URL then.
	Hosts bool `json:"hosts,omitempty"`
	// DryRun only looks.
	DryRun bool `json:"dryRun,omitempty"`
	// Reclaim puts the claim of the record, which is sealed, into its next place again. Name is of this write.
	Reclaim bool `json:"reclaim,omitempty"`
	// Lost names hosts that do not answer, and do not keep a record that was made again.
	Lost []cluster.HostID `json:"lost,omitempty"`
}

// MoveReply is how far it is.
type MoveReply struct {
	// Steps are what was done, the last one what is being done, for people.
	Steps []string `json:"steps,omitempty"`
	// Refused says why the record is not moved; Unknown, that it may have been.
	Refused string `json:"refused,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
	// Done says that the record is there, and that the daemon that answers keeps to it.
	Done bool `json:"done,omitempty"`
}

// Offer tells a host where the record is about to go. It has secrets.
type Offer struct {
	Name string `json:"name"` // of the place, random
	From string `json:"from"` // the record that it is to follow
	// At is the version of the record that announced the move: a later one counts.
	At        uint64            `json:"at"`
	URL       string            `json:"url"`
	Variables map[string]string `json:"variables,omitempty"`
	// First is the first document of the record that the hosts are to keep. Nil: it goes to a store.
	First *register.Document `json:"first,omitempty"`
	// Seeds are the endpoints of all hosts then, as --discovery has them: there are no announcements in a store any more.
	Seeds []string `json:"seeds,omitempty"`
}

// OfferReply is what the host made of it.
type OfferReply struct {
	// Refused says why it did not take it; empty: it did, durably.
	Refused string `json:"refused,omitempty"`
	// Generation and Write are those of the intent that the host keeps.
	Generation uint64 `json:"generation,omitempty"`
	Write      uint64 `json:"write,omitempty"`
}
