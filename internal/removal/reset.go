package removal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/hostsfile"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/setup"
)

// Done is what came of a reset.
type Done struct {
	Cluster string         `json:"cluster,omitempty"`
	Host    cluster.HostID `json:"host,omitempty"`
	// Nothing: there was nothing to do.
	Nothing bool `json:"nothing,omitempty"`
	// Removed: the cluster has no member here.
	Removed bool `json:"removed"`
	// Aside is where things were set aside.
	Aside []string `json:"setAside,omitempty"`
	Stays []Stays  `json:"stays,omitempty"`
	// Left is what stays behind in the cluster.
	Left []Left `json:"left,omitempty"`
}

// Reset does what a plan of this host says. Interrupted, it is planned and done again, and goes on.
//
// Errors: ErrUnsafe and ErrUnreachable, and nothing was changed; ErrWaiting; ErrRuns; what the disk says.
func (h *Host) Reset(ctx context.Context, p Plan, o Options) (Done, error) {
	done := Done{Cluster: p.Cluster, Host: p.Host, Nothing: p.Nothing, Stays: p.Stays}
	if err := p.Refused(o); err != nil || p.Nothing {
		return done, err
	}
	j := p.job
	for _, step := range []func() error{
		func() error { return h.part(ctx, p, o) },
		func() error { return h.stop(ctx, j) },
		func() error { return h.farewell(ctx, j, o) },
		func() error { return h.putAway(ctx, j) },
	} {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("interrupted: %w; run the command again to go on", err)
		}
		if err := step(); err != nil {
			return done, err
		}
	}
	done.Removed, done.Left = !j.Forced && j.Host != "", j.Left
	for _, one := range j.Items {
		if !j.Purge && one.To != "" && there(one.To) {
			if one.Kind != setup.KindData {
				one.To = h.Paths.Aside(j.Stamp)
			}
			if !slices.Contains(done.Aside, one.To) {
				done.Aside = append(done.Aside, one.To)
			}
		}
	}
	return done, nil
}

// part has the cluster let the member go, or notes that a person goes without its leave.
func (h *Host) part(ctx context.Context, p Plan, o Options) error {
	j := p.job
	if j.Gone {
		return nil
	}
	if p.Hindrance != nil {
		if dir := j.holder(); dir != "" && j.Host == "" { // no agent of ours has begun what runs there
			if err := unlocked(dir); err != nil {
				return err
			}
		}
		return h.force(j, p.Left)
	}
	if p.Leaves() && !j.Lift {
		held, err := h.held(ctx, j)
		if err != nil {
			return h.unread(ctx, p, o, err)
		}
		j.Lift = !held || j.Destroys // a destruction that was given up held it
	}
	if err := h.saveJob(j); err != nil {
		return err
	}
	if p.Leaves() {
		switch err := h.leave(ctx, p, o); {
		case err != nil && (ctx.Err() != nil || !o.Force):
			return h.callOff(ctx, j, err)
		case err != nil:
			h.say("going on by force: %v", err)
			return h.force(j, j.behind(p.Member))
		}
	}
	if p.wait { // the member is gone: from here on there is no way back
		switch err := h.letGo(ctx, p); {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted when the member was removed already: run the command again to go on: %w", err)
		case err != nil && !o.Force:
			return err
		case err != nil:
			h.say("going on by force: %v", err)
		}
	}
	j.Gone = true
	return h.saveJob(j)
}

// unread is what becomes of a reset when the spec cannot be read, which is to be on hold while the member is removed.
func (h *Host) unread(ctx context.Context, p Plan, o Options, why error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted, and nothing was changed: %w", ctx.Err())
	}
	if o.Force {
		h.say("going on by force: the cluster's spec cannot be read: %v", why)
		return h.force(p.job, p.job.behind(p.Member))
	}
	return &Error{Problem: "the cluster's spec cannot be read, and nothing was changed: " + oneLine(why), Err: ErrUnreachable, Advice: "etcdadm status says what is wrong; " + byForce}
}

