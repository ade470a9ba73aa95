package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
)

// silentBoot is a machine whose member ran, after a boot at which nobody says anything; the peers that it remembers are given.
func silentBoot(t *testing.T, voters []cluster.Voter, peers []record.Peer, with ...func(*session, *host.Options)) (*machine, *daemon) {
	m, d := started(t)
	d.end()
	m.running, m.pid = nil, 0
	m.edit(func(s *record.State) {
		s.Intent = &cluster.Intent{Name: "test", Generation: 1, Nonce: "n1", Token: s.Local.Token, State: cluster.IntentFounded, Voters: voters}
		s.Peers = peers
	})
	quiet := func(_ *session, o *host.Options) {
		o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return nil }
	}
	return m, m.boot(append([]func(*session, *host.Options){quiet}, with...)...)
}

func runs(m *machine) bool {
	is, _ := m.process()
	return is
}

func tells(s record.State, epoch uint64) []cluster.Ping {
	return []cluster.Ping{{Cluster: "test", Host: "h2", Disk: "d2", Epoch: 1, RememberedDisk: s.Disk, Remembered: epoch}}
}

var (
	two = []cluster.Voter{{Host: "h1", Member: 9}, {Host: "h2", Member: 2}}
	h2  = []record.Peer{{Host: "h2", Disk: "d2", Epoch: 1, Address: "h2:1"}}
)

// The epoch of a disk that nobody has confirmed since the daemon began stands still: what others remember of it is not caught up with,
// however late they come.
func TestEpochWaitsForAWord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := silentBoot(t, two, h2)
		defer d.end()
		synctest.Wait()
		before := m.state()
		later(time.Hour)
		if s := m.state(); s.Epoch != before.Epoch || !runs(m) {
			t.Fatalf("epoch %d, was %d; it runs: %v", s.Epoch, before.Epoch, runs(m))
		}
		d.Remember(tells(before, before.Epoch))
		later(21 * time.Second)
		if s := m.state(); s.Epoch != before.Epoch+2 || s.Disk != before.Disk {
			t.Errorf("epoch %d, was %d", s.Epoch, before.Epoch)
		}
	})
}

// A disk is behind for whoever is heard after the start too: its epoch stands still, so that the next daemon hears it as well, and gives
// the disk up. The member that serves by then goes on.
func TestDiskIsSaidToBeBehindAfterTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := silentBoot(t, two, h2)
		synctest.Wait()
		before := m.state()
		later(time.Hour)
		d.Remember(tells(before, before.Epoch+10))
		later(time.Hour)
		if s := m.state(); s.Epoch != before.Epoch || s.Disk != before.Disk || !runs(m) || !d.WentBack() {
			t.Errorf("epoch %d, was %d; disk %s, was %s; it runs: %v", s.Epoch, before.Epoch, s.Disk, before.Disk, runs(m))
		}
		d.end()
		m.running, m.pid = nil, 0
		d = m.boot(func(_ *session, o *host.Options) {
			o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return tells(before, before.Epoch+10) }
		})
		defer d.end()
		synctest.Wait()
		if s := m.state(); s.Disk == before.Disk || runs(m) {
			t.Errorf("the next daemon: disk %s; it runs: %v", s.Disk, runs(m))
		}
	})
}

// Who did not know the disk before tells nothing of it: a host that is unconfirmed tells no epoch, so that nobody gives its own word back.
// Once all other voters' hosts have spoken, it goes on.
func TestAnEchoIsNoWord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := silentBoot(t, append(two, cluster.Voter{Host: "h3", Member: 3}), h2)
		defer d.end()
		synctest.Wait()
		before := m.state()
		if id := d.Identity(); id.Epoch != 0 || id.Disk != before.Disk {
			t.Errorf("it tells epoch %d of disk %s", id.Epoch, id.Disk)
		}
		for _, from := range []cluster.HostID{"h2", "h3"} {
			later(11 * time.Second)
			if s := m.state(); s.Epoch != before.Epoch {
				t.Errorf("before %s has spoken: epoch %d, was %d", from, s.Epoch, before.Epoch)
			}
			d.Remember([]cluster.Ping{{Cluster: "test", Host: from, RememberedDisk: before.Disk, Remembered: d.Identity().Epoch}})
		}
		later(11 * time.Second)
		if s := m.state(); s.Epoch != before.Epoch+1 || d.Identity().Epoch != s.Epoch {
			t.Errorf("epoch %d, was %d, and it tells %d", s.Epoch, before.Epoch, d.Identity().Epoch)
		}
	})
}

