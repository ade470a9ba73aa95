package peer

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/register"
)

// KeepRequest is one of the things that are asked of what a host keeps. Operators may ask for Object, Again and Move only.
type KeepRequest struct {
	// Where asks which record there is, and who keeps it.
	Where bool `json:"where,omitempty"`
	// Again asks the host to make the record again, after a majority of its keepers is gone. Operators only.
	Again *AgainRequest `json:"again,omitempty"`
	// Enrol asks the host to be ready to keep the record of this name.
	Enrol string `json:"enrol,omitempty"`
	// Message is for the host's keeper.
	Message *register.Message `json:"message,omitempty"`
	// Object is about an object of the store that the hosts are.
	Object *ObjectRequest `json:"object,omitempty"`
	// Move has the leading daemon move the record to a store. Operators only.
	Move *MoveRequest `json:"move,omitempty"`
	// Offer tells the host where the record is about to go.
	Offer *Offer `json:"offer,omitempty"`
}

// secret tells whether it has what must not be sent in clear.
func (r KeepRequest) secret() bool {
	return r.Move != nil && len(r.Move.Variables) > 0 || r.Offer != nil && len(r.Offer.Variables) > 0
}

// KeepReply answers the part of the request that was asked.
type KeepReply struct {
	Record  string          `json:"record,omitempty"`
	Keepers []register.Seat `json:"keepers,omitempty"`
	// Newest is the highest document that the host has; Chosen the newest of which it knows that it is chosen.
	Newest *register.Entry `json:"newest,omitempty"`
	Chosen *register.Entry `json:"chosen,omitempty"`
	// Making says that the host is making the record again just now, Runs that its member has had a quorum since it was started.
	Making bool        `json:"making,omitempty"`
	Runs   bool        `json:"runs,omitempty"`
	Again  *AgainReply `json:"again,omitempty"`
	// Place names where the host followed the record to, and Intent is what it keeps there. Empty: it did not follow.
	Place  string          `json:"place,omitempty"`
	Intent *cluster.Intent `json:"intent,omitempty"`
	// Seat is what the host keeps the record as, nil if it forgot what it promised; Unconfirmed says that it may have.
	Seat        *register.Seat `json:"seat,omitempty"`
	Unconfirmed bool           `json:"unconfirmed,omitempty"`

	Reply  *register.Reply `json:"reply,omitempty"`
	Object *ObjectReply    `json:"object,omitempty"`
	Move   *MoveReply      `json:"move,omitempty"`
	Offer  *OfferReply     `json:"offer,omitempty"`
}

// AgainRequest names the hosts that are gone for good.
type AgainRequest struct {
	Lost   []cluster.HostID `json:"lost,omitempty"`
	DryRun bool             `json:"dryRun,omitempty"`
}

// AgainReply says what became of it.
type AgainReply struct {
	// Host keeps the new record alone. Empty: nothing was made, since a majority of the keepers answers.
	Host cluster.HostID `json:"host,omitempty"`
	// Refused says why the record is not made again, "" if it is, or would be. NotKeeper says that another host may.
	Refused   string `json:"refused,omitempty"`
	NotKeeper bool   `json:"notKeeper,omitempty"`
}

// What is done with an object.
const (
	ObjectGet    = "get"
	ObjectPut    = "put"
	ObjectList   = "list"
	ObjectDelete = "delete"
	// ObjectFetch has the host copy an object of the caller's own to its own disk.
	ObjectFetch = "fetch"
)

// ObjectRequest is a call to the store that the hosts are, or to one host's part of it.
type ObjectRequest struct {
	Op string `json:"op"`
	// Own: what this host has on its own disk, without asking others.
	Own         bool   `json:"own,omitempty"`
	Key         string `json:"key,omitempty"` // the prefix in a list
	IfNoneMatch string `json:"ifNoneMatch,omitempty"`
	Condition   string `json:"condition,omitempty"`
	Data        []byte `json:"data,omitempty"`
	// Offset is where in the object the answer begins. With an ETag it is of that object or an error.
	Offset int64  `json:"offset,omitempty"`
	ETag   string `json:"etag,omitempty"`
}

// ObjectReply is what came of it.
type ObjectReply struct {
	// Problem names the sentinel of package blob that the error is, "" for another error; Error is its text.
	Problem  string       `json:"problem,omitempty"`
	Error    string       `json:"error,omitempty"`
	Data     []byte       `json:"data,omitempty"`
	ETag     string       `json:"etag,omitempty"`
	Size     int64        `json:"size,omitempty"`
	Modified time.Time    `json:"modified,omitzero"`
	Objects  []ObjectInfo `json:"objects,omitempty"`
}

// ObjectInfo is an object in a list.
type ObjectInfo struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}
