package cluster

import (
	"cmp"
	"time"
)

// Contact is how a daemon is reached.
type Contact struct {
	Host     HostID `json:"host"`
	Endpoint string `json:"endpoint"` // host:port of its daemon
}

// Ping is what daemons tell each other all the time; the reply is one too.
type Ping struct {
	Cluster    string `json:"cluster"`
	Host       HostID `json:"host"`
	Disk       DiskID `json:"disk,omitempty"`
	Epoch      uint64 `json:"beat,omitempty"`
	Endpoint   string `json:"endpoint"`
	Generation uint64 `json:"generation,omitempty"`
	Promised   Fence  `json:"promised,omitzero"`
	// View is every daemon that the sender has heard from lately.
	View []Contact `json:"view,omitempty"`
	// Leader is who the sender thinks leads.
	Leader HostID `json:"leader,omitempty"`
	// Leaving: the sender is shutting down and will not lead.
	Leaving bool `json:"leaving,omitempty"`
	// Unfit says why the sender must not lead; empty: it may.
	Unfit string `json:"unfit,omitempty"`
	// LeadsWell: the sender leads, and its last look found a quorum.
	LeadsWell bool `json:"leadsWell,omitempty"`
	// Reaches is whose daemons have answered the sender's own calls lately, itself
	// included. That one is heard is no answer: it may call, and not be reached.
	Reaches []HostID `json:"reaches,omitempty"`
	// Store is what the sender saw of the backup store; nil: it has not looked.
	Store *StoreSight `json:"store,omitempty"`
	// Changes counts what happened on the sender's host, so that a leader
	// looks at once when it grows.
	Changes uint64 `json:"changes,omitempty"`
	// Remembered is the epoch that the sender remembers of the receiver.
	Remembered uint64 `json:"remembered,omitempty"`
	// RememberedDisk is the disk that Remembered belongs to.
	RememberedDisk DiskID `json:"rememberedDisk,omitempty"`
	// Place names the directory that the sender has locked, behind the boot ID of the kernel that has the lock and a slash. Within
	// one place no other daemon runs on it.
	Place string `json:"place,omitempty"`
	// Asks: the sender has begun, does not speak for its host yet, and wants to know who does.
	Asks bool `json:"asks,omitempty"`
	// Elsewhere is another daemon under the receiver's host ID that the sender hears; only in answers.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Left are addresses at which the sender spoke with hosts that it hears elsewhere now; only in answers to who asks.
	Left []Contact `json:"left,omitempty"`
	// Clock is the sender's wall clock.
	Clock time.Time `json:"clock,omitzero"`
	// Refused is why the sender and the receiver do not talk with each other: their control records are two. The ping is its [Ping.Beat].
	Refused string `json:"refused,omitempty"`
}

// Beat is what of a ping goes between hosts whose control records are two: who speaks, from where and by which disk, and what it remembers
// of the other's. A disk that went back, or is used twice, is such whatever became of the record (rule 9); all else is of one record.
func (p Ping) Beat(refused string) Ping {
	return Ping{
		Cluster: p.Cluster, Host: p.Host, Disk: p.Disk, Epoch: p.Epoch, Endpoint: p.Endpoint, Leaving: p.Leaving,
		Remembered: p.Remembered, RememberedDisk: p.RememberedDisk, Place: p.Place, Asks: p.Asks, Elsewhere: p.Elsewhere, Refused: refused,
	}
}

// Elsewhere is a daemon that has the host ID of another one.
type Elsewhere struct {
	Endpoint string        `json:"endpoint"`
	Ago      time.Duration `json:"ago,omitempty"` // since it was heard
}

