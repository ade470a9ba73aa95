package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// withVersions is the share of the seeds in which versions are changed, and
	// undisturbed that of those in which nothing else happens.
	withVersions = 0.35
	undisturbed  = 0.2
	// wishesBegin is where the numbers of a seed for them begin.
	wishesBegin = 1 << 33
)

// wishes is what a person of a seed wants of versions. It has numbers of its
// own, so that the seeds without it keep theirs.
type wishes struct {
	seed        dice
	n           uint64
	on          bool
	undisturbed bool
	asked       int
	before      cluster.Version // what was wanted before the last wish
}

func (x *wishes) begin(seed dice) {
	x.seed = seed
	x.on = x.next().chance(withVersions)
	x.undisturbed = x.on && x.next().chance(undisturbed)
}

func (x *wishes) next() dice {
	x.n++
	return x.seed.roll(wishesBegin + x.n)
}

// place puts up a machine; where versions are changed there are two patches of
// each line.
func (g *generator) place(name string) *machine {
	m := g.w.Place(name)
	if g.wishes.on {
		m.releases = allReleases()
	}
	m.plain.Store(g.secures.on && !g.turning)
	m.quota = g.quotaOf(len(g.w.hosts()) - 1)
	return m
}

func allReleases() []cluster.Version {
	return append(releases(), cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.14"), cluster.MustVersion("3.7.1"))
}

// wish is what a person may do about versions at any time.
func (g *generator) wish() {
	x := &g.wishes
	if !x.on || !x.next().chance(0.35) {
		return
	}
	m := g.up()[x.next().below(len(g.up()))]
	some := allReleases()[x.next().below(len(allReleases()))]
	switch x.next().below(10) {
	case 0, 1, 2, 3:
		g.askFor(some, x.next().chance(0.25))
	case 4: // changes their mind half way
		back := g.spec.EtcdVersion
		g.askFor(some, false)
		g.w.later(x.next().within(time.Second, 40*time.Second), func() { g.askFor(back, false) })
	case 5:
		g.askFor(g.spec.EtcdVersion, !g.spec.PauseBeforeLast)
	case 6:
		if !x.before.IsZero() {
			g.askFor(x.before, false)
		}
	case 7, 8:
		g.spoil(m, some)
	case 9:
		g.w.Install(m, allReleases()...)
		g.w.Break(m)
	}
}

// askFor writes another version into the spec, as the person last knew it.
func (g *generator) askFor(v cluster.Version, pause bool) {
	if g.joining() {
		return
	}
	if g.spec.EtcdVersion != v {
		g.wishes.before = g.spec.EtcdVersion
	}
	g.wishes.asked++
	g.spec.EtcdVersion, g.spec.PauseBeforeLast = v, pause
	if g.wishes.next().chance(0.5) { // and takes an outage for it
		g.spec.AcceptOutage = cluster.Consent(v, time.Now())
	}
	if pause {
		g.w.tracef("", "the last member is to wait")
	}
	g.w.Spec(g.spec)
}

// spoil takes a release away from a host, or has it not start there, unless the
// host's member is set to run it.
func (g *generator) spoil(m *machine, v cluster.Version) {
	s, ok := m.state()
	if !ok || s.Launch != nil && (s.Launch.Version == v || s.Local.Version == v || s.Local.Previous == v) {
		return
	}
	if g.wishes.next().chance(0.5) {
		g.w.Install(m, slices.DeleteFunc(allReleases(), func(r cluster.Version) bool { return r == v })...)
	} else {
		g.w.Break(m, v)
	}
}

// lastWish is what a person does at the end: they bring the releases back, since
// no host could take a member otherwise, and mostly have what was given up tried
// again.
func (g *generator) lastWish() {
	x := &g.wishes
	if !x.on {
		return
	}
	again := x.next().chance(0.8)
	for _, m := range g.up() {
		if again {
			g.w.Repair(m, allReleases()...)
			continue
		}
		g.w.Install(m, allReleases()...)
		g.w.Break(m)
	}
}
