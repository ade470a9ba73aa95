package main

import (
	"context"
	"time"

	"etcdadm.io/internal/testetcd"
)

// killedFollower: from kill -9 of a follower's etcd to a linearizable read
// through it. By hand it is started again at once, as a supervisor would.
func killedFollower() measure {
	return measure{
		name: "killed-follower",
		rows: []row{seconds("kill -9 etcd, follower → healthy", atMost(0.4))},
		hand: func(ctx context.Context, _ *bench, dir string) (sample, error) {
			c, err := settledByHand(ctx, dir, testetcd.V37, 3)
			if err != nil {
				return sample{}, err
			}
			defer c.Close()
			leader, _, err := raftLeader(ctx, seatsByHand(c)...)
			if err != nil {
				return sample{}, err
			}
			began := time.Now()
			if err := killAndLaunch(ctx, c, (leader+1)%3); err != nil {
				return sample{}, err
			}
			done, events, err := healthy(ctx, began, 3, seatByHand(c, (leader+1)%3))
			return took(done.Sub(began), events...), err
		},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
			if err != nil {
				return sample{}, err
			}
			defer f.close()
			leader, _, err := raftLeader(ctx, f.seats()...)
			if err != nil {
				return sample{}, err
			}
			victim := f.hosts[(leader+1)%3]
			pid, err := victim.etcdPID()
			if err != nil {
				return sample{}, err
			}
			began := time.Now()
			if err := kill9(ctx, pid); err != nil {
				return sample{}, err
			}
			gone := at(began, time.Now(), "the process is gone")
			done, events, err := healthy(ctx, began, 3, victim.seat())
			events = append([]event{gone}, events...)
			return took(done.Sub(began), append(events, f.decisions(ctx, began)...)...), err
		},
	}
}