// A host that has no address of a voter, or knows nobody at all, waits for their calls before it starts its member.
func TestWaitsForCallsOfThoseWhomItCannotAsk(t *testing.T) {
	for name, c := range map[string]struct {
		voters []cluster.Voter
		peers  []record.Peer
		waits  bool
	}{
		"it has the addresses":       {two, h2, false},
		"a voter without an address": {two, []record.Peer{{Host: "h3", Disk: "d3", Epoch: 1, Address: "h3:1"}}, true},
		"it knows nobody":            {two[:1], nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, tell := range []bool{false, true} {
				bubble(t, func(t *testing.T) {
					m, d := silentBoot(t, c.voters, c.peers)
					defer d.end()
					before := m.state()
					later(5 * time.Second)
					if got := !runs(m); got != c.waits {
						t.Fatalf("it waits: %v", got)
					}
					if !c.waits {
						return
					}
					if tell {
						d.Remember(tells(before, before.Epoch+1))
					}
					later(2 * time.Second)
					if s := m.state(); (s.Disk != before.Disk) != tell || runs(m) == tell {
						t.Errorf("it was told: %v; disk %s, was %s; it runs: %v", tell, s.Disk, before.Disk, runs(m))
					}
				})
			}
		})
	}
}

// What others tell before the state is read counts once it is.
func TestToldBeforeTheStateIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.running, m.pid = nil, 0
		before := m.state()
		s := m.session()
		o := m.options(s)
		o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return nil }
		h := host.New(o)
		h.Remember(tells(before, before.Epoch+1))
		ctx, cancel := context.WithCancel(t.Context())
		d = &daemon{Host: h, session: s, t: t, cancel: cancel, ended: make(chan error, 1)}
		go func() { d.ended <- d.Run(ctx) }()
		defer d.end()
		synctest.Wait()
		if s := m.state(); s.Disk == before.Disk || runs(m) {
			t.Errorf("disk %s; it runs: %v", s.Disk, runs(m))
		}
	})
}

// A host that goes on as a new disk gives up what it promised by the one before, unless that one was confirmed: no
// later word is about it.
func TestNewDiskOfAnUnconfirmedOne(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m, d := started(t)
			d.end()
			m.running, m.pid = nil, 0
			m.edit(func(s *record.State) {
				s.Intent = &cluster.Intent{Name: "test", Generation: 1, Nonce: "n1", Token: s.Local.Token, State: cluster.IntentFounded, Voters: two}
				s.Peers = h2
			})
			was, forgot := m.state(), 0
			m.disk.data["t1"].wal = false
			d = m.boot(func(_ *session, o *host.Options) {
				o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping {
					if confirmed {
						return tells(was, was.Epoch)
					}
					return nil
				}
				o.Forgets = func(context.Context) error { forgot++; return nil }
			})
			defer d.end()
			later(time.Second)
			if s := m.state(); s.Disk == was.Disk || (forgot == 0) != confirmed {
				t.Errorf("confirmed: %v; disk %s, was %s; it gave its promises up %d times", confirmed, s.Disk, was.Disk, forgot)
			}
		})
	}
}

// The daemon of a host whose etcd runs since the disk was confirmed needs no word.
func TestDiskOfAnEtcdThatRunsOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		later(21 * time.Second) // confirmed, and written down
		d.end()
		d = m.boot(func(_ *session, o *host.Options) {
			o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return nil }
		})
		synctest.Wait()
		if !d.Sure() || !runs(m) {
			t.Errorf("sure %v; it runs: %v", d.Sure(), runs(m))
		}
		d.end()
		m.running, m.pid = nil, 0 // a boot
		d = m.boot(func(_ *session, o *host.Options) {
			o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return nil }
		})
		later(10 * time.Second)
		if d.Sure() || !runs(m) {
			t.Errorf("after a boot: sure %v; it runs: %v", d.Sure(), runs(m))
		}
		d.end()
		d = m.boot() // its etcd was started by consent
		defer d.end()
		synctest.Wait()
		if d.Sure() || !runs(m) {
			t.Errorf("an etcd that was started by consent runs: sure %v; it runs: %v", d.Sure(), runs(m))
		}
	})
}
