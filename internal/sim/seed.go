package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
)

// ConvergeWithin bounds the time from the end of all faults to a cluster that
// is as its spec asks, in virtual time; the time after which silence is death
// is part of it.
const ConvergeWithin = 10 * time.Minute

// WithAPersonWithin bounds the same where a person has to answer blockers.
const WithAPersonWithin = 2 * ConvergeWithin

// Report is what a seed did.
type Report struct {
	Seed     uint64
	Failures []string
	Timeline string
	Virtual  time.Duration
	Pruned   int // directories
	Points   int // calls that changed the world
	Changes  int // of the voters
	// Generations were written that were made from data, and so often a person
	// had to do something before the end.
	Generations, Persons int
	// Recovered are the recoveries that daemons queued by themselves.
	Recovered int
	Acked     int
	Versions  int           // that a person asked for
	Refused   []string      // starts that etcd refused because of versions
	Converged time.Duration // after the faults
	// Acts are what actors did, and how often.
	Acts   map[string]int `json:",omitempty"`
	Trace  uint64         // hash of the trace
	Events int            // of the trace
}

// RunSeed lives through the world of one seed; it is called in a bubble.
//
// With full, the timeline is the whole trace.
func RunSeed(seed uint64, full bool) Report {
	o := Options{Seed: seed, Conditions: memory.Keep, Full: full}
	luck := dice(mix(seed)).roll(luckBegins)
	generations := luck.chance(withGenerations)
	if generations && luck.roll(1).chance(0.4) {
		o.BackupEvery = luck.roll(2).within(time.Minute, 4*time.Minute).Round(time.Second)
		if luck.roll(3).chance(0.5) {
			o.DrillEvery = luck.roll(4).within(time.Minute, 4*time.Minute).Round(time.Second)
		}
		o.PruneAfter = luck.roll(6).within(5*time.Second, time.Minute).Round(time.Second)
	}
	g := &generator{seed: dice(mix(seed)), generations: generations, lucky: luckBegins}
	o.Upkeep = g.beginOdds(g.seed)
	o.HostsKeep = HostsKeep(seed)
	w := New(o)
	g.w = w
	most := 4000
	if full {
		most = 1 << 30
	}
	g.jumps.begin(g.seed, jumpsBegin, withJumps)
	g.steps.begin(g.seed, stepsBegin, withSteps)
	g.secures.begin(g.seed, secureBegins, withTLS)
	g.defragments.begin(g.seed, defragmentsBegin, withDefragments)
	if g.storeless.begin(g.seed, storelessBegin, withStoreless); o.HostsKeep {
		g.storeless.on = false // --no-store is refused there
	}
	g.networks.begin(g.seed, networksBegin, withNetworks)
	g.pauses.begin(g.seed, pausesBegin, withPauses)
	g.foreign.begin(g.seed, foreignBegins, withForeign)
	if g.recorders.begin(g.seed, generations); o.HostsKeep {
		g.goneBack.on, g.kinds.on, g.tardy.on = false, false, false
	}
	g.beginFills(g.seed)
	if generations && luck.roll(5).chance(0.35) {
		g.spec.AutoRecoverAfter = autoRecoverAfter
	}
	g.beginManual()
	g.prunes = o.DrillEvery > 0 && luck.roll(7).chance(0.7)
	g.wishes.begin(dice(mix(seed)))
	g.run()
	g.pruneAll()
	w.checkDirs()
	w.Close()
	r := Report{Seed: seed, Virtual: time.Since(w.began), Points: w.points, Changes: w.check.changes, Acked: w.Acked(), Converged: g.converged, Generations: w.check.dropped, Recovered: w.check.recovered, Persons: g.persons}
	r.Failures, r.Timeline = w.Broken(), w.Timeline(most)
	r.Trace, r.Events = w.Trace()
	r.Acts = w.actsSoFar()
	r.Pruned, r.Versions, r.Refused = w.prunedSoFar(), g.wishes.asked, w.Refused()
	return r
}

