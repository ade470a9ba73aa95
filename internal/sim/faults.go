package sim

import (
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/sim/fakeetcd"
)

// harm notes that a fault from outside struck a member.
func (w *World) harm(m *machine) {
	id := m.member()
	if id == 0 {
		id = m.theirMember()
	}
	if id == 0 {
		return
	}
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	w.check.harmed[id] = time.Now()
}

// Start boots the machine's daemon if none runs.
func (w *World) Start(m *machine) {
	m.off.Store(false)
	if m.daemon.Load() == nil && !m.gone.Load() && !m.elsewhere && !m.without.Load() {
		w.start(m)
	}
}

// KillDaemon is kill -9 of the daemon alone.
func (w *World) KillDaemon(m *machine) {
	if d := m.daemon.Load(); d != nil {
		d.crash()
	}
}

// StopDaemon is a clean end of the daemon; etcd goes on.
func (w *World) StopDaemon(m *machine) {
	if d := m.daemon.Load(); d != nil {
		d.unpause()
		d.stop()
	}
}

// KillEtcd is kill -9 of the member's process.
func (w *World) KillEtcd(m *machine) {
	if p := m.running(); p != nil {
		w.harm(m)
		w.tracef(m.ID(), "etcd is killed")
		p.Kill()
	}
}

// Halt is a power cut: daemon and etcd are gone at once.
func (w *World) Halt(m *machine) {
	m.off.Store(true)
	w.KillDaemon(m)
	if p := m.typing.Load(); p != nil {
		p.crash()
	}
	w.KillEtcd(m)
}

// Leave takes the machine away for good.
func (w *World) Leave(m *machine) {
	w.Halt(m)
	w.harm(m)
	m.gone.Store(true)
	m.mu.Lock()
	w.loseDirs(m)
	m.mu.Unlock()
	w.tracef(m.ID(), "the machine is gone for good")
}

// loseDirs notes that a fault takes the machine's directories; m.mu is held.
func (w *World) loseDirs(m *machine) {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	for _, d := range m.disk.dirs {
		d.lost = true
	}
	for _, d := range m.disk.aside {
		d.lost = true
	}
}

