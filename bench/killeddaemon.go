package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"etcdadm.io/internal/testetcd"
)

// killedDaemon: from kill -9 of the leading daemon until another one leads and
// has looked at the cluster.
func killedDaemon() measure {
	return measure{
		name: "killed-daemon",
		rows: []row{seconds("daemon leader killed → another leads", atMost(5))},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
			if err != nil {
				return sample{}, err
			}
			defer f.close()
			leader, err := f.leader(ctx)
			if err != nil {
				return sample{}, err
			}
			began := time.Now()
			leader.kill(ctx)
			return nextLeader(ctx, f, leader, began)
		},
	}
}

func nextLeader(ctx context.Context, f *fleet, killed *daemonHost, began time.Time) (sample, error) {
	others := slices.DeleteFunc(slices.Clone(f.hosts), func(h *daemonHost) bool { return h == killed })
	var events []event
	done, err := poll(ctx, func(ctx context.Context) error {
		for _, h := range others {
			r, err := h.report(ctx)
			if err != nil {
				return err
			}
			if r.Leading && len(events) == 0 {
				events = append(events, at(began, time.Now(), h.id+" leads"))
			}
			if r.Leading && r.Decision != nil {
				return nil
			}
		}
		return errors.New("no other daemon leads")
	})
	return took(done.Sub(began), append(events, at(began, done, "it has looked and decided"))...), err
}
