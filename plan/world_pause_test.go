package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// worldPauses are the pauses that the store has, and those that the leader knows.
type worldPauses struct {
	stored, seen []cluster.Pause
	known        bool
	unread       bool // they cannot be read, whatever else can
	damaged      bool // nor is what is there understood
	lost         bool // the object is gone
}

func (w *world) seePauses(o *cluster.Observation) {
	o.PausesLost = w.pauses.lost && len(w.pauses.seen) > 0
	if w.pauses.damaged {
		o.PausesDamaged = "unexpected end of JSON input; move it away"
	}
	if !w.store.silent && !w.pauses.unread && !w.pauses.damaged && !o.PausesLost {
		w.pauses.seen, w.pauses.known = w.pauses.stored, true
	}
	if o.Paused = w.pauses.seen; !w.pauses.known {
		o.Paused, o.PausesUnread = nil, "no answer within 2s"
	}
}

func (w *world) writePauses(c *decision.PauseChange) error {
	switch {
	case w.store.silent || w.pauses.unread:
		return fmt.Errorf("the store does not answer")
	case w.pauses.lost:
		w.pauses.lost = false
	case !cluster.SamePauses(w.pauses.stored, c.Was):
		return fmt.Errorf("the pauses are others by now")
	}
	w.pauses.stored = c.Now
	return nil
}

func pauseOf(t *testing.T, d *datadriven.TestData) *decision.PauseAsked {
	t.Helper()
	p := &decision.PauseAsked{Reason: "kernel", By: "root@shell", Force: d.HasArg("force")}
	var long string
	d.MaybeScanArgs(t, "for", &long)
	d.MaybeScanArgs(t, "reason", &p.Reason)
	var err error
	if p.For, err = time.ParseDuration(long); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return p
}

// pause: one host more is paused, or one less, and only by a person's step.
func (l *laws) pause(a *decision.Action) {
	c := a.Pauses
	l.must(c != nil && a.Intent == nil && len(a.Ops) == 0 && (l.goal.Kind == decision.Pause || l.goal.Kind == decision.Resume), "a pause that nobody asked for")
	l.must(l.o.Store.Read && l.o.PausesUnread == "", "a write of the pauses without having read them")
	for _, p := range c.Now {
		l.must(p.Until.Sub(p.From) <= cluster.MaxPause && p.Reason != "" || p.Host != l.goal.Host, "a pause of %s without an end or a reason", p.Host)
	}
	for _, p := range l.o.Pauses() {
		kept := false
		for _, n := range c.Now {
			kept = kept || n.Host == p.Host
		}
		l.must(kept || p.Host == l.goal.Host, "the pause of host %s is lost", p.Host)
	}
	if l.goal.Kind == decision.Pause && !l.goal.Pause.Force && l.seen {
		left, votes := 0, false
		for _, s := range l.roster.Voters() {
			_, paused := l.o.PauseOf(s.HostID)
			votes = votes || s.HostID == l.goal.Host
			if s.Up && !paused && s.HostID != l.goal.Host {
				left++
			}
		}
		l.must(!votes || left >= cluster.Quorum(len(l.roster.Voters())), "a pause that leaves no quorum")
	}
}

// excused: no voter is removed for the silence of a host that is paused.
func (l *laws) excused(s cluster.Seat) {
	_, paused := l.o.PauseOf(s.HostID)
	if l.goal.Kind != decision.Converge || !paused && l.o.PausesUnread == "" || s.Up || s.Host != nil || s.Owner != nil {
		return
	}
	l.must(l.spec != nil && len(l.roster.Voters()) > l.spec.MemberCount, "a voter is to be removed while its host is paused")
}
