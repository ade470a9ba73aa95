package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/sim/fakeetcd"
)

// load is a client that writes all the time, and knows what was acknowledged.
type load struct {
	w    *World
	end  context.CancelFunc
	done chan struct{}

	mu    sync.Mutex // guards acked
	acked []ack
	tried int
}

// ack is a write that a client was told of.
type ack struct {
	key string
	fakeetcd.Written
}

// Load begins to write, a key of its own each time.
func (w *World) Load(every time.Duration) {
	ctx, end := context.WithCancel(w.ctx)
	l := &load{w: w, end: end, done: make(chan struct{})}
	w.load = l
	w.loops.Go(func() {
		defer close(l.done)
		for l.w.sleep(ctx, every+w.links.next("client").within(0, every/8)) {
			l.write(ctx)
		}
	})
}

func (l *load) hosts() []cluster.HostID {
	var out []cluster.HostID
	for _, m := range l.w.hosts() {
		out = append(out, m.ID())
	}
	return out
}

func (l *load) write(ctx context.Context) {
	hosts := l.hosts()
	if len(hosts) == 0 {
		return
	}
	l.tried++
	first := l.tried % len(hosts)
	hosts = append(hosts[first:], hosts[:first]...)
	key := fmt.Sprintf("k%05d", l.tried)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// A learner refuses, and the next host is asked.
	for _, h := range hosts {
		written, err := l.w.etcd.Client(h).Write(ctx, key, string(h))
		if err == nil {
			a := ack{key, written}
			l.mu.Lock()
			l.acked = append(l.acked, a)
			l.mu.Unlock()
			l.w.acknowledged(a)
			return
		}
		if !errors.Is(err, etcd.ErrUnreachable) && !errors.Is(err, etcd.ErrLearner) || ctx.Err() != nil {
			return
		}
	}
}

func (l *load) stop() {
	l.end()
	<-l.done
}

// Acked is how many writes were acknowledged.
func (w *World) Acked() int {
	w.load.mu.Lock()
	defer w.load.mu.Unlock()
	return len(w.load.acked)
}

// acks are the writes that clients were told of.
func (l *load) acks() []ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.acked)
}

// verifyWrites reads every write that has to be there back through a quorum.
func (w *World) verifyWrites() { w.readBack(w.required(w.load.acks())) }

// readBack reads keys through a quorum, and wants them to be there.
func (w *World) readBack(required []string) {
	hosts := w.load.hosts()
	var lost []string
	for _, key := range required {
		found := false
		var last error
		for try := 0; try < 20 && !found; try++ {
			for _, h := range hosts {
				ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
				v, err := w.etcd.Client(h).Get(ctx, key)
				cancel()
				last = err
				if err == nil {
					if !v.Found {
						lost = append(lost, key)
					}
					found = true
					break
				}
			}
			if !found && !w.sleep(w.ctx, 500*time.Millisecond) {
				return
			}
		}
		if !found {
			w.violate("acknowledged write %s cannot be read: %v", key, last)
			return
		}
	}
	if len(lost) > 0 {
		w.violate("%d of %d acknowledged writes are lost: %v", len(lost), len(required), lost[:min(8, len(lost))])
	}
}
