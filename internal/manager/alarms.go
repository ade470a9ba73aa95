package manager

import (
	"context"
	"slices"
	"time"

	"etcdadm.io/internal/wake"
)

// watchAlarms wakes the leader's loop when the alarms of its own member change, until
// ctx ends. Raft has every member tell of every alarm, so the leader need not hear of
// one from the member that raised it, and the others ask nobody; without a member of
// its own it sees one at its next look.
func (m *Manager) watchAlarms(ctx context.Context) {
	t := time.NewTicker(m.o.Intervals.Alarms)
	defer t.Stop()
	var last []string
	for {
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		if ctx.Err() != nil {
			return
		}
		now, ok := m.o.Local.Alarms(ctx)
		if ok && !slices.Equal(now, last) {
			last = now
			wake.Up(m.wake)
		}
	}
}
