package record

import (
	"slices"

	"etcdadm.io/cluster"
)

// DiskWord is what the others say of this host's disk since the daemon began (SAFETY.md, rule 9; docs/adr/043-how-sure-a-host-is-of-its-disk.md).
type DiskWord string

const (
	// DiskUnconfirmed: nobody who could remember it has spoken yet. After a boot silence is consent; the epoch stands still, and
	// nobody is told one, so that no word is an echo.
	DiskUnconfirmed DiskWord = ""
	// DiskConfirmed: somebody remembers it, or all other voters' hosts have spoken, and nobody remembers more than the disk itself.
	// So is a disk that was made just now.
	DiskConfirmed DiskWord = "confirmed"
	// DiskBehind: it may lack what was written on it, since somebody remembers a later epoch, or another daemon used it beside this
	// one. Its epoch stands still, so that whoever remembers more says so to the next daemon too.
	DiskBehind DiskWord = "behind"
)

// earlyMost bounds the pings that are kept until the state is read.
const earlyMost = 128

// disk is what is known of this host's disk by what others told. A Memory's lock guards it.
type disk struct {
	word   DiskWord
	spoke  []cluster.HostID // who has said what it remembers of the disk, be it nothing
	isRead bool             // the state was, or there is none
	early  []cluster.Ping   // what was told before, the last ping of each host
}

// heard takes in what a host says that it remembers of the disk; 0: nothing.
func (d *disk) heard(from cluster.HostID, remembered uint64, s State) {
	if !slices.Contains(d.spoke, from) {
		d.spoke = append(d.spoke, from)
	}
	silent := func(h cluster.HostID) bool { return h != s.Host && !slices.Contains(d.spoke, h) }
	switch {
	case remembered > s.Epoch:
		d.word = DiskBehind
	case d.word == DiskUnconfirmed && (remembered > 0 || !slices.ContainsFunc(s.Intent.VoterHosts(), silent)):
		d.word = DiskConfirmed
	}
}

// keep keeps pings that come before the state is read.
func (d *disk) keep(pings []cluster.Ping) {
	for _, p := range pings {
		if i := slices.IndexFunc(d.early, func(o cluster.Ping) bool { return o.Host == p.Host }); i >= 0 {
			d.early[i] = p
		} else if len(d.early) < earlyMost {
			d.early = append(d.early, p)
		}
	}
}

// read says that the state is read, and gives what came before.
func (d *disk) read() []cluster.Ping {
	early := d.early
	d.isRead, d.early = true, nil
	return early
}

// Disk is what the others say of this disk.
func (m *Memory) Disk() DiskWord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.word
}

// Told is the epoch that others are told, of a state; 0: none.
func (m *Memory) Told(s State) uint64 {
	if m.Disk() == DiskUnconfirmed {
		return 0
	}
	return s.Epoch
}

// WentBack tells whether this disk may lack what was written on it.
func (m *Memory) WentBack() bool { return m.Disk() == DiskBehind }

// FallBehind says that this disk may lack what was written on it.
func (m *Memory) FallBehind() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.word = DiskBehind
}

// NewDisk is for a host that goes on as a new disk, or begins with one, which nobody remembers.
func (m *Memory) NewDisk() {
	m.mu.Lock()
	m.disk.word, m.disk.spoke = DiskConfirmed, nil
	early := m.disk.read()
	m.mu.Unlock()
	m.notes.Clear("disk-went-back")
	m.Remember(early)
}
