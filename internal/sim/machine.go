package sim

import (
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/sim/fakeetcd"
)

// machine is a place that can run one member. Its identity can change; its
// name and address do not.
type machine struct {
	w       *World
	name    string
	address string
	daemon  atomic.Pointer[daemon]
	gone    atomic.Bool // for good
	clock   clock
	slow    atomic.Int64 // nanoseconds that each write to the disk takes
	plain   atomic.Bool  // the next daemon knows of no TLS between members
	quota   int64        // of its members' databases, in bytes; zero: etcd's own
	// elsewhere: no daemon of ours is ever there. without: none is yet.
	elsewhere bool
	without   atomic.Bool
	off       atomic.Bool            // it has no power
	record    atomic.Int32           // which control record its daemon has; those of another one refuse it
	typing    atomic.Pointer[daemon] // the command that a person runs there

	ident atomic.Pointer[cluster.HostID]
	store atomic.Pointer[memory.Store] // nil: the world's

	mu      sync.Mutex // guards what follows
	daemons int
	disk    *disk
	proc    *fakeetcd.Proc // the process that was started last
	procDir *dir
	asked   bool // its end was asked for
	// theirs is what else runs etcd here, and procTheirs that it started proc.
	theirs     theirs
	procTheirs bool
	trusts     bool // it has the certificates of its peers
	pids       int
	kept       []image
	// releases are installed, and those in broken end when they are started.
	releases []cluster.Version
	broken   []cluster.Version
	failing  []cluster.Version // were in broken at some time
}

// image is a snapshot of a disk.
type image struct {
	at   time.Time
	disk *disk
}

// ID is the host's ID now.
func (m *machine) ID() cluster.HostID { return *m.ident.Load() }

func (m *machine) become(id cluster.HostID) { m.ident.Store(&id) }

// member is the ID of the member that the machine's state names; zero: none.
func (m *machine) member() cluster.MemberID {
	s, _ := m.state()
	return s.Local.Member
}

func (m *machine) endpoint() string { return m.address + ":8000" }

// urls are where a member listens that the next daemon starts.
func (m *machine) urls() cluster.URLs {
	scheme := "https://"
	if m.plain.Load() {
		scheme = "http://"
	}
	return cluster.URLs{
		Peer:       []string{scheme + m.address + ":2380"},
		Client:     []string{scheme + m.address + ":4001"},
		Quarantine: []string{scheme + m.address + ":8001"},
	}
}

// starts counts the processes that were started on the machine.
func (m *machine) starts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pids
}

func (m *machine) slowness() time.Duration { return time.Duration(m.slow.Load()) }

func (m *machine) dir(token string) *dir {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.dirs[token]
}

// running is the machine's etcd process, if one runs.
func (m *machine) running() *fakeetcd.Proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && m.proc.Exit() == "" {
		return m.proc
	}
	return nil
}