// StoreSight is what a daemon saw of the backup store at its own last look. Each
// daemon has its own way to the store, and may reach none, or another one.
type StoreSight struct {
	// Unread is why it could not be read; empty: it was.
	Unread  string `json:"unread,omitempty"`
	Foreign bool   `json:"foreign,omitempty"` // it holds the record of another cluster
	// Marker: it holds a record, of this generation and nonce.
	Marker     bool   `json:"marker,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Nonce      string `json:"nonce,omitempty"`
}

// HostSight is the sight of one host's daemon.
type HostSight struct {
	Host HostID `json:"host"`
	StoreSight
}

// ObserveRequest asks a host for its facts. With a fence it is also the
// request for a promise: the host makes the fence durable, refuses lower ones
// from then on, and only then looks.
type ObserveRequest struct {
	Fence Fence `json:"fence"` // zero: facts only, no promise
	// Intent is the newest intent that the leader knows; a host keeps it.
	Intent *Intent `json:"intent,omitempty"`
	// Reach asks the host to try the peer URLs of these members.
	Reach []Member `json:"reach,omitempty"`
	// Log asks for the end of the member's log, as read from the disk.
	Log bool `json:"log,omitempty"`
	// Versions asks for the version that the members have agreed on.
	Versions bool `json:"versions,omitempty"`
	// Spec is the newest one that the leader knows: a host works out from it
	// with which options it would start its member now.
	Spec *Spec `json:"spec,omitempty"`
	// Standing is likewise what is left of a spec that is refused.
	Standing *Standing `json:"standing,omitempty"`
	// Ended are the IDs of pauses that were ended. No pause has the ID of another, so that
	// whoever tells of it, and however late, is right.
	Ended []string `json:"ended,omitempty"`
}

// Busy says that a host is carrying out an op and gives no promise.
type Busy struct {
	Op    Op            `json:"op"`
	Fence Fence         `json:"fence"`
	For   time.Duration `json:"for"` // how long the op has been running
	// Why it takes longer than it should, as far as the host knows; empty: it does not.
	Why string `json:"why,omitempty"`
	// Awaits is what has kept it for some seconds, which is not longer than it should;
	// empty: nothing has, or Why says it.
	Awaits string `json:"awaits,omitempty"`
}

// Word is why nothing has come of it yet; empty: it has only begun.
func (b Busy) Word() string { return cmp.Or(b.Why, b.Awaits) }

// What keeps a host busy beside the ops of leaders.
const (
	OpBoot    OpKind = "boot"    // bringing the machine in line with the record
	OpPromise OpKind = "promise" // writing another promise
)

// Refused says that a host has promised a higher fence.
type Refused struct {
	Promised Fence         `json:"promised"`
	Age      time.Duration `json:"age"` // since that fence was used last
}

// ObserveReply holds exactly one of State, Busy and Refused.
type ObserveReply struct {
	State   *HostState `json:"state,omitempty"`
	Busy    *Busy      `json:"busy,omitempty"`
	Refused *Refused   `json:"refused,omitempty"`
	// Stamp names this very observation. An op quotes it, and the host refuses
	// an op whose observation is older than MaxStampAge by its own clock, so
	// that a leader that was paused between looking and acting acts no more.
	Stamp string `json:"stamp,omitempty"`
}

// MaxStampAge bounds the time between an observation and what relies on it: a host
// measures it of an op, a leader of a write of the intent.
const MaxStampAge = 5 * time.Second

// Age is how long ago something was at a time, by the clock that says longer. The
// monotonic clock stops while a machine is suspended; the wall clock can be set.
// Both times are as time.Now gave them.
func Age(at, now time.Time) time.Duration {
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// ApplyRequest asks a host to carry out one op.
type ApplyRequest struct {
	Fence Fence  `json:"fence"`
	Disk  DiskID `json:"disk"`
	Stamp string `json:"stamp"`
	Guard Guard  `json:"guard,omitzero"`
	Op    Op     `json:"op"`
}

// Outcome is how an op ended.
type Outcome string

const (
	// OutcomeDone: the op has taken effect.
	OutcomeDone Outcome = "done"
	// OutcomeRefused: nothing was done; Reason says why.
	OutcomeRefused Outcome = "refused"
	// OutcomeFailed: the op was tried and did not take effect.
	OutcomeFailed Outcome = "failed"
	// OutcomeUnknown: the op may or may not have taken effect; nothing else
	// is changed until a linearizable member list settles it.
	OutcomeUnknown Outcome = "unknown"
)

// ApplyReply is a host's answer to an op.
type ApplyReply struct {
	Outcome Outcome  `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
	Hint    string   `json:"hint,omitempty"`
	Member  MemberID `json:"member,omitempty"` // add-learner: the new member
	Refused *Refused `json:"refused,omitempty"`
}
