package daemon

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
)

// handOver moves raft's leadership away from the own member before it is
// stopped, so that the cluster needs no election. It is a courtesy: bounded,
// and the stop goes on whatever comes of it.
func (d *daemon) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	state := d.host.Observe(ctx, cluster.ObserveRequest{}).State
	if state == nil || state.Status == nil || state.View == nil || state.Status.Leader != state.Status.Member {
		return
	}
	client, _, err := d.host.Own()
	if err != nil {
		return
	}
	for _, m := range state.View.Members {
		if m.Learner || m.ID == state.Status.Member || m.Name == "" {
			continue
		}
		if err := client.MoveLeader(ctx, m.ID); err == nil {
			d.log.Info("moved raft's leadership before stopping the own member", "to", m.Name)
			return
		}
	}
}

func (d *daemon) stopEtcd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := errors.Join(d.process.takeUp(ctx), d.process.Stop(ctx)); err != nil {
		d.log.Warn("could not stop etcd", "err", err)
	}
}
