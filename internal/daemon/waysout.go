package daemon

import (
	"context"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/manager"
)

// forget drops a host out of what this daemon knows, and out of the store's
// announcements.
func (d *daemon) forget(ctx context.Context, id cluster.HostID) console.Forgot {
	out := console.Forgot{By: d.id, Host: id}
	out.Knew = slices.ContainsFunc(d.contacts(), func(c cluster.Contact) bool { return c.Host == id }) ||
		slices.ContainsFunc(d.manager.Status().Peers, func(p manager.PeerStatus) bool { return p.Host == id })
	if err := d.manager.Forget(id); err != nil {
		out.Refuse = err.Error()
		return out
	}
	d.log.Info("a person had a host forgotten", "host", id)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := discovery.NewStore(d.store, d.cfg.GRPCPort).Retract(ctx, string(id)); err != nil {
		d.log.Warn("the announcement of a forgotten host stays in the store, and ages there", "host", id, "error", err)
	}
	return out
}

// retractFormer takes back what another identity announced at the very endpoint
// that this daemon listens on: that one is gone, as after a wipe. It reports
// whether the announcements were looked through.
func (d *daemon) retractFormer(ctx context.Context, self discovery.Seed) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	store := discovery.NewStore(d.store, d.cfg.GRPCPort)
	seeds, err := store.Seeds(ctx)
	for _, s := range seeds {
		if s.Endpoint != self.Endpoint || s.ID == self.ID || s.ID == "" {
			continue
		}
		if err := store.Retract(ctx, s.ID); err != nil {
			d.log.Debug("the announcement of a former host at this address stays", "host", s.ID, "error", err)
			return false
		}
		d.log.Info("took back the announcement of a former host at this address", "host", s.ID, "endpoint", s.Endpoint)
	}
	return err == nil
}

// resetFence tells what a reset of this host's promise would do, and does it
// where a person has confirmed that.
func (d *daemon) resetFence(ctx context.Context, q console.Question) console.FenceReset {
	out := console.FenceReset{Host: d.id, Was: d.host.Identity().Promised}
	if q.Host != "" && q.Host != d.id {
		out.Refuse = "this is the daemon of host " + string(d.id)
		return out
	}
	out.To, out.Heard = d.manager.Fences()
	if s := d.host.Observe(ctx, cluster.ObserveRequest{}).State; s != nil && s.Intent != nil {
		for _, v := range slices.Concat(s.Intent.Voters, s.Intent.Next) {
			if v.Host != "" && v.Host != d.id && !slices.Contains(out.Heard, v.Host) && !slices.Contains(out.Unheard, v.Host) {
				out.Unheard = append(out.Unheard, v.Host)
			}
		}
	}
	if !out.Was.OutOfReach() {
		out.Refuse = "its promise is one that a leader goes above by itself, ten seconds after the fence was used last: " + out.Was.String()
		return out
	}
	if !q.Do {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := d.host.ResetFence(ctx, out.To); err != nil {
		out.Refuse = err.Error()
		return out
	}
	out.Done = true
	return out
}
