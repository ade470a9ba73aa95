package manager

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// watchedLink notes who pings whom and when, and can let pings hang.
type watchedLink struct {
	link
	seen *pingLog
}

type pingLog struct {
	mu    sync.Mutex
	awake map[cluster.HostID][]time.Time     // a host pinged or was pinged
	pairs map[[2]cluster.HostID][]time.Time  // sorted pairs
	hang  map[cluster.HostID]bool            // does not answer
	ended map[cluster.HostID][]time.Duration // how long the pings took that hung
}

func newPingLog() *pingLog {
	return &pingLog{
		awake: map[cluster.HostID][]time.Time{}, pairs: map[[2]cluster.HostID][]time.Time{},
		hang: map[cluster.HostID]bool{}, ended: map[cluster.HostID][]time.Duration{},
	}
}

// watch is an option of a node.
func (l *pingLog) watch(o *Options) { o.Network = watchedLink{o.Network.(link), l} }

func (n watchedLink) Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) {
	to, now := cluster.HostID(endpoint[:1]), time.Now()
	n.seen.mu.Lock()
	n.seen.awake[n.from] = append(n.seen.awake[n.from], now)
	n.seen.awake[to] = append(n.seen.awake[to], now.Add(time.Millisecond))
	n.seen.pairs[pair(n.from, to)] = append(n.seen.pairs[pair(n.from, to)], now)
	hang := n.seen.hang[to]
	n.seen.mu.Unlock()
	if !hang {
		return n.link.Ping(ctx, endpoint, p)
	}
	<-ctx.Done()
	n.seen.mu.Lock()
	n.seen.ended[to] = append(n.seen.ended[to], time.Since(now))
	n.seen.mu.Unlock()
	return cluster.Ping{}, ctx.Err()
}

// forget begins to count anew.
func (l *pingLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.awake)
	clear(l.pairs)
}

// wakes counts the moments of a host's times that lie apart.
func wakes(at []time.Time) (n int) {
	at = slices.SortedFunc(slices.Values(at), time.Time.Compare)
	for i := range at {
		if i == 0 || at[i].Sub(at[i-1]) > 20*time.Millisecond {
			n++
		}
	}
	return n
}

// Daemons that started at odd times all ping in one rhythm: each wakes up once
// in a beat, and each pair exchanges one ping in it, never two.
func TestPingsAreInStep(t *testing.T) {
	const beats = 60
	bubble(t, func(t *testing.T, w *world) {
		seen := newPingLog()
		seeded := func(o *Options) { o.Seeds = seeds{"a", "b", "c", "d", "e"} }
		for i, id := range []cluster.HostID{"d", "b", "e", "a", "c"} {
			n := w.add(id, seeded, seen.watch)
			time.Sleep(time.Duration(i) * 710 * time.Millisecond)
			w.run(n)
		}
		w.until(5*time.Second, "one leads alone", func() bool { return len(w.leaders()) == 1 })
		time.Sleep(quickFor + 10*time.Second)
		seen.forget()
		time.Sleep(beats * w.nodes["a"].o.Intervals.Idle)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for id := range w.nodes {
			if n := wakes(seen.awake[id]); n > beats*11/10 {
				t.Errorf("%s woke up %d times for pings in %d beats", id, n, beats)
			}
		}
		if len(seen.pairs) != 10 {
			t.Errorf("%d pairs talk, of 10", len(seen.pairs))
		}
		for p, at := range seen.pairs {
			if n := len(at); n > beats*11/10 || n < beats*8/10 {
				t.Errorf("%s and %s exchanged %d pings in %d beats", p[0], p[1], n, beats)
			}
			for i := 1; i < len(at); i++ {
				if gap := at[i].Sub(at[i-1]); gap > w.nodes["a"].o.Intervals.Idle*5/4+50*time.Millisecond {
					t.Errorf("%s and %s were silent for %s", p[0], p[1], gap)
				}
			}
		}
	})
}

// A ping that is not answered ends at its bound, without a timer of its own,
// and another daemon leads in time.
func TestPingEndsAtItsBound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		seen := newPingLog()
		w.three(seen.watch)
		w.untilLeads(time.Second, "a")
		time.Sleep(quickFor + 4*time.Second)
		w.sever("a", "b", true) // a cannot reach them either
		w.sever("a", "c", true)
		seen.mu.Lock()
		seen.hang["a"] = true
		seen.mu.Unlock()
		took := w.until(4*time.Second, "b leads", func() bool {
			_, leading, _ := w.nodes["b"].gossip.Leader()
			return leading
		})
		t.Logf("another leads after %s", took)
		time.Sleep(10 * time.Second)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.ended["a"]) == 0 {
			t.Fatal("no ping hung")
		}
		bound := w.nodes["b"].o.Intervals.PingTimeout
		for _, d := range seen.ended["a"] {
			if d < bound || d > bound+50*time.Millisecond {
				t.Errorf("a ping without an answer took %s, its bound is %s", d, bound)
			}
		}
	})
}
