package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// growing: a running cluster of one voter becomes three. Ours is told by a
// change of the spec, and the clock starts before that is written; the hosts
// and daemons are there already. By hand the processes are started as well.
func growing(name, version string) measure {
	return measure{
		name: name,
		rows: []row{seconds("spec 1→3 on a running cluster, etcd "+version, overByHand(1.5))},
		hand: func(ctx context.Context, _ *bench, dir string) (sample, error) {
			return growByHand(ctx, dir, version)
		},
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			f, err := b.settledFleet(ctx, dir, version, 3, 1)
			if err != nil {
				return sample{}, err
			}
			defer f.close()
			began := time.Now()
			if err := b.configure(ctx, f.store(), 3, version); err != nil {
				return sample{}, err
			}
			told := at(began, time.Now(), "the spec is written")
			done, events, err := healthy(ctx, began, 3, f.seats()...)
			events = append([]event{told}, events...)
			return took(done.Sub(began), append(events, f.decisions(ctx, began)...)...), err
		},
	}
}

func growByHand(ctx context.Context, dir, version string) (sample, error) {
	c, err := settledByHand(ctx, dir, version, 1)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	client, err := c.NewClient(0)
	if err != nil {
		return sample{}, err
	}
	defer client.Close()
	began := time.Now()
	var events []event
	if version == testetcd.V35 { // it takes one learner at a time
		for range 2 {
			i, err := joinByHand(ctx, c, client)
			if err != nil {
				return sample{}, err
			}
			events = append(events, at(began, time.Now(), c.Members[i].Name+" is promoted"))
		}
	} else if events, err = learnersByHand(ctx, c, client, began); err != nil {
		return sample{}, err
	}
	done, more, err := healthy(ctx, began, 3, runningByHand(c)...)
	return took(done.Sub(began), append(events, more...)...), err
}

// learnersByHand adds both learners before the first is promoted, after which
// etcd would have all be connected for 5 s before the next add.
func learnersByHand(ctx context.Context, c *testetcd.Cluster, client *clientv3.Client, began time.Time) ([]event, error) {
	var events []event
	for range 2 {
		i, err := c.Join(ctx)
		if err != nil {
			return nil, err
		}
		events = append(events, at(began, time.Now(), c.Members[i].Name+" serves as a learner"))
	}
	for i := 1; i <= 2; i++ {
		if err := promoteByHand(ctx, c, client, i); err != nil {
			return nil, err
		}
		events = append(events, at(began, time.Now(), c.Members[i].Name+" is promoted"))
	}
	return events, nil
}