// Wipe empties the whole disk; the host keeps its ID. Nothing runs on it.
func (w *World) Wipe(m *machine) {
	w.harm(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	w.loseDirs(m)
	m.disk, m.kept = newDisk(), nil
	w.tracef(m.ID(), "the disk is wiped")
}

// WipeData empties the member's data directories and leaves the state.
func (w *World) WipeData(m *machine) {
	w.harm(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	w.loseDirs(m)
	for _, token := range slices.Sorted(maps.Keys(m.disk.dirs)) {
		m.disk.dirs[token] = &dir{token: token, data: &fakeetcd.Data{}, lost: true}
	}
	m.kept = nil
	w.tracef(m.ID(), "the data directory is emptied")
}

// Rename wipes the disk, and the host comes back under another ID.
func (w *World) Rename(m *machine, id cluster.HostID) {
	w.Wipe(m)
	w.tracef(m.ID(), "comes back as host %s", id)
	m.become(id)
}

// Snapshot keeps a copy of the disk.
func (w *World) Snapshot(m *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, image{time.Now(), m.snapshot()})
}

// RollBack puts the newest snapshot that is at least so old onto the disk, and
// reports whether there was one. Nothing runs on it.
func (w *World) RollBack(m *machine, age time.Duration) bool {
	w.harm(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.kept) - 1; i >= 0; i-- {
		k := m.kept[i]
		if time.Since(k.at) < age {
			continue
		}
		w.loseDirs(m)
		m.disk = k.disk
		w.check.mu.Lock()
		for _, d := range m.disk.dirs {
			d.stale = true
			w.check.dirs = append(w.check.dirs, d)
			if id, _ := d.data.Member(); id != 0 {
				w.check.origin[id] = d.data
			}
		}
		w.check.mu.Unlock()
		m.kept = m.kept[:i]
		w.tracef(m.ID(), "the disk goes back by %s", time.Since(k.at).Round(time.Second))
		return true
	}
	return false
}

// Pause stops the daemon as SIGSTOP does, for a while.
func (w *World) Pause(m *machine, d time.Duration) {
	x := m.daemon.Load()
	if x == nil {
		return
	}
	x.tracef("paused for %s", d)
	x.pause()
	w.later(d, func() {
		x.tracef("goes on")
		x.unpause()
	})
}

// PauseEtcd stops the member's process as SIGSTOP does, for a while.
func (w *World) PauseEtcd(m *machine, d time.Duration) {
	p := m.running()
	if p == nil {
		return
	}
	w.harm(m)
	w.tracef(m.ID(), "etcd is paused for %s", d)
	p.Pause()
	w.later(d, func() {
		w.harm(m)
		p.Resume()
	})
}

// Cut cuts the ways from one machine to another in the given planes.
func (w *World) Cut(from, to *machine, planes ...plane) {
	for _, p := range planes {
		w.cuts.set(true, way{p, from.ID(), to.ID()})
	}
}

// Split cuts every way between the groups, in both directions.
func (w *World) Split(a, b []*machine, planes ...plane) {
	w.tracef("", "split %s from %s: %v", machineNames(a), machineNames(b), planes)
	for _, x := range a {
		for _, y := range b {
			w.Cut(x, y, planes...)
			w.Cut(y, x, planes...)
		}
	}
}

// CutStore cuts a machine from the backup store, where there is one.
func (w *World) CutStore(m *machine) {
	if w.hostsKeep {
		return
	}
	w.tracef(m.ID(), "cannot reach the store")
	w.cuts.set(true, way{stores, m.ID(), ""})
}

// Heal ends every cut.
func (w *World) Heal() {
	w.tracef("", "the network is whole")
	w.cuts.heal()
}

func machineNames(ms []*machine) (out []string) {
	for _, m := range ms {
		out = append(out, m.name)
	}
	return out
}

// seenOn is the process of a machine, as an onlooker sees it.
func (w *World) seenOn(m *machine) (fakeetcd.Seen, bool) {
	for _, s := range w.etcd.Look() {
		if s.Host == m.ID() {
			return s, true
		}
	}
	return fakeetcd.Seen{}, false
}

// Await waits until the cluster has so many voters and is as its spec asks;
// false: it was not within the bound.
func (w *World) Await(count int, bound time.Duration) bool { return w.await(count, count, bound) }

func (w *World) await(count, wanted int, bound time.Duration) bool {
	return w.awaitWith(func() (int, int) { return count, wanted }, bound, func() {})
}

// awaitWith is await with a person who looks every now and then.
func (w *World) awaitWith(counts func() (count, wanted int), bound time.Duration, person func()) bool {
	began := time.Now()
	looked := began
	why := ""
	for time.Since(began) < bound {
		if time.Since(looked) >= patience {
			looked = time.Now()
			person()
		}
		if len(w.Broken()) > 0 {
			return false
		}
		if why = w.unconverged(counts()); why == "" {
			w.tracef("", "converged after %s", time.Since(began).Round(time.Millisecond))
			return true
		}
		if !w.sleep(w.ctx, 500*time.Millisecond) {
			return false
		}
	}
	w.violate("not converged within %s: %s", bound, why)
	return false
}

// Until waits for a condition, looking every 50 ms, never while a schedule
// decides.
func (w *World) Until(what string, bound time.Duration, ok func() bool) bool {
	began := time.Now()
	for time.Since(began) < bound {
		w.hooks.Lock()
		done := ok()
		w.hooks.Unlock()
		if done {
			return true
		}
		if !w.sleep(w.ctx, 50*time.Millisecond) {
			return false
		}
	}
	w.violate("within %s: not %s", bound, what)
	return false
}