// generator makes the world of a seed and its faults.
type generator struct {
	w         *World
	seed      dice
	n         uint64
	spec      cluster.Spec
	converged time.Duration
	renamed   int
	// prunes: nothing but backups is asked for, so that what is set aside
	// comes of age.
	prunes bool
	// What is done about generations has numbers of its own, so that the seeds
	// without it keep theirs.
	generations bool
	lucky       uint64
	wishes      wishes
	// What else happens, each with numbers of its own.
	jumps, steps, fills, odds, secures actor
	defragments, storeless, networks   actor
	pauses, manual                     actor
	types                              bool // a person types what is offered while self-management is off
	fillsAll                           bool // every database is small
	foreign                            adopter
	recorders
	turning bool      // TLS is being turned on
	persons int       // times that a person answered a blocker
	again   uint64    // the highest generation that a person asked to begin once more
	struck  time.Time // when a quorum was destroyed last
}

func (g *generator) next() dice {
	g.n++
	return g.seed.roll(g.n)
}

func (g *generator) pick(ms []*machine) *machine { return ms[g.next().below(len(ms))] }

// run is the life of the world.
func (g *generator) run() {
	w := g.w
	sizes := [...]int{1, 3, 3, 3, 5}
	lines := releases()
	g.spec.MemberCount, g.spec.EtcdVersion = sizes[g.next().below(len(sizes))], lines[g.next().below(len(lines))]
	g.spec.DeadAfter = g.next().within(15*time.Second, time.Minute).Round(time.Second)
	hosts := cluster.Quorum(g.spec.MemberCount) + g.next().below(7-cluster.Quorum(g.spec.MemberCount)+1)
	w.tracef("", "seed %d: %d hosts, %d members of etcd %s, dead after %s", w.seed, hosts, g.spec.MemberCount, g.spec.EtcdVersion, g.spec.DeadAfter)
	if g.next().chance(0.8) {
		if c := g.chaos(); !g.wishes.undisturbed {
			w.chaos.Store(c)
		}
	}
	if g.foreign.on {
		g.beginForeign(hosts)
	} else {
		g.beginEmpty(hosts)
	}
	w.Load(g.next().within(150*time.Millisecond, 600*time.Millisecond))
	g.faults(g.next().within(time.Minute, 5*time.Minute))
	g.longAgo()
	g.calm()
}

// beginEmpty puts up hosts that found a cluster.
func (g *generator) beginEmpty(hosts int) {
	w := g.w
	specFirst := g.next().chance(0.5)
	if specFirst {
		w.Spec(g.spec)
	}
	for i := range hosts {
		m := g.place(string(rune('a' + i)))
		if g.next().chance(0.2) {
			m.clock.set(time.Time{}, g.next().within(-time.Hour, time.Hour))
		}
		if i == 0 && w.hostsKeep {
			w.FoundRecord(m, g.spec)
		}
		w.later(g.next().within(0, 3*time.Second), func() { w.Start(m) })
	}
	if !specFirst {
		w.sleep(w.ctx, g.next().within(0, 5*time.Second))
		w.Spec(g.spec)
	}
}

func (g *generator) chaos() *Chaos {
	c := &Chaos{SlowMost: g.next().within(10*time.Millisecond, 3*time.Second), LateMost: g.next().within(time.Second, 12*time.Second)}
	for _, p := range []*float64{&c.Loss, &c.Duplicate, &c.Slow, &c.StoreError, &c.StoreLost, &c.StoreLate} {
		if g.next().chance(0.6) {
			*p = float64(g.next().below(120)) / 1000
		}
	}
	return c
}

