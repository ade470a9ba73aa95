package manager

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Who is told of a double: each way in which two daemons can have one host ID, by what others hear of the first, and when.
func TestDoubles(t *testing.T) {
	const (
		here  = "boot-1/5/1"
		there = "boot-2/5/1"
	)
	first := cluster.Ping{Host: "a", Endpoint: "192.0.2.1:8000", Place: here, Epoch: 7}
	asks := cluster.Ping{Host: "a", Endpoint: "192.0.2.9:8000", Place: there, Epoch: 7, Asks: true}
	with := func(p cluster.Ping, change func(*cluster.Ping)) cluster.Ping {
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		first []cluster.Ping // one every ten seconds, the last one right before
		after time.Duration
		asks  cluster.Ping
		told  bool
	}{
		"nobody was heard":                 {asks: asks},
		"heard a moment ago":               {first: []cluster.Ping{first}, asks: asks, told: true},
		"silent, and its etcd may go on":   {first: []cluster.Ping{first}, after: 19 * time.Second, asks: asks, told: true},
		"silent for long":                  {first: []cluster.Ping{first}, after: 20 * time.Second, asks: asks},
		"it said that it ends":             {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Leaving = true })}, after: 4 * time.Second, asks: asks},
		"it ends right now":                {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Leaving = true })}, after: 3 * time.Second, asks: asks, told: true},
		"the same place":                   {first: []cluster.Ping{first}, asks: with(asks, func(p *cluster.Ping) { p.Place = here })},
		"another disk of the same machine": {first: []cluster.Ping{first}, asks: with(asks, func(p *cluster.Ping) { p.Place, p.Endpoint = "boot-1/9/9", first.Endpoint })},
		"a copy on the same machine":       {first: []cluster.Ping{first}, asks: with(asks, func(p *cluster.Ping) { p.Place = "boot-1/9/9" }), told: true},
		"the same address on another machine": {
			first: []cluster.Ping{first}, asks: with(asks, func(p *cluster.Ping) { p.Endpoint = first.Endpoint }), told: true,
		},
		"the first is of an earlier release":      {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Place = "" })}, asks: asks, told: true},
		"an earlier release, at the same address": {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Place = "" })}, asks: with(asks, func(p *cluster.Ping) { p.Endpoint = first.Endpoint })},
		"another host":        {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Host = "b" })}, asks: asks},
		"the first only asks": {first: []cluster.Ping{with(first, func(p *cluster.Ping) { p.Asks = true })}, asks: asks},
		"it writes nothing any more": {
			first: []cluster.Ping{first, first, first, first, first, first}, asks: asks,
		},
		"it writes": {
			first: []cluster.Ping{first, first, first, first, with(first, func(p *cluster.Ping) { p.Epoch++ }), with(first, func(p *cluster.Ping) { p.Epoch++ })},
			asks:  asks, told: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, now := newDoubles(), time.Now()
			for _, p := range c.first {
				now = now.Add(10 * time.Second)
				d.hear(p, now)
			}
			now = now.Add(c.after)
			e := d.beside(c.asks, now)
			if (e != nil) != c.told || e != nil && (e.Endpoint != first.Endpoint || e.Ago != c.after) {
				t.Errorf("told of %+v, want %t", e, c.told)
			}
			if speaks := d.hear(c.asks, now); speaks == c.told {
				t.Errorf("speaks for its host: %t", speaks)
			}
			if c.told && d.beside(first, now) != nil {
				t.Error("the first is told of one that only asks")
			}
		})
	}
}

// What others told counts for as long as they are heard, and the newest word tells when the double was heard.
func TestReportsOfDoubles(t *testing.T) {
	d, now := newDoubles(), time.Now()
	if d.elsewhere(now) != nil {
		t.Error("before anybody was asked")
	}
	d.told("b", &cluster.Elsewhere{Endpoint: "x", Ago: 3 * time.Second}, now)
	d.told("c", &cluster.Elsewhere{Endpoint: "x", Ago: time.Second}, now)
	d.told("d", nil, now)
	if e := d.elsewhere(now.Add(time.Second)); e == nil || e.Ago != 2*time.Second {
		t.Errorf("%+v", e)
	}
	d.told("c", nil, now.Add(time.Second))
	if e := d.elsewhere(now.Add(time.Second)); e == nil || e.Ago != 4*time.Second {
		t.Errorf("%+v", e)
	}
	if e := d.elsewhere(now.Add(reportFor)); e != nil {
		t.Errorf("of who is not heard any more: %+v", e)
	}
}
