package main

import (
	"context"
	"time"

	"etcdadm.io/internal/testetcd"
)

// founding: from the start of three programs on empty disks to three healthy
// voters. The spec lies in the store before; the daemons issue their own
// certificates within the time.
func founding() measure {
	return measure{
		name: "founding",
		rows: []row{seconds("three hosts, nothing yet → three healthy voters", atMost(2))},
		hand: foundByHand,
		ours: foundOurs,
	}
}

func foundByHand(ctx context.Context, _ *bench, dir string) (sample, error) {
	began := time.Now()
	c, err := byHand(dir, testetcd.V37, 3)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	done, events, err := healthy(ctx, began, 3, seatsByHand(c)...)
	return took(done.Sub(began), events...), err
}

func foundOurs(ctx context.Context, b *bench, dir string) (sample, error) {
	f, err := b.newFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	began := time.Now()
	if err := f.start(); err != nil {
		return sample{}, err
	}
	done, events, err := healthy(ctx, began, 3, f.seats()...)
	events = append(events, f.decisions(ctx, began)...)
	return took(done.Sub(began), events...), err
}
