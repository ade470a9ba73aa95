package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/sim/fakeetcd"
	"etcdadm.io/plan"
)

// What is checked of changes of version (docs/adr/014-versions.md).

// refusals are the starts that etcd refused because of versions.
type refusals struct {
	mu  sync.Mutex // guards all
	all []string
}

// note keeps the end of a process if versions are why.
func (r *refusals) note(h cluster.HostID, what string) {
	for _, why := range []string{"invalid downgrade", "data of format", "version 2 of the API", "when downgrade is enabled", "incompatible with current"} {
		if strings.Contains(what, why) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, string(h)+": "+what)
			return
		}
	}
}

// Refused are the starts that etcd refused because of versions.
func (w *World) Refused() []string {
	w.refusals.mu.Lock()
	defer w.refusals.mu.Unlock()
	return slices.Clone(w.refusals.all)
}

// installed are the machine's releases.
func (m *machine) installed() []cluster.Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.releases)
}

// Install puts releases onto the machine in place of those that it had.
func (w *World) Install(m *machine, releases ...cluster.Version) {
	w.tracef(m.ID(), "has the releases %v", releases)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releases = releases
}

// Break has releases end on the machine whenever they are started.
func (w *World) Break(m *machine, releases ...cluster.Version) {
	w.tracef(m.ID(), "these releases do not start: %v", releases)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken, m.failing = releases, append(m.failing, releases...)
}

// Repair gives the machine all releases, whole ones, and forgets that some were not:
// its daemon is restarted.
func (w *World) Repair(m *machine, releases ...cluster.Version) {
	w.Install(m, releases...)
	m.mu.Lock()
	m.broken, m.failing = nil, nil
	m.mu.Unlock()
	w.KillDaemon(m)
	w.apart()
	w.Start(m)
}

// lacks reports whether something keeps a release from running on the machine:
// one that failed there once is not tried again by the same daemon.
func (m *machine) lacks(v cluster.Version) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.Contains(m.releases, v) || slices.Contains(m.failing, v)
}

// breaks reports whether a release that ends here whenever it is started is what was said
// to keep the version from changing; it may be one on the way to the wanted one.
func (m *machine) breaks(said string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.gone.Load() && slices.ContainsFunc(m.failing, func(v cluster.Version) bool {
		return strings.Contains(said, fmt.Sprintf("etcd %s did not start on host %s,", v, m.ID()))
	})
}

// checkRelease: a member that serves is stopped for another release only while
// every other voter is up; c.mu is held.
func (w *World) checkRelease(d *daemon, own fakeetcd.Seen, l *lineage, seen []fakeetcd.Seen) {
	s, ok := d.m.state()
	if !ok || s.Launch == nil || s.Launch.Version == own.Version || !s.Local.Run || !own.Serving || own.Leader == 0 {
		return
	}
	for _, m := range l.list {
		harmed, ok := w.check.harmed[m.ID]
		if m.Learner || m.ID == own.Member || runs(seen, m.ID) || ok && d.excused(harmed) {
			continue
		}
		w.violate("%s stops voter %s to change %s into %s, and voter %s is down", d.id, own.Member, own.Version, s.Launch.Version, m.ID)
	}
}

// otherReleases are the voters that do not run what is wanted, unless that is
// waited for with a reason that the world gives: a pause, a release that is
// missing or broken, or too few hosts.
func (w *World) otherReleases(voters []cluster.Member, seen []fakeetcd.Seen, few bool) (why []string) {
	spec := w.static
	if spec == nil {
		spec = w.wanted()
	}
	said := w.saidOfVersion()
	broken := slices.ContainsFunc(w.hosts(), func(m *machine) bool { return m.breaks(said) })
	var behind []string
	for _, s := range seen {
		votes := slices.ContainsFunc(voters, func(m cluster.Member) bool { return m.ID == s.Member })
		switch {
		case votes && !s.Down.IsZero() && !spec.PauseBeforeLast && !broken:
			why = append(why, fmt.Sprintf("a downgrade to %s is under way", s.Down))
		case votes && s.Version != spec.EtcdVersion:
			behind = append(behind, fmt.Sprintf("%s runs %s", s.Host, s.Version))
		}
	}
	if len(behind) == 0 {
		return why
	}
	words := strings.Join(behind, ", ") + ", wanted is " + spec.EtcdVersion.String()
	switch {
	case said == "":
		return append(why, words+", and nobody says why")
	case few, broken, spec.PauseBeforeLast && len(behind) == 1:
		return why
	case slices.ContainsFunc(w.hosts(), func(m *machine) bool { return !m.gone.Load() && m.lacks(spec.EtcdVersion) }):
		return why
	}
	return append(why, words+": "+said)
}

// saidOfVersion is why leaders say that the version is not changed.
func (w *World) saidOfVersion() (said string) {
	for _, m := range w.hosts() {
		d := m.daemon.Load()
		if d == nil || !d.manager.Status().Leading {
			continue
		}
		d.mu.Lock()
		blockers := slices.Clone(d.decision.Blockers)
		d.mu.Unlock()
		for _, b := range blockers {
			if isOfVersion(b) {
				said = b.Code + ": " + b.Sentence.String()
			}
		}
	}
	return said
}

func isOfVersion(b plan.Blocker) bool {
	return b.Code == "version" || b.Code == "version-paused" || b.Code == "version-outage"
}

// waitsForVersion: nothing is done because the version cannot be changed, which
// otherReleases judges.
func waitsForVersion(p plan.Decision) bool {
	return p.Action == nil && slices.ContainsFunc(p.Blockers, isOfVersion)
}
