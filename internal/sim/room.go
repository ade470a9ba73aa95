package sim

import (
	"context"
	"errors"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
)

const (
	// withFills is the share of the seeds in which databases reach their quota.
	withFills = 0.3
	// fillsBegin is where the numbers of a seed for them begin.
	fillsBegin = 1 << 36
	// smallQuota is several times of what the load of a seed writes in all, so that
	// what is beyond it is the past of the one key that is filled.
	smallQuota = 4 << 20
	// fillSize is the size of a value that fills.
	fillSize = 60 << 10
)

// beginFills draws whose databases are small: those of all hosts, or of one.
func (g *generator) beginFills(seed dice) {
	x := &g.fills
	x.begin(seed, fillsBegin, withFills)
	if x.on {
		g.fillsAll = x.next().chance(0.6)
	}
}

// quotaOf is the quota of a machine that is put up now, in bytes; zero: etcd's own.
func (g *generator) quotaOf(number int) int64 {
	if !g.fills.on || !g.fillsAll && number != 0 {
		return 0
	}
	return smallQuota
}

// fill has a client write one key over and over, until it is refused or has
// written enough.
func (g *generator) fill() {
	x := &g.fills
	w := g.w
	number, pause := x.next().below(smallQuota/fillSize), x.next().within(time.Millisecond, 50*time.Millisecond)
	first := x.next()
	voters, _ := w.voters()
	if len(voters) == 0 || g.joining() {
		return
	}
	m := w.carrier(voters[first.below(len(voters))].ID)
	if m == nil {
		return
	}
	at := m.ID()
	w.count("bursts of writes")
	w.tracef("", "a client writes %d times %d bytes at %s", number, fillSize, at)
	w.loops.Go(func() {
		for i := 0; i < number && w.sleep(w.ctx, pause); i++ {
			ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
			_, err := w.etcd.Client(at).Put(ctx, "bulk", strings.Repeat("x", fillSize))
			if cancel(); err != nil {
				w.tracef("", "the client stops: %v", err)
				if errors.Is(err, etcd.ErrNoSpace) {
					w.count("bursts refused (NOSPACE)")
				}
				return
			}
		}
	})
}

// alarms are those that the members tell of, each once.
func (w *World) alarms() (out []string) { return w.etcd.Alarms() }

// full says which alarm is left that etcd's members can be rid of without a person;
// empty: none.
func (w *World) full() string {
	for _, a := range w.alarms() {
		if strings.HasPrefix(a, cluster.AlarmNoSpace) {
			return "there is an alarm: " + a
		}
	}
	return ""
}
