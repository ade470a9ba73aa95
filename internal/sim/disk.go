package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// disk is what of a machine survives everything but a fault of the disk.
type disk struct {
	state []byte // JSON; nil: none
	dirs  map[string]*dir
	aside []*dir
	moved int // counts what was set aside
	// keeper are the files of what the host keeps of the record, and own its copies of backups.
	keeper map[string][]byte
	own    *memory.Store
	// staged is what was made ready for generations to come, by token. None of
	// it ever ran.
	staged map[string]*dir
	// left is the state file of etcd-manager, and admission what adopt --join wrote.
	left      *record.PredecessorState
	admission *record.Admission
}

// dir is a data directory. One that a fault took away is marked as lost.
type dir struct {
	token string
	mark  cluster.DiskID
	data  *fakeetcd.Data
	note  cluster.SetAside // once set aside
	lost  bool             // a fault took it
	stale bool             // a fault put an older content here
}

func newDisk() *disk {
	return &disk{dirs: map[string]*dir{}, staged: map[string]*dir{}, keeper: map[string][]byte{}, own: memory.New()}
}

// snapshot copies the disk as a file-system snapshot would; m.mu is held.
func (m *machine) snapshot() *disk {
	d := m.disk
	c := &disk{state: slices.Clone(d.state), dirs: map[string]*dir{}, aside: slices.Clone(d.aside), moved: d.moved, staged: map[string]*dir{}, left: d.left, admission: d.admission, keeper: maps.Clone(d.keeper), own: memory.New()}
	for key, data := range objectsOf(d.own) {
		_, _ = blob.PutBytes(m.w.ctx, c.own, key, data, blob.Any) // it is in memory
	}
	for token, x := range d.staged {
		y := *x
		y.data = m.w.etcd.CloneData(x.data)
		c.staged[token] = &y
	}
	for token, x := range d.dirs {
		y := *x
		y.data = m.w.etcd.CloneData(x.data)
		c.dirs[token] = &y
	}
	return c
}

// objectsOf is all that a store in memory has.
func objectsOf(s *memory.Store) map[string][]byte {
	out := map[string][]byte{}
	infos, _ := s.List(context.Background(), "")
	for _, i := range infos {
		out[i.Key], _, _ = blob.ReadAll(context.Background(), s, i.Key, 1<<20)
	}
	return out
}

// decoded is the state on the disk.
func (d *disk) decoded() (s record.State, ok bool) {
	if d.state == nil {
		return s, false
	}
	if err := json.Unmarshal(d.state, &s); err != nil {
		panic("a state that was saved cannot be read: " + err.Error())
	}
	return s, true
}

// simDisk is a daemon's host.Disk.
type simDisk struct{ d *daemon }

var _ host.Disk = simDisk{}

// Load implements host.Disk.
func (x simDisk) Load() (s record.State, ok bool, err error) {
	err = x.d.do(kindLoad, "", func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		s, ok = x.d.m.disk.decoded()
		return nil
	})
	return s, ok, err
}

// Save implements host.Disk.
func (x simDisk) Save(s record.State) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return x.d.do(kindSave, describeSave(s), func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		before, had := x.d.m.disk.decoded()
		if had && before.Disk != s.Disk {
			x.d.tracef("goes on as disk %s", s.Disk)
		}
		x.d.m.disk.state = b
		x.d.w.checkSaved(x.d, before, s, had)
		return nil
	})
}

func describeSave(s record.State) string {
	return fmt.Sprintf("promise %s, member %s %s, run %t, journal %t", s.Promised, s.Local.Member, s.Local.State, s.Local.Run, s.Journal != nil)
}

// CreateData implements host.Disk.
func (x simDisk) CreateData(token string, id cluster.DiskID) error {
	return x.d.do(kindCreateData, token, func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		have := m.disk.dirs[token]
		switch {
		case have != nil && have.mark == id:
			return nil
		case have != nil && m.w.etcd.HasWAL(have.data):
			return fmt.Errorf("create data directory: %s holds something already", token)
		}
		// An empty directory of an earlier disk gets the new mark; etcd's own
		// files are elsewhere then.
		fresh := &dir{token: token, mark: id, data: &fakeetcd.Data{}}
		m.disk.dirs[token] = fresh
		m.w.keepTrack(fresh)
		if have != nil {
			have.lost = true // it was empty
		}
		return nil
	})
}

// Data implements host.Disk.
func (x simDisk) Data(token string, id cluster.DiskID) (marked, wal bool, err error) {
	err = x.d.do(kindData, "", func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		if have := x.d.m.disk.dirs[token]; have != nil {
			marked, wal = have.mark == id, x.d.w.etcd.HasWAL(have.data)
		}
		return nil
	})
	return marked, wal, err
}