// faults strikes for a while.
func (g *generator) faults(most time.Duration) {
	w := g.w
	w.tracef("", "faults for %s", most)
	until := time.Now().Add(most)
	for time.Now().Before(until) && len(w.Broken()) == 0 {
		if !w.sleep(w.ctx, g.next().within(200*time.Millisecond, 20*time.Second)) {
			return
		}
		if g.wish(); g.wishes.undisturbed {
			continue
		}
		for _, m := range g.up() {
			if g.next().chance(0.1) {
				w.Snapshot(m)
			}
		}
		g.strike()
		g.act()
		if g.generations && g.luck().chance(0.5) {
			g.order()
		}
	}
}

// up are the machines that are not gone.
func (g *generator) up() []*machine {
	return slices.DeleteFunc(g.w.hosts(), func(m *machine) bool { return m.gone.Load() || m.elsewhere })
}

// strike is one fault.
func (g *generator) strike() {
	w := g.w
	m := g.pick(g.up())
	short := g.next().within(50*time.Millisecond, 5*time.Second)
	long := g.next().within(time.Second, 50*time.Second)
	switch g.next().below(22) {
	case 0, 1:
		w.KillDaemon(m)
		w.later(short, func() { w.Start(m) })
	case 2, 3:
		w.KillEtcd(m)
	case 4:
		w.Halt(m)
		w.later(long, func() { w.Start(m) })
	case 5:
		d := m.daemon.Load()
		if d != nil {
			w.loops.Go(func() {
				w.StopDaemon(m)
				if w.sleep(w.ctx, short) {
					w.Start(m)
				}
			})
		}
	case 6, 7:
		g.crashAtPoint(m)
	case 8, 9:
		g.lose(m, short)
	case 10:
		g.goBack(m, short)
	case 11, 12, 13:
		g.cut(long)
	case 14:
		w.CutStore(m)
		w.later(long, func() { w.cuts.set(false, way{stores, m.ID(), ""}) })
	case 15:
		for _, x := range g.up() {
			w.CutStore(x)
			w.later(long, func() { w.cuts.set(false, way{stores, x.ID(), ""}) })
		}
	case 16, 17:
		g.respec()
	case 18:
		w.Pause(m, g.next().within(time.Second, 30*time.Second))
	case 19:
		g.pauseLeader()
	case 20:
		m.slow.Store(int64(g.next().within(10*time.Millisecond, 2*time.Second)))
		w.later(long, func() { m.slow.Store(0) })
	case 21:
		if g.next().chance(0.5) {
			w.PauseEtcd(m, short)
		} else {
			g.newMachine()
		}
	}
}

// crashAtPoint crashes a daemon at one of its next calls.
func (g *generator) crashAtPoint(m *machine) {
	w := g.w
	left := g.next().below(12) + 1
	short := g.next().within(20*time.Millisecond, 3*time.Second)
	w.OnPoint(func(p Point) Strike {
		if p.Host != m.ID() {
			return Strike{}
		}
		if left--; left > 0 {
			return Strike{}
		}
		w.OnPoint(nil)
		w.later(short, func() { w.Start(m) })
		return Strike{Crash: true}
	})
}

// pauseLeader pauses a leading daemon at one of its next calls.
func (g *generator) pauseLeader() {
	w := g.w
	left := g.next().below(8) + 1
	long := g.next().within(time.Second, 25*time.Second)
	w.OnPoint(func(p Point) Strike {
		if p.Kind != kindApply && p.Kind != kindStorePut && p.Kind != kindMember {
			return Strike{}
		}
		if left--; left > 0 {
			return Strike{}
		}
		w.OnPoint(nil)
		return Strike{Pause: long}
	})
}

// respec asks for another size.
func (g *generator) respec() {
	sizes := []int{1, 3, 5}
	n := sizes[g.next().below(len(sizes))]
	if n > len(g.up()) || g.joining() {
		return
	}
	g.spec.MemberCount = n
	g.w.Spec(g.spec)
}

func (g *generator) newMachine() {
	n := len(g.w.hosts())
	if n >= 12 {
		return
	}
	g.w.Start(g.place(string(rune('a' + n))))
}
