package plan

import (
	"fmt"
	"slices"
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

// hearPauses has a host drop those of its pauses that were ended, or whose time is over.
func (w *world) hearPauses(h *worldHost) {
	ended := cluster.EndedPauses(w.pauses.seen)
	h.Paused = slices.DeleteFunc(slices.Clone(h.Paused), func(p cluster.Pause) bool {
		return slices.Contains(ended, p.ID) || w.now.Sub(p.Until.Add(-p.For)) >= p.For
	})
	if len(h.Paused) == 0 {
		h.Paused = nil
	}
}

// twoAway says that an op takes a voter away that runs, or lets one go, while another one may
// go: as it is, whatever who decided on it had seen.
func (w *world) twoAway(h *worldHost, o decision.HostOp) string {
	of := h.Local.Member
	switch o.Op.Kind {
	case cluster.OpRestart, cluster.OpStop, cluster.OpDefragment, cluster.OpPause:
	case cluster.OpRemove:
		of = o.Op.Member
	default:
		return ""
	}
	c := w.clusterOf(h)
	if c == nil {
		return ""
	}
	votes := func(id cluster.MemberID) bool {
		return slices.ContainsFunc(c.members, func(m cluster.Member) bool { return m.ID == id && !m.Learner })
	}
	runs := slices.ContainsFunc(w.hosts, func(x *worldHost) bool {
		return x.Local.Member == of && !x.down && !x.dead && x.Process.State == cluster.ProcessRunning
	})
	if !runs || !votes(of) {
		return ""
	}
	for _, x := range w.hosts {
		if x.Local.Member != of && votes(x.Local.Member) && len(x.Paused) > 0 {
			return fmt.Sprintf("%s of member %s while host %s may go", o.Op.Kind, of, x.Host)
		}
	}
	return ""
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
	d.MaybeScanArgs(t, "id", &p.ID)
	d.MaybeScanArgs(t, "by", &p.By)
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
	if c != nil && !slices.ContainsFunc(c.Now, func(p cluster.Pause) bool {
		return !slices.ContainsFunc(c.Was, func(o cluster.Pause) bool { return o.ID == p.ID && o.Host == p.Host && o.For == p.For })
	}) && len(c.Now) == len(c.Was) {
		return // the time of one that was asked for begins
	}
	l.must(c != nil && a.Intent == nil && len(a.Ops) == 0 && (l.goal.Kind == decision.Pause || l.goal.Kind == decision.Resume), "a pause that nobody asked for")
	l.must(l.o.Store.Read && l.o.PausesUnread == "", "a write of the pauses without having read them")
	for _, p := range c.Now {
		l.must(max(p.For, p.Until.Sub(p.From)) <= cluster.MaxPause && p.Reason != "" || p.Host != l.goal.Host, "a pause of %s without an end or a reason", p.Host)
	}
	for _, p := range l.o.Pauses() {
		kept := false
		for _, n := range c.Now {
			kept = kept || n.Host == p.Host
		}
		l.must(kept || p.Host == l.goal.Host, "the pause of host %s is lost", p.Host)
	}
	if l.goal.Kind == decision.Pause && !l.goal.Pause.Force && l.goal.Pause.ID == "" && l.seen {
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

// stays: nobody is let go while another host may go at any moment, and no running voter is ended, or
// loses its vote, beside it: an op that does either asks what the host itself says.
func (l *laws) stays(x decision.HostOp) {
	var of cluster.MemberID
	switch x.Op.Kind {
	case cluster.OpRestart, cluster.OpStop, cluster.OpDefragment, cluster.OpSetAside, cluster.OpPause:
		if h, ok := l.o.Host(x.Host); ok {
			of = h.Local.Member
		}
	case cluster.OpRemove:
		of = x.Op.Member
	default:
		return
	}
	s, listed := l.roster.Seat(of)
	if !listed || s.Learner || s.Host == nil || !s.Host.Process.Runs() {
		return
	}
	for _, o := range l.roster.Voters() {
		l.must(o.ID == of || o.Host == nil || len(o.Host.Paused) == 0, "%s of a voter that runs, while host %s may go at any moment", x.Op.Kind, o.HostID)
	}
}

// granted: a host is let go that somebody asked for, on the leader's own reading of that, and while every
// other voter is up.
func (l *laws) granted(x decision.HostOp, h *cluster.HostReport) {
	p := x.Op.Pause
	if !l.must(p != nil && p.Host == h.Host && p.ID != "" && !p.Ended && p.For > 0, "a host is let go by no pause") {
		return
	}
	l.must(slices.ContainsFunc(l.o.Paused, p.Equal) && l.o.Store.Read && l.o.PausesUnread == "", "host %s is let go, and nobody asked for that", h.Host)
	s, listed := l.roster.Seat(h.Local.Member)
	l.must(listed, "host %s is let go, and carries nothing", h.Host)
	up := 0
	for _, o := range l.roster.Voters() {
		if o.ID != s.ID && !s.Learner {
			l.must(o.Up, "host %s is let go beside voter %s, which is down", h.Host, o.HostID)
			up++
		}
	}
	l.must(s.Learner || !s.Up || p.Outage || up >= cluster.Quorum(up+1), "host %s is let go, and no quorum stays", h.Host)
	for i := range l.o.Hosts {
		l.must(l.o.Hosts[i].TakesPauses, "host %s is let go, and that of host %s knows no pauses", h.Host, l.o.Hosts[i].Host)
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
