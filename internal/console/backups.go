package console

import (
	"time"

	"etcdadm.io/cluster"
)

// Backups is what a report says of them in short.
type Backups struct {
	// Last is the newest; nil: there is none in the store.
	Last *cluster.Backup `json:"last,omitempty"`
	// Age is how old it was when the daemon answered, in nanoseconds.
	Age time.Duration `json:"age,omitempty"`
	// Took is how long it took; zero when it was not taken by a daemon of now.
	Took time.Duration `json:"took,omitempty"`
	// Proven is the newest that is known to have been verified, and was good.
	Proven *cluster.Backup `json:"proven,omitempty"`
	// On is the host that takes one now.
	On cluster.HostID `json:"on,omitempty"`
	// Failed is why the last try failed, when that was after Last.
	Failed string `json:"failed,omitempty"`
	// Drilled is when one was last tried out, and DrillFailed why that did not
	// end well; empty: it did.
	Drilled     time.Time `json:"drilled,omitzero"`
	DrillFailed string    `json:"drillFailed,omitempty"`
}

// BackupsOf reads them off an observation; nil: the store was never listed. Ages are
// those of now, which is later than the look.
func BackupsOf(o *cluster.Observation, now time.Time) *Backups {
	if o == nil || o.Backups.At.IsZero() {
		return nil
	}
	out := Backups{Drilled: o.Backups.Drilled}
	for i := range o.Backups.Newest {
		b := &o.Backups.Newest[i]
		out.newer(b)
		if b.Proven && out.Proven == nil {
			out.Proven = b
		}
		if b.Drilled.After(out.Drilled) {
			out.Drilled = b.Drilled
		}
	}
	if out.Proven == nil {
		out.Proven = o.Backups.Proven
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		out.taken(h.Host, h.Taken)
		if d := h.Drill; d != nil && !d.Running && d.Ended.After(out.Drilled) {
			out.Drilled, out.DrillFailed = d.Ended, d.Why()
		}
	}
	for i := range o.Hosts { // after the newest is known
		if t := o.Hosts[i].Taken; t != nil && t.Error != "" && (out.Last == nil || t.Began.After(out.Last.At)) {
			out.Failed = "host " + string(o.Hosts[i].Host) + ": " + t.Why()
		}
	}
	if out.Last != nil {
		out.Age = max(now.Sub(out.Last.At), 0)
	}
	return &out
}

func (b *Backups) newer(o *cluster.Backup) {
	if b.Last == nil || o.At.After(b.Last.At) {
		b.Last, b.Took = o, 0
	}
}

func (b *Backups) taken(host cluster.HostID, t *cluster.Taken) {
	switch {
	case t == nil:
	case t.Running:
		b.On = host
	case t.Backup != nil:
		b.newer(t.Backup)
		if t.Backup.Name == b.Last.Name {
			b.Took = t.Ended.Sub(t.Began)
		}
	}
}
