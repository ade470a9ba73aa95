package work

import (
	"cmp"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// phase is a part of what brings the machine in line with its record, or of what the host
// looks at by itself. Most of them read or write files, which nobody can call off.
type phase struct {
	awaits string // completes "it waits for"
	since  time.Time
}

// bootLate is when a phase takes longer than it should: the longest of those that are
// bounded, the stop of a member, apart, none takes as long on a disk that answers.
const bootLate = 30 * time.Second

// Awaits notes what the host waits for from now on, until something else is noted, or
// the task ends.
func (w *Supervisor) Awaits(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase{what, time.Now()}
}

// awaited says what has been waited for, for longer than a busy disk takes; the caller
// holds the mutex. The moment is told, so that nothing new is said at each look.
func (w *Supervisor) awaited() string { return w.phase.waited() }

func (p phase) waited() string {
	if p.awaits == "" || time.Since(p.since) < record.StallTold {
		return ""
	}
	return fmt.Sprintf("it has been waiting since %s for %s", p.since.UTC().Format(time.RFC3339), p.awaits)
}

// Booting is the answer of a host that has not brought its machine in line with the
// record yet.
func (w *Supervisor) Booting() *cluster.Busy {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &cluster.Busy{Op: cluster.Op{Kind: cluster.OpBoot}}
	if w.running != nil {
		b.For = time.Since(w.running.since)
	}
	w.explain(b)
	return b
}

// How soon it is logged that a host does not come up, and how often after that.
const (
	bootSays      = 10 * time.Second // longer than a disk takes that is only busy
	bootSaysAgain = time.Minute      // for whoever looks at the last lines of a log only
)

// sayBooting logs what the host waits for before it is up.
func (w *Supervisor) sayBooting(up <-chan struct{}) {
	says := time.NewTimer(bootSays)
	defer says.Stop()
	for {
		select {
		case <-up:
			return
		case <-says.C:
		}
		says.Reset(bootSaysAgain)
		if word := w.Booting().Word(); word != "" {
			w.log.Warn("the host is not up yet: "+word, "hint", "check the disk of the data directory and the mounts of etcd's programs and certificates")
		}
	}
}

// explain says what the host waits for; the caller holds the mutex.
func (w *Supervisor) explain(b *cluster.Busy) {
	b.Why = cmp.Or(w.keeper.Stalls(), b.Why)
	if b.Why != "" {
		return
	}
	b.Awaits = w.awaited()
	if b.Op.Kind == cluster.OpBoot && b.Awaits != "" && time.Since(w.phase.since) >= bootLate {
		b.Why, b.Awaits = b.Awaits, ""
	}
}
