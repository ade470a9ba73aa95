package manager

import (
	"sync"
	"time"

	"etcdadm.io/internal/control"
)

// ReportOptions are what a Writer is made of.
type ReportOptions struct {
	Control      *control.Folder // nil: there is no store
	Foreign      func() bool     // the store is another cluster's
	Record       time.Duration   // between writes of the record
	RecordCalm   time.Duration   // the same while no recovery by itself goes by it
	Status       time.Duration   // between writes of the status, at least
	Heartbeat    time.Duration   // between them, at most
	WriteTimeout time.Duration
	Say          func(topic, what string, err error)
}

// Writer has what this host's leadership saw last and decided, and writes it into the store.
// Its methods may be called from several goroutines at once.
type Writer struct {
	ReportOptions

	now chan struct{} // there is news for the status in the store

	mu        sync.Mutex // guards what follows; never held across a call outside
	status    Status
	recording recording
	pauses    toldPauses
	trusts    toldTrusts
	specs     toldSpec
	unwritten map[string]unwritten
}

// NewWriter has nothing to write yet.
func NewWriter(o ReportOptions) *Writer {
	return &Writer{ReportOptions: o, now: make(chan struct{}, 1), trusts: toldTrusts{}, unwritten: map[string]unwritten{}}
}

// Last is what was published last.
func (r *Writer) Last() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}
