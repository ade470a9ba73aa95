package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/internal/testetcd"
)

const (
	// stallBefore is how long a client writes before the backup is asked for.
	stallBefore = 2 * time.Second
	// writePause is between two writes of the client: one that Kubernetes' leases
	// keep busy writes more often, and would measure its own queue.
	writePause = 5 * time.Millisecond
	// stallOver is what a write may take longer, and still not measurably so: the
	// disk's own hiccups differ by more from run to run.
	stallOver = 0.05
)

// writeStall: a client writes through raft's leader while a backup is taken of a
// follower; beside it, the same client on the same kind of cluster for as long,
// and nothing happens there.
func writeStall() measure {
	return measure{
		name: "stall",
		most: 3,
		rows: []row{
			{name: "a client's longest write while a backup is taken", unit: "s", digits: 3, target: overByHand(stallOver)},
		},
		hand: func(ctx context.Context, b *bench, dir string) (sample, error) { return stalled(ctx, b, dir, false) },
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) { return stalled(ctx, b, dir, true) },
	}
}

func stalled(ctx context.Context, b *bench, dir string, backedUp bool) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	if err := fill(ctx, f.hosts[0].seat(), b.size); err != nil {
		return sample{}, err
	}
	if err := pause(ctx, settle); err != nil {
		return sample{}, err
	}
	leader, _, err := raftLeader(ctx, f.seats()...)
	if err != nil {
		return sample{}, err
	}
	// Both sides write for the same time: the longest of more writes is longer.
	window := stallBefore + max(10*time.Second, time.Duration(b.size)*time.Second/45)
	began := time.Now()
	writing, stop := context.WithDeadline(ctx, began.Add(window))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.backUpDuring(writing, backedUp) }()
	took, err := writeThrough(writing, f.hosts[leader].seat())
	if failed := <-done; failed != nil {
		return sample{}, failed
	}
	if err != nil {
		return sample{}, err
	}
	slices.Sort(took)
	worst, common := took[len(took)-1].Seconds(), took[len(took)*99/100].Seconds()
	said := event{What: fmt.Sprintf("%d writes in %s, 99 in a hundred of them within %.3f s", len(took), window, common)}
	return sample{Values: []float64{worst}, Events: append(f.decisions(context.WithoutCancel(ctx), began), said)}, nil
}

// backUpDuring has a backup taken that must end before ctx does.
func (f *fleet) backUpDuring(ctx context.Context, wanted bool) error {
	if !wanted {
		return nil
	}
	if err := pause(ctx, stallBefore); err != nil {
		return err
	}
	_, err := f.backup(ctx)
	return err
}

// writeThrough writes through a member until ctx ends, and gives how long each
// write took.
func writeThrough(ctx context.Context, s seat) ([]time.Duration, error) {
	v, err := s.open()
	if err != nil {
		return nil, err
	}
	defer v.close()
	value := make([]byte, 1000)
	var took []time.Duration
	for i := 0; ; i++ {
		began := time.Now()
		callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), watchFor) // one that was begun counts
		_, err := v.kv.Put(callCtx, &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "client/%04d", i%1000), Value: value})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("write through %s: %w", s.name, err)
		}
		if i > 0 { // the first one connects
			took = append(took, time.Since(began))
		}
		if pause(ctx, writePause) != nil {
			if len(took) == 0 {
				return nil, context.Cause(ctx)
			}
			return took, nil
		}
	}
}