// Owner implements host.Disk.
func (x simDisk) Owner(token string) (c cluster.ClusterID, id cluster.MemberID, err error) {
	err = x.d.do(kindData, "", func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		have := x.d.m.disk.dirs[token]
		if have == nil {
			return errors.New("look at the log: there is no data directory")
		}
		id, c = x.d.w.etcd.CloneData(have.data).Member()
		return nil
	})
	return c, id, err
}

// SetAside implements host.Disk.
func (x simDisk) SetAside(token string, what cluster.SetAside) (out cluster.SetAside, err error) {
	err = x.d.do(kindSetAside, what.Reason, func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		have := m.disk.dirs[token]
		if have == nil {
			return nil
		}
		if p := m.proc; p != nil && p.Exit() == "" && m.procDir == have {
			return errors.New("set data aside: a process holds the directory")
		}
		x.d.w.checkSetAside(x.d, have, what.Reason, what.Member)
		m.disk.moved++
		out = what
		out.Dir, out.At = fmt.Sprintf("%s-%d-%s", token, m.disk.moved, strings.ReplaceAll(what.Reason, " ", "-")), time.Now().UTC()
		have.note = out
		m.disk.aside = append(m.disk.aside, have)
		delete(m.disk.dirs, token)
		x.d.tracef("sets the data of member %s aside: %s", what.Member, what.Reason)
		return nil
	})
	return out, err
}

// RemoveAside makes the disk one that can remove what was set aside.
func (x simDisk) RemoveAside(name string) (remove func() error, err error) {
	return func() error { return nil }, x.d.do(kindPrune, name, func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.IndexFunc(m.disk.aside, func(a *dir) bool { return a.note.Dir == name })
		if i < 0 {
			return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
		}
		have := m.disk.aside[i]
		x.d.w.checkPrune(x.d, have)
		m.disk.aside = slices.Delete(slices.Clone(m.disk.aside), i, i+1)
		x.d.tracef("prunes %s, of member %s", name, have.note.Member)
		return nil
	})
}

// FinishRemovals has nothing to do: removing takes no time here.
func (simDisk) FinishRemovals() error { return nil }

// Predecessor implements host.Disk.
func (x simDisk) Predecessor(h cluster.HostID, disk cluster.DiskID) (p *record.Predecessor, err error) {
	if x.d.w.foreign.id == 0 {
		return nil, nil
	}
	err = x.d.do(kindInventory, "predecessor", func() error {
		p = x.d.m.predecessor(h, disk)
		return nil
	})
	return p, err
}

// ReadRecord implements record.Files.
func (x simDisk) ReadRecord(name string) (data []byte, err error) {
	err = x.d.do(kindLoad, name, func() error {
		data, err = medium{x.d.m}.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return data, err
}

// WriteRecord implements record.Files.
func (x simDisk) WriteRecord(name string, data []byte) error {
	return x.d.do(kindSave, name, func() error { return medium{x.d.m}.Replace(name, data) })
}

// Admission implements host.Disk.
func (x simDisk) Admission() (a *record.Admission, err error) {
	if x.d.w.foreign.id == 0 {
		return nil, nil
	}
	err = x.d.do(kindInventory, "admission", func() error {
		x.d.m.mu.Lock()
		defer x.d.m.mu.Unlock()
		a = x.d.m.disk.admission
		return nil
	})
	return a, err
}

// TakeOver implements host.Disk.
func (x simDisk) TakeOver(token string, disk cluster.DiskID) error {
	return x.d.do(kindCreateData, "mark "+token, func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		have := m.disk.dirs[token]
		if have == nil || have.mark != "" && have.mark != disk || !m.w.etcd.HasWAL(have.data) {
			return fmt.Errorf("take over data: %s holds no log, or another disk's mark", token)
		}
		have.mark = disk
		return nil
	})
}

// Inventory implements host.Disk.
func (x simDisk) Inventory(token string) (aside, foreign []cluster.SetAside, err error) {
	err = x.d.do(kindInventory, "", func() error {
		m := x.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, a := range m.disk.aside {
			aside = append(aside, a.note)
		}
		for _, t := range slices.Sorted(maps.Keys(m.disk.dirs)) {
			if t != token && m.w.etcd.HasWAL(m.disk.dirs[t].data) {
				foreign = append(foreign, cluster.SetAside{Dir: t, Reason: record.ForeignData})
			}
		}
		return nil
	})
	return aside, foreign, err
}