// letGo returns when the others keep the cluster's record without this host.
func (h *Host) letGo(ctx context.Context, p Plan) error {
	s, err := setup.ReadSettings(h.Paths)
	if err != nil {
		return err
	}
	if _, ok := kept.DataDir(s.Store()); !ok {
		return nil
	}
	return h.awaitKeepers(ctx, p.job)
}

func (h *Host) force(j *job, left []Left) error {
	j.Gone, j.Forced, j.Left = true, true, left
	return h.saveJob(j)
}

const (
	// callOffTimeout bounds the way back after a removal that came to no end.
	callOffTimeout = 10 * time.Second
	// sureAfter is longer than a leader needs for a step that nobody waits for any more.
	sureAfter = 2 * time.Second
)

// callOff ends a reset before anything was changed on this machine: the spec is followed again. Where that cannot be
// done, the next run does it.
func (h *Host) callOff(ctx context.Context, j *job, why error) error {
	if j.Lift {
		if err := h.unhold(context.WithoutCancel(ctx), j); err != nil { // a person who interrupts it wants that, too
			return fmt.Errorf("%w; the cluster's spec is still on hold (%w): run etcdadm reset again", why, err)
		}
	}
	return errors.Join(why, h.endJob())
}

// stop ends the agent and its etcd. A kubelet does by itself, once the manifest lies there no more.
func (h *Host) stop(ctx context.Context, j *job) error {
	for _, one := range j.Items {
		if one.Kind == setup.KindPod {
			if err := h.take(ctx, j, one); err != nil {
				return err
			}
		}
	}
	if err := h.Service.Check(ctx); err == nil {
		h.say("stopping the agent and its etcd")
		if err := h.Service.Stop(ctx); err != nil {
			return err
		}
	}
	lock, err := lockData(j.DataDir)
	if err != nil {
		return err
	}
	if lock == nil {
		return nil
	}
	defer func() { _ = lock.Unlock() }()
	return h.stopLeft(ctx, j.DataDir)
}

// farewell tells the other hosts.
func (h *Host) farewell(ctx context.Context, j *job, o Options) error {
	if j.Told {
		return nil
	}
	left, err := h.tell(ctx, j)
	if err != nil && (ctx.Err() != nil || !o.Force) {
		return err
	}
	if err != nil {
		h.say("going on by force: %v", err)
		left = j.behind(nil)
		if j.Lift {
			left = append(left, Left{"the hold on the cluster's spec", "etcdadm seed STORE --nodes N"})
		}
	}
	j.Told, j.Left = true, append(j.Left, left...)
	return h.saveJob(j)
}

// putAway takes away what lies here. Each part may have been done before.
func (h *Host) putAway(ctx context.Context, j *job) error {
	for _, one := range j.Items {
		if err := h.take(ctx, j, one); err != nil {
			return fmt.Errorf("take %s away: %w; run the command again to go on", one.Path, err)
		}
	}
	if h.Service.Check(ctx) == nil {
		if err := h.Service.Reload(ctx); err != nil {
			return err
		}
	}
	if j.Purge {
		if err := os.RemoveAll(h.Paths.Aside(j.Stamp)); err != nil {
			return err
		}
	}
	if err := h.endJob(); err != nil {
		return err
	}
	for _, one := range slices.Backward(j.Items) {
		if one.Kind == setup.KindDirectory {
			_ = os.Remove(one.Path) // it stays where something is in it
		}
	}
	_, _ = os.Remove(h.Paths.PKI()), os.Remove(filepath.Dir(h.Paths.Reset())) // of machines without a manifest
	return nil
}

func (h *Host) take(ctx context.Context, j *job, one Item) error {
	switch {
	case one.Kind == setup.KindDirectory:
		return nil
	case one.Kind == KindHosts:
		_, err := hostsfile.File{Path: one.Path, Cluster: j.Cluster}.Set(ctx, nil)
		return err
	case one.Kind != setup.KindData:
		return takeFile(one, j.Purge)
	}
	lock, err := lockData(one.Path)
	if err != nil {
		return err
	}
	if lock != nil {
		defer func() { _ = lock.Unlock() }()
	}
	if err := unlocked(one.Path); err != nil {
		return err
	}
	return takeData(one, j.Purge)
}

// endJob is the last step.
func (h *Host) endJob() error {
	path := h.Paths.Reset()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
