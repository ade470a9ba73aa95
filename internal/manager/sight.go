package manager

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/election"
	"etcdadm.io/internal/control"
)

const (
	// sightEvery is how often a daemon that does not lead looks at the store, so that
	// others know whether it could.
	sightEvery = 20 * time.Second
	// blindFor is how long a daemon's own sight is worse than another's before it
	// leaves the lead to that one: longer than the other's sight can be old, so that
	// a store which answers nobody ends no leadership (SAFETY.md, rule 6).
	blindFor = sightEvery + 10*time.Second
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
func (m *Manager) lookAside(ctx context.Context) {
	m.mu.Lock()
	due, last := time.Since(m.sightAt) > sightEvery-time.Second, m.store
	m.mu.Unlock()
	if !due {
		return
	}
	m.probe(ctx) // one that failed when the daemon started is tried again
	var l look
	within(ctx, m.o.Intervals.StoreTimeout, func(ctx context.Context) { l.readIntent(ctx, m, last) })
	if !l.failed && m.o.Spec == nil {
		within(ctx, m.o.Intervals.StoreTimeout, func(ctx context.Context) {
			if _, err := m.o.Control.ReadSpec(ctx); err != nil && !errors.Is(err, control.ErrMalformed) && !errors.Is(err, cluster.ErrSpec) {
				l.failed, l.gaps = true, []cluster.Gap{m.storeGap(err)}
			}
		})
	}
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	m.keepSightLocked(l.sight())
	if !l.failed {
		m.keepVotersLocked(votersOf(l.ours()))
	}
	m.mu.Unlock()
	m.judgeFitness()
}

func (m *Manager) keepSightLocked(s cluster.StoreSight) {
	m.sight, m.sightAt = &s, time.Now()
}

// blindLocked is the excuse of a daemon that has seen the store worse than another
// one for a while.
func (m *Manager) blindLocked(now time.Time) string {
	worst := ""
	for id, p := range m.peers {
		if its := p.last.Store; its != nil && m.election.Live(id, now) {
			if e := excuse(m.sight, its); e == election.UnfitStore || worst == "" {
				worst = e
			}
		}
	}
	if worst == "" {
		m.blindSince = time.Time{}
		return ""
	}
	if m.blindSince.IsZero() {
		m.blindSince = now
	}
	if now.Sub(m.blindSince) < blindFor {
		return ""
	}
	return worst
}

// excuse is why whoever has one sight should leave the lead to who has the other.
func excuse(own, its *cluster.StoreSight) string {
	switch {
	case own == nil || its.Unread != "" || its.Foreign || !its.Marker:
		return ""
	case own.Unread != "":
		return election.UnfitStoreSilent
	case own.Foreign || !own.Marker:
		return election.UnfitStore
	}
	return ""
}

// sights are what the other daemons told of the store.
func (m *Manager) sights() []cluster.HostSight {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []cluster.HostSight
	for id, p := range m.peers {
		if p.last.Store != nil && m.election.Live(id, time.Now()) {
			out = append(out, cluster.HostSight{Host: id, StoreSight: *p.last.Store})
		}
	}
	slices.SortFunc(out, func(a, b cluster.HostSight) int { return cmp.Compare(a.Host, b.Host) })
	return out
}
