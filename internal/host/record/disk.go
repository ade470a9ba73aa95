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
	// DiskConfirmed: a host remembers it as of its last minutes, or enough voters' hosts have spoken, and no host
	// remembers more than the disk itself. So is a disk that was made just now, and one whose etcd still runs since it
	// was confirmed.
	DiskConfirmed DiskWord = "confirmed"
	// DiskBehind: it may lack what was written on it, since somebody remembers a later epoch, or another daemon used it beside this
	// one. Its epoch stands still, so that whoever remembers more says so to the next daemon too.
	DiskBehind DiskWord = "behind"
)

const (
	// earlyMost bounds the pings that are kept until the state is read.
	earlyMost = 128
	// staleMost is how many epochs below the disk's own a host may remember and confirm it: 15 min. A host that
	// remembers less was away when the disk was written last, and cannot tell an image from the original.
	staleMost = 90
)

// disk is what is known of this host's disk by what others told. A Memory's lock guards it.
type disk struct {
	word   DiskWord
	spoke  []cluster.HostID // who has said what it remembers of the disk, be it nothing
	isRead bool             // the state was, or there is none
	early  []cluster.Ping   // what was told before, the last ping of each host
	// vouched says that a person vouches for an unconfirmed disk. It changes no epoch: what others remember still
	// counts when they come.
	vouched bool
}

// heard takes in what a host says that it remembers of the disk; 0: nothing.
func (d *disk) heard(from cluster.HostID, remembered uint64, s State) {
	if !slices.Contains(d.spoke, from) {
		d.spoke = append(d.spoke, from)
	}
	switch {
	case remembered > s.Epoch:
		d.word = DiskBehind
	case d.word == DiskUnconfirmed && (remembered > 0 && remembered+staleMost >= s.Epoch || d.enough(s)):
		d.word = DiskConfirmed
	}
}

// enough tells whether so many other voters' hosts have spoken that each quorum with this host's member has one of
// them: what this disk took part in, one of them has seen.
func (d *disk) enough(s State) bool {
	hosts := s.Intent.VoterHosts()
	others, spoke := 0, 0
	for _, h := range hosts {
		if h != s.Host {
			others++
		}
		if h != s.Host && slices.Contains(d.spoke, h) {
			spoke++
		}
	}
	return spoke >= min(len(hosts)-cluster.Quorum(len(hosts))+1, others)
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

// Sure tells whether this disk is known to have all that was written on it: it is confirmed, or a person vouches for
// it. Only such a host keeps the record (SAFETY.md, rule 29; docs/adr/050-only-a-confirmed-disk-keeps-the-record.md).
func (m *Memory) Sure() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.word == DiskConfirmed || m.disk.word == DiskUnconfirmed && m.disk.vouched
}

// Unheard are the other voters' hosts that have not said yet what they remember of the disk.
func (m *Memory) Unheard() (out []cluster.HostID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.keeper.Now()
	for _, h := range s.Intent.VoterHosts() {
		if h != "" && h != s.Host && !slices.Contains(m.disk.spoke, h) {
			out = append(out, h)
		}
	}
	return out
}

// Vouch has an unconfirmed disk count as sure until this daemon ends or another host remembers more, as a person says
// who knows that no older copy of it was put back. It reports whether it does.
func (m *Memory) Vouch() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk.word == DiskBehind {
		return false
	}
	m.disk.vouched = true
	return true
}

// Heard takes in what another host remembers of this host's disk, as its calls and answers say beside its pings.
func (m *Memory) Heard(from cluster.HostID, disk cluster.DiskID, epoch uint64) {
	if s := m.keeper.Now(); disk != "" && disk == s.Disk {
		m.Remember([]cluster.Ping{{Cluster: s.Cluster, Host: from, RememberedDisk: disk, Remembered: epoch}})
	}
}

// Runs takes in that the process of the last launch was found running. A disk that was confirmed under that launch is
// still the same: no image of it was put back below a process that uses it.
func (m *Memory) Runs(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.disk.word == DiskUnconfirmed && s.Launch != nil && s.Confirmed == s.Launch.Nonce {
		m.disk.word = DiskConfirmed
	}
}

// FallBehind says that this disk may lack what was written on it.
func (m *Memory) FallBehind() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.word = DiskBehind
}

// NewDisk is for a host that goes on as a new disk, or begins with one, which nobody remembers.
func (m *Memory) NewDisk() {
	m.mu.Lock()
	m.disk.word, m.disk.spoke, m.disk.vouched = DiskConfirmed, nil, false
	early := m.disk.read()
	m.mu.Unlock()
	m.notes.Clear("disk-went-back")
	m.Remember(early)
}
