package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// unseenLook is how often this daemon looks for hosts to forget.
	unseenLook = time.Minute
	// replacedAfter is how long a host is unseen whose address another one has,
	// before it is forgotten: the machine was wiped, and has a new identity.
	replacedAfter = time.Minute
)

// ErrStillThere is returned for a host that is not to be forgotten yet.
var ErrStillThere = errors.New("the host is not forgotten")

// Forget drops a host out of what this daemon knows and remembers: one that
// was wiped, replaced or taken away. It is refused while its daemon is heard,
// and while the cluster counts on it. A host that comes back is simply new.
//
// Errors: ErrStillThere.
func (g *Gossip) Forget(id cluster.HostID) error {
	g.mu.Lock()
	live := id == g.self || g.election.Live(id, time.Now())
	g.mu.Unlock()
	switch {
	case live:
		return fmt.Errorf("%w: the daemon of host %s answers. A member is replaced by etcdadm member replace %s; a host without one is forgotten once its daemon is stopped", ErrStillThere, id, cluster.ShellWord(string(id)))
	case g.Named(id):
		return fmt.Errorf("%w: the static configuration names host %s", ErrStillThere, id)
	}
	if err := g.Local.Forget(id); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.peers, id)
	for endpoint, t := range g.targets {
		switch {
		case t.host != id:
		case t.seed || t.busy:
			t.host = "" // whoever answers there is heard anew
		default:
			delete(g.targets, endpoint)
		}
	}
	if g.election.Leading() {
		g.Wake()
	}
	return nil
}

// forgetUnseen forgets hosts that nothing counts on and that were not heard
// for cluster.MaxUnseen while this daemon ran, or whose address another host
// has, until ctx ends. While the authorities are rotated nobody is forgotten for mere silence: each host is waited for, since
// one that comes back afterwards is let in by nobody.
func (g *Gossip) forgetUnseen(ctx context.Context) {
	began := time.Now()
	ticker := time.NewTicker(unseenLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return
		}
		for _, id := range g.unseen(began) {
			if g.Forget(id) == nil {
				g.Log.Info("a host is forgotten that was not seen for long and that nothing counts on", "host", id)
			}
		}
	}
}

// unseen lists the hosts to be forgotten, if nothing counts on them.
func (g *Gossip) unseen(began time.Time) []cluster.HostID {
	remembered := g.Local.Peers()
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	heard := map[cluster.HostID]time.Time{}
	at := map[cluster.HostID]string{}
	for _, p := range remembered {
		heard[p.Host], at[p.Host] = began, p.Address
	}
	taken := map[string]bool{g.Contact.Endpoint: true}
	for id, p := range g.peers {
		heard[id], at[id] = p.heard, p.contact.Endpoint
		taken[p.contact.Endpoint] = taken[p.contact.Endpoint] || g.election.Live(id, now)
	}
	rotates := !g.Local.Rotation().Over()
	var out []cluster.HostID
	for id, last := range heard {
		gone := now.Sub(last)
		if id != g.self && !g.election.Live(id, now) && (gone >= cluster.MaxUnseen && !rotates || gone >= replacedAfter && taken[at[id]]) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Fences are the highest fence that a leader may bring of those that this
// daemon has heard of, and which hosts it hears now.
func (g *Gossip) Fences() (top cluster.Fence, live []cluster.HostID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	top = g.topFence
	for id, p := range g.peers {
		if g.election.Live(id, now) {
			live = append(live, id)
			top = higher(top, p.last.Promised)
		}
	}
	slices.Sort(live)
	return top, live
}
