package history

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Kind is what a client asked for.
type Kind string

// The kinds of operations.
const (
	Put    Kind = "put"
	Get    Kind = "get"    // linearizable
	CAS    Kind = "cas"    // put, if the modification revision is Expect; else get
	Delete Kind = "delete" // of one key
)

// Operation is one call of one client for one key. Times are nanoseconds since the start of the history, by a clock that
// never jumps.
type Operation struct {
	Client int    `json:"client"`
	Kind   Kind   `json:"kind"`
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`  // to be written; no two operations write the same one
	Expect int64  `json:"expect,omitempty"` // of a CAS; 0: the key is absent
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	// Error is what the client got instead of an answer. Then nothing below is set: the operation may have happened at any time
	// after its call, or never.
	Error string `json:"error,omitempty"`

	Revision int64  `json:"revision,omitempty"` // of the store, as the answer says
	Done     bool   `json:"done,omitempty"`     // of a CAS: it was put; of a delete: there was something
	Found    bool   `json:"found,omitempty"`    // of a get, and a CAS that was not put: the key is there,
	Read     string `json:"read,omitempty"`     // with this value
	Mod      int64  `json:"mod,omitempty"`      // and this modification revision
}

// writes reports whether an operation may change the store.
func (o Operation) writes() bool { return o.Kind != Get }

// wrote reports whether an operation is known to have changed the store, at Revision.
func (o Operation) wrote() bool {
	return o.Error == "" && (o.Kind == Put || (o.Kind == CAS || o.Kind == Delete) && o.Done)
}

func (o Operation) String() string {
	what := fmt.Sprintf("client %d: %s %s", o.Client, o.Kind, o.Key)
	if o.Kind == CAS {
		what += fmt.Sprintf(" if its revision is %d", o.Expect)
	}
	if o.Value != "" {
		what += " = " + o.Value
	}
	switch {
	case o.Error != "":
		what += " → ? " + o.Error
	case o.wrote():
		what += fmt.Sprintf(" → revision %d", o.Revision)
	case o.Found:
		what += fmt.Sprintf(" → %s of revision %d, at %d", o.Read, o.Mod, o.Revision)
	default:
		what += fmt.Sprintf(" → absent, at %d", o.Revision)
	}
	return fmt.Sprintf("%s (%s to %s)", what, clock(o.Call), clock(o.Return))
}

// clock shows a time of a history.
func clock(at int64) string { return time.Duration(at).Round(time.Millisecond).String() }

// Event is a change that a watch told.
type Event struct {
	At       int64  `json:"at"` // when it came
	Revision int64  `json:"revision"`
	Key      string `json:"key"`
	Value    string `json:"value,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

func (e Event) String() string {
	if e.Deleted {
		return fmt.Sprintf("%d: %s is deleted", e.Revision, e.Key)
	}
	return fmt.Sprintf("%d: %s = %s", e.Revision, e.Key, e.Value)
}

// Watch is what one watcher saw, over all the times that it had to begin again.
type Watch struct {
	Name   string  `json:"name"`
	From   int64   `json:"from"` // the first revision that it asked for
	Events []Event `json:"events"`
	// Promises are progress notifications: after len events, everything up to Revision had been told.
	Promises []Promise `json:"promises,omitempty"`
	// Gaps are revisions that were compacted before the watcher got there, told by etcd.
	Gaps []Gap `json:"gaps,omitempty"`
	// Reached is the revision up to which it had seen everything when it was stopped, by having seen the write of it.
	Reached int64 `json:"reached"`
	// Opened are the times at which it was opened.
	Opened []int64 `json:"opened"`
}

// Promise is a progress notification.
type Promise struct {
	After    int   `json:"after"` // events
	Revision int64 `json:"revision"`
}

// Gap is revisions [From, To) that a watcher was told to be compacted.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	At   int64 `json:"at"`
}

// Lease is a lease that a client held, with one key.
type Lease struct {
	Client int    `json:"client"`
	ID     int64  `json:"id"`
	Key    string `json:"key"`
	TTL    int64  `json:"ttl"` // seconds, as granted
	// Renewed are the calls of the grant and of renewals that were acknowledged: the lease lives until the last one and TTL.
	Renewed []int64 `json:"renewed"`
	// Held is since when the key is known to be there; 0: it never was.
	Held int64 `json:"held,omitempty"`
	// Missed are linearizable reads that did not find the key: when they were called, and had returned.
	Missed []Span `json:"missed,omitempty"`
	// Revoked is when the client began to give it up; 0: never.
	Revoked int64 `json:"revoked,omitempty"`
}

// Span is a time from one to another.
type Span struct {
	From int64  `json:"from"`
	To   int64  `json:"to"` // 0: not ended
	Text string `json:"text,omitempty"`
}

// Reset is a return to an earlier state, that a person asked for: what was written between the revision that is kept and
// the end of it may be gone. Keys of before are not used after.
type Reset struct {
	From int64 `json:"from"` // when it began
	To   int64 `json:"to"`   // and had ended
	Keep int64 `json:"keep"` // revisions up to this one are in what was restored
}

// Everything is what is kept by a reset that drops no write.
const Everything = int64(1) << 62

// History is all that was seen.
type History struct {
	Began      time.Time   `json:"began"`
	Seed       uint64      `json:"seed"`
	Prefix     string      `json:"prefix"` // of all keys
	Operations []Operation `json:"operations"`
	Watches    []Watch     `json:"watches"`
	Leases     []Lease     `json:"leases"`
	Faults     []Span      `json:"faults"`
	Resets     []Reset     `json:"resets"`
	// Final is everything that is there at the end, with the revision at which it was read.
	Final         []Event `json:"final"`
	FinalRevision int64   `json:"finalRevision"`
	// Unfinished is what could not be asked at the end.
	Unfinished []string `json:"unfinished,omitempty"`
}

// Save writes a history as JSON.
func (h History) Save(path string) error {
	data, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save history: %w", err)
	}
	return nil
}

// Load reads what Save wrote.
func Load(path string) (h History, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		return h, fmt.Errorf("load history: %w", err)
	}
	return h, nil
}
