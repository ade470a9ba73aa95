package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
)

// readPauses looks which hosts are paused. What the store does not give is as it was in the
// last look of this leadership, and not known before there is one: a host may be paused then.
// Nor does an object that is lost end a pause, which only a person and its time do.
func (l *look) readPauses(ctx context.Context, f *control.Folder, last look) {
	l.paused, l.pausesUnread = last.paused, last.pausesUnread
	all, err := f.ReadPauses(ctx)
	lost := errors.Is(err, control.ErrNoPauses)
	switch {
	case err == nil, lost && len(last.paused) == 0:
		l.paused, l.pausesUnread = all, ""
	case lost:
		l.pausesLost = true
	case errors.Is(err, control.ErrMalformed):
		l.pausesDamaged = say.Explain(err)
	}
	if l.pausesUnread != "" {
		l.pausesUnread = say.Explain(err)
	}
}

// pausesUnknown is what a leadership begins with.
const pausesUnknown = "the backup store was not read yet"

// ForgetPauses is for a new leadership: others led since, and may have paused a host.
func (w *Watcher) ForgetPauses() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.paused, w.last.pausesUnread = nil, pausesUnknown
	w.last.pausesDamaged, w.last.pausesLost = "", false
}

// pausesEvery is how old the status in the store may become while somebody may stop a host by it.
const pausesEvery = 10 * time.Second

// pauseStatus are the pauses that were asked for, and which of them are in effect.
func pauseStatus(o *cluster.Observation) (out []control.PauseStatus) {
	now := o.Clock()
	for _, p := range o.Paused {
		h, there := o.Host(p.Host)
		granted := there && h.Granted(p.ID)
		if granted && !p.Ended || p.Asked(now) || p.InForce(now) {
			out = append(out, control.PauseStatus{ID: p.ID, Host: p.Host, By: p.By, MayGo: granted && !p.Ended})
		}
	}
	return out
}

// told is what the status said of pauses last.
type toldPauses struct {
	all []control.PauseStatus
	at  time.Time
}

// news reports whether the status is to be written for the sake of pauses.
func (t *toldPauses) news(o *cluster.Observation, now time.Time) bool {
	all := pauseStatus(o)
	if slices.Equal(all, t.all) && (len(all) == 0 || now.Sub(t.at) < pausesEvery) {
		return false
	}
	t.all, t.at = all, now
	return true
}
