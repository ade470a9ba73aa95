package manager

import (
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// sight is what a look says to others.
func (l look) sight() cluster.StoreSight {
	s := cluster.StoreSight{Foreign: l.foreign, Marker: l.view.Marker}
	if l.failed || l.view.Untried { // who cannot try it out may not write into it
		s.Unread = "it does not answer"
		if len(l.gaps) > 0 {
			s.Unread = l.gaps[0].Detail
		}
	}
	if in := l.view.Intent; in != nil {
		s.Generation, s.Nonce = in.Generation, in.Nonce
	}
	return s
}

// lookAside is a look of a daemon that does not lead, for others to know. It asks what a
// leader needs, so that nobody is given the lead for a sight that the lead would end.
func (w *Watcher) lookAside(ctx context.Context) {
	due := time.Since(w.Gossip.SawAt()) > w.Intervals.Aside-time.Second
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if !due {
		return
	}
	w.probe(ctx) // one that failed when the daemon started is tried again
	ctx = blob.Together(ctx)
	var l look
	within(ctx, w.Intervals.StoreTimeout, func(ctx context.Context) { l.readIntent(ctx, w, last) })
	if !l.failed && w.Spec == nil {
		within(ctx, w.Intervals.StoreTimeout, func(ctx context.Context) {
			if _, err := w.Control.ReadSpec(ctx); err != nil && !errors.Is(err, control.ErrMalformed) && !errors.Is(err, cluster.ErrSpec) {
				l.failed, l.gaps = true, []cluster.Gap{w.gap(err)}
			}
		})
	}
	if ctx.Err() != nil {
		return
	}
	var voters []cluster.HostID
	if !l.failed {
		voters = l.ours().VoterHosts()
	}
	w.Gossip.Saw(l.sight(), voters)
	w.Gossip.Judge()
}
