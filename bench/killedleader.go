package main

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"etcdadm.io/internal/testetcd"
)

// killedLeader: from kill -9 of the raft leader's etcd until the cluster takes
// a write and the member answers a linearizable read. Most of it is raft's
// election, which is random between one and two election timeouts.
func killedLeader() measure {
	return measure{
		name: "killed-leader",
		rows: []row{seconds("kill -9 etcd, raft leader → cluster takes writes and member healthy", overByHand(0.3))},
		hand: func(ctx context.Context, _ *bench, dir string) (sample, error) {
			c, err := settledByHand(ctx, dir, testetcd.V37, 3)
			if err != nil {
				return sample{}, err
			}
			defer c.Close()
			return killLeader(ctx, seatsByHand(c), func(leader int) error { return killAndLaunch(ctx, c, leader) })
		},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
			if err != nil {
				return sample{}, err
			}
			defer f.close()
			began := time.Now()
			s, err := killLeader(ctx, f.seats(), func(leader int) error {
				pid, err := f.hosts[leader].etcdPID()
				if err != nil {
					return err
				}
				began = time.Now()
				return kill9(ctx, pid)
			})
			s.Events = append(s.Events, f.decisions(ctx, began)...)
			return s, err
		},
	}
}

// killAndLaunch kills a plain member and starts it again at once.
func killAndLaunch(ctx context.Context, c *testetcd.Cluster, i int) error {
	if err := c.Kill(ctx, i, syscall.SIGKILL); err != nil {
		return err
	}
	return c.Launch(ctx, i)
}

// killLeader measures from the kill on; both sides are watched alike.
func killLeader(ctx context.Context, seats []seat, kill func(leader int) error) (sample, error) {
	leader, term, err := raftLeader(ctx, seats...)
	if err != nil {
		return sample{}, err
	}
	other := seats[(leader+1)%len(seats)]
	v, err := other.open()
	if err != nil {
		return sample{}, err
	}
	defer v.close()
	began := time.Now()
	if err := kill(leader); err != nil {
		return sample{}, err
	}
	type answer struct {
		at  time.Time
		err error
	}
	wrote := make(chan answer, 1)
	go func() {
		t, err := poll(ctx, func(ctx context.Context) error { return v.write(ctx, term) })
		wrote <- answer{t, err}
	}()
	done, events, err := healthy(ctx, began, len(seats), seats[leader])
	w := <-wrote
	if err := errors.Join(err, w.err); err != nil {
		return sample{}, err
	}
	events = append(events, at(began, w.at, "a write passes through "+other.name))
	return took(slices.MaxFunc([]time.Time{done, w.at}, time.Time.Compare).Sub(began), events...), nil
}
