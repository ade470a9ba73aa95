package etcdadm

import (
	"cmp"
	"context"
	"errors"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
)

// Stopper is the service of a machine that [Reset] is asked of.
type Stopper interface {
	// Check is an error where no service manager runs: nothing is asked of it then.
	Check(context.Context) error
	// Stop stops the agent and its etcd, now and for good: they do not start with the machine. One that is not there is
	// stopped.
	Stop(context.Context) error
	// Reload has the service manager see what was changed in its files.
	Reload(context.Context) error
}

// Resetting is how a machine is taken out of its cluster. The zero value is good for most.
type Resetting struct {
	Force    bool          // go on where the cluster cannot or must not let the member go
	Purge    bool          // delete data, settings and keys instead of setting them aside
	NoBackup bool          // do not wait for a backup before the member is removed
	Wait     time.Duration // for the member to be removed; zero: two minutes
}

// Former is a machine that was taken out of its cluster.
type Former struct {
	Cluster string
	Host    cluster.HostID
	// Nothing: there was nothing to do.
	Nothing bool
	// Removed: the cluster has no member here any more.
	Removed bool
	Aside   []string // where things were set aside
}

// Reset takes the machine out of its cluster, and undoes what [Init] or [Join] did: the member is removed through raft, the agent
// and its etcd stop, and what they had is set aside. Run again, after an interruption too, it goes on.
//
// Errors: ErrRefused where the cluster would be harmed, and ErrNoDaemon where it cannot be asked, and nothing was changed;
// ErrWaiting, where the member was not removed in time; the context's; what was not possible.
func Reset(ctx context.Context, m Machine, r Resetting) (Former, error) {
	service, ok := m.Service.(Stopper)
	switch {
	case m.Service == nil:
		service, _ = setup.RunnerOf(setup.Paths{Root: m.Root})
	case !ok:
		return Former{}, errors.New("the machine's service cannot stop its agent")
	}
	h := &removal.Host{Paths: setup.Paths{Root: m.Root}, Service: service, Say: m.Say}
	o := removal.Options{Force: r.Force, Purge: r.Purge, NoBackup: r.NoBackup, Wait: r.Wait}
	o.Wait = cmp.Or(o.Wait, removal.DefaultWait)
	p, err := h.Look(ctx, o)
	if err != nil {
		return Former{}, sortReset(err)
	}
	if err := p.Refused(o); err != nil {
		return Former{}, sortReset(err)
	}
	done, err := h.Reset(ctx, p, o)
	return Former{Cluster: done.Cluster, Host: done.Host, Nothing: done.Nothing, Removed: done.Removed, Aside: done.Aside}, sortReset(err)
}

func sortReset(err error) error {
	switch {
	case errors.Is(err, removal.ErrUnsafe), errors.Is(err, removal.ErrRuns):
		return sorted(ErrRefused, err)
	case errors.Is(err, removal.ErrUnreachable):
		return sorted(ErrNoDaemon, err)
	case errors.Is(err, removal.ErrWaiting):
		return sorted(ErrWaiting, err)
	}
	return err
}
