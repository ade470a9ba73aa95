package host

import (
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
)

// sinceStart is what is known since the daemon began.
type sinceStart struct {
	process Process
	began   time.Time
	asked   atomic.Bool
	served  atomic.Int64 // PID of the process whose member answered a read through a quorum
}

// Asked reports whether this host has asked the others what they remember of its disk, and nothing spoke against it. It does so
// before it starts a member.
func (s *sinceStart) Asked() bool { return s.asked.Load() }

// Served tells whether the member has answered a read through a quorum since its process was started.
func (s *sinceStart) Served() bool {
	p := s.process.Status()
	return p.PID != 0 && p.State == cluster.ProcessRunning && s.served.Load() == int64(p.PID)
}
