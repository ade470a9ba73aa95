package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"etcdadm.io/internal/testetcd"
)

// idleDaemon: what three daemons cost while nothing happens, the worst of the
// three. Memory is what cannot be dropped and read again: the program's own
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
		ours: idle,
	}
}

const (
	idleSettle = 65 * time.Second // daemons look around more often in their first minute
	idleFor    = time.Minute
	idleQuick  = 20 * time.Second
)

func idle(ctx context.Context, b *bench, dir string) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	if err := pause(ctx, idleSettle); err != nil {
		return sample{}, err
	}
	span := idleFor
	if b.quick {
		span = idleQuick
	}
	before, err := f.costs()
	if err != nil {
		return sample{}, err
	}
	if err := pause(ctx, span); err != nil {
		return sample{}, err
	}
	after, err := f.costs()
	if err != nil {
		return sample{}, err
	}
	leader, err := f.leader(ctx)
	if err != nil {
		return sample{}, err
	}
	out := sample{Values: make([]float64, 3)}
	for i, h := range f.hosts {
		values := []float64{
			float64(after[i].rssKiB) / 1024,
			100 * (after[i].cpu - before[i].cpu).Seconds() / span.Seconds(),
			float64(after[i].lines - before[i].lines),
		}
		who := h.id
		if h == leader {
			who += ", which leads"
		}
		out.Events = append(out.Events, event{At: span.Seconds(), What: fmt.Sprintf("%s: %.1f MiB, %.2f %% of a core, %.0f lines", who, values[0], values[1], values[2])})
		for k, v := range values {
			out.Values[k] = max(out.Values[k], v)
		}
	}
	return out, nil
}

type cost struct {
	usage
	lines int
}

func (f *fleet) costs() ([]cost, error) {
	var out []cost
	for _, h := range f.hosts {
		u, err := usageOf(h.pid())
		if err != nil {
			return nil, err
		}
		log, err := os.ReadFile(h.log)
		if err != nil {
			return nil, err
		}
		c := cost{usage: u}
		for _, b := range log {
			if b == '\n' {
				c.lines++
			}
		}
		out = append(out, c)
	}
	return out, nil
}
