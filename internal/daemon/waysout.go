package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/snapshot"
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
	if !d.cfg.announces() {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, retractTimeout)
	defer cancel()
	if err := discovery.NewStore(d.store, d.cfg.GRPCPort).Retract(ctx, string(id)); err != nil {
		d.log.Warn("the announcement of a forgotten host stays in the store, and ages there", "host", id, "err", err)
	}
	return out
}

// retractFormer takes back what another identity announced at the very endpoint
// that this daemon listens on: that one is gone, as after a wipe. It reports
// whether the announcements were looked through.
func retractFormer(d *daemon, ctx context.Context, self discovery.Seed) bool {
	if !d.cfg.announces() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	store := discovery.NewStore(d.store, d.cfg.GRPCPort)
	seeds, err := store.Seeds(ctx)
	for _, s := range seeds {
		if s.Endpoint != self.Endpoint || s.ID == self.ID || s.ID == "" {
			continue
		}
		if err := store.Retract(ctx, s.ID); err != nil {
			d.log.Debug("the announcement of a former host at this address stays", "host", s.ID, "err", err)
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
		out.Refuse = "its fence is in reach: a leader raises its own above it 10 s after the last use: " + out.Was.String()
		return out
	}
	if !q.Do {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	if _, err := d.host.ResetFence(ctx, out.To); err != nil {
		out.Refuse = err.Error()
		return out
	}
	out.Done = true
	return out
}

// confirmDisk reports whether a person may confirm this host's disk, and confirms it where a person has said so.
func (d *daemon) confirmDisk(q console.Question) console.DiskConfirmation {
	out := console.DiskConfirmation{Host: d.id, Unheard: d.host.Unheard()}
	switch {
	case q.Host != "" && q.Host != d.id:
		out.Refuse = "this is the daemon of host " + string(d.id)
	case d.host.WentBack():
		out.Refuse = "another host remembers more of its disk than the disk has: see docs/operations/disk-went-back.md"
	case !d.host.Asked():
		out.Refuse = "it asks the other hosts now what they remember of its disk: run the command again in 10 s"
	case d.host.Sure():
		out.Refuse = "its disk is confirmed already"
	case q.Do:
		if out.Done = d.host.Vouch(); out.Done {
			d.log.Warn("a person confirmed the disk of this host until its agent ends", "unheard", out.Unheard)
		}
	}
	return out
}

// pruneTimeout bounds what a person waits for a directory to be gone; it is out
// of its place long before.
const pruneTimeout = time.Minute

// prune tells what is set aside on this host, and has removed of it what a
// person has confirmed.
func (d *daemon) prune(ctx context.Context, q console.Question) console.Pruned {
	out := console.Pruned{Host: d.id}
	if q.Host != "" && q.Host != d.id {
		out.Refuse = "this is the daemon of host " + string(d.id)
		return out
	}
	if q.Do {
		ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
		defer cancel()
		was, err := d.host.PruneAside(ctx, q.Dir)
		if err != nil {
			out.Refuse = err.Error()
			return out
		}
		out.Aside, out.Done = []cluster.SetAside{was}, true
		return out
	}
	reply := d.host.Observe(ctx, cluster.ObserveRequest{})
	s := reply.State
	if s == nil {
		out.Refuse = unseen(reply).Error()
		return out
	}
	for _, a := range s.SetAside {
		if q.Dir == "" || filepath.Base(a.Dir) == q.Dir {
			out.Aside = append(out.Aside, a)
		}
	}
	if q.Dir != "" && len(out.Aside) == 0 {
		out.Refuse = "that host has nothing set aside as " + q.Dir
	}
	return out
}

// logWait is how long a person's question waits for the log to be read, which goes
// on after it; less than whoever asks waits.
const logWait = 7 * time.Second

// logLookLeast is what has to be left of it for another look to be worth it.
const logLookLeast = 500 * time.Millisecond

// logEnd is what this host holds of its member. The promise is not touched.
func (d *daemon) logEnd(ctx context.Context) cluster.LogEnd {
	out := cluster.LogEnd{Host: d.id}
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	by, _ := ctx.Deadline()
	reply := d.host.Observe(ctx, cluster.ObserveRequest{Log: true})
	s := reply.State
	for s != nil && s.Log == nil && s.Reading != nil && ctx.Err() == nil && time.Until(by) > logLookLeast { // each look waits for the reading a while
		if again := d.host.Observe(ctx, cluster.ObserveRequest{Log: true}).State; again != nil {
			s = again
		}
	}
	if s == nil {
		out.Unknown = unseen(reply).Error()
		return out
	}
	l := s.Local
	out.Generation, out.Cluster, out.Member, out.State, out.HasData = l.Generation, l.Cluster, l.Member, l.State, l.HasData
	out.Runs, out.Log, out.Reading, out.Highest, out.Intent = s.Process.Runs(), s.Log, s.Reading, s.Highest, s.Intent
	for _, a := range s.SetAside {
		if a.Log == (cluster.Progress{}) && a.Cluster != 0 {
			a.Log = d.asideEnd(ctx, a.Name())
		}
		out.SetAside = append(out.SetAside, a)
	}
	return out
}

// asideEnd is how far the log of what was set aside goes; zero: it cannot be read.
func (d *daemon) asideEnd(ctx context.Context, name string) cluster.Progress {
	dir, err := d.disk.AsideDir(name)
	if err != nil {
		return cluster.Progress{}
	}
	at, err := new(snapshot.LogEnds).Of(ctx, dir, nil)
	if err != nil {
		d.log.Info("cannot read how far the log of what was set aside goes", "dir", name, "err", err)
		return cluster.Progress{}
	}
	return cluster.Progress{Term: at.Term, Index: at.Index}
}
