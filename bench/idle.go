package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"etcdadm.io/internal/testetcd"
)

// idleDaemon: what three daemons cost while nothing happens, the worst of the
// three; by hand it is three plain members, for scale. Memory is what cannot be dropped and read again: the program's own
// pages are shared with whatever else runs it.
func idleDaemon() measure {
	return measure{
		name: "idle",
		most: 2,
		rows: []row{
			{name: "idle daemon, anonymous memory", unit: "MiB", digits: 1, target: atMost(20)},
			{name: "idle daemon, of a core", unit: "%", digits: 2, target: atMost(0.1)},
			{name: "idle daemon, log lines in that time", unit: "lines", target: atMost(0)},
		},
		hand: idleByHand,
		ours: idleOurs,
	}
}

const (
	idleSettle = 65 * time.Second // daemons look around more often in their first minute
	idleFor    = time.Minute
	idleQuick  = 20 * time.Second
)

func idleByHand(ctx context.Context, b *bench, dir string) (sample, error) {
	c, err := settledByHand(ctx, dir, testetcd.V37, 3)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	var all []idler
	for _, m := range c.Members {
		all = append(all, idler{name: m.Name, pid: m.PID(), log: m.LogFile})
	}
	return b.idle(ctx, all)
}

func idleOurs(ctx context.Context, b *bench, dir string) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	leader, err := f.leader(ctx)
	if err != nil {
		return sample{}, err
	}
	var all []idler
	for _, h := range f.hosts {
		who := idler{name: h.id, pid: h.pid(), log: h.log}
		if h == leader {
			who.name += ", which leads"
		}
		all = append(all, who)
	}
	return b.idle(ctx, all)
}

// idler is a process that should do nothing, and its log.
type idler struct {
	name string
	pid  int
	log  string
}

type cost struct {
	usage
	lines int
}

func (i idler) cost() (cost, error) {
	u, err := usageOf(i.pid)
	if err != nil {
		return cost{}, err
	}
	log, err := os.ReadFile(i.log)
	return cost{usage: u, lines: bytes.Count(log, []byte("\n"))}, err
}

// idle watches processes do nothing and gives the highest of each cost.
func (b *bench) idle(ctx context.Context, all []idler) (sample, error) {
	if err := pause(ctx, idleSettle); err != nil {
		return sample{}, err
	}
	span := idleFor
	if b.quick {
		span = idleQuick
	}
	before, err := costs(all)
	if err != nil {
		return sample{}, err
	}
	if err := pause(ctx, span); err != nil {
		return sample{}, err
	}
	after, err := costs(all)
	if err != nil {
		return sample{}, err
	}
	out := sample{Values: make([]float64, 3)}
	for i, who := range all {
		values := []float64{
			float64(after[i].rssKiB) / 1024,
			100 * (after[i].cpu - before[i].cpu).Seconds() / span.Seconds(),
			float64(after[i].lines - before[i].lines),
		}
		out.Events = append(out.Events, event{At: span.Seconds(), What: fmt.Sprintf("%s: %.1f MiB, %.2f %% of a core, %.0f lines", who.name, values[0], values[1], values[2])})
		for k, v := range values {
			out.Values[k] = max(out.Values[k], v)
		}
	}
	return out, nil
}

func costs(all []idler) ([]cost, error) {
	var out []cost
	for _, who := range all {
		c, err := who.cost()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
