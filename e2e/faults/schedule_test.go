package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

// schedule is what a seed says: a job and the faults that come meanwhile. Real
// time goes another way each time, so a seed gives the same schedule and not the
// same history.
type schedule struct {
	seed    uint64
	job     job
	hosts   int
	members int // at the start
	tls     bool
	version string // at the start
	rounds  []round
}

// round are faults at the same time. The next one begins when the cluster is
// whole again.
type round struct {
	after  time.Duration // since the cluster was whole
	hold   time.Duration // that all faults last together
	lap    time.Duration // from the first fault to the second, and from the end of the first to the end of the second
	faults []planned
	same   bool // the second fault is for the host that the first one found
	beyond bool // more than the cluster promises to stand: availability is lost, and nothing else
	moment moment
	own    bool // the step is one of the job's own, and no backup that is due meanwhile
	passed int  // steps that go by before the one that a round comes amid of
}

// planned is a fault whose host is known by its part, and found when the time comes.
type planned struct {
	kind *faultKind
	part part
	pick uint32 // chooses where there is a choice
}

// part is what a host does in the cluster.
type part string

// The parts that a fault may be meant for.
const (
	leadingDaemon part = "the leading daemon"
	raftsLeader   part = "raft's leader"
	follower      part = "a follower"
	anyHost       part = "any host"
	stepsHost     part = "the host that the step is for"
	noHost        part = ""
)

var hostParts = []part{leadingDaemon, raftsLeader, follower, anyHost}

// faultKind is a word of the vocabulary.
type faultKind struct {
	name string
	// costs is how many voters may not be up meanwhile.
	costs int
	// hosts is how many there have to be.
	hosts int
	// forgets says that a host loses data: then nothing else may be at risk.
	forgets bool
	// net, clock and store say what it takes as a whole, one at a time; without any of them
	// it takes a host's processes and disk.
	net, clock, store bool
	parts             []part
	make              func(b *faultBench, h *rig.Host, pick uint32) fault
}

// vocabulary are the faults within what a cluster promises to stand.
var vocabulary = []*faultKind{
	{name: "kill daemon", parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return daemonKilled{h} }},
	{name: "kill etcd", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return etcdKilled{h} }},
	{name: "kill both", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return hostKilled{h} }},
	{name: "stop daemon", parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return &paused{h: h, daemon: true} }},
	{name: "stop etcd", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return &paused{h: h, etcd: true} }},
	{name: "stop both", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault {
		return &paused{h: h, daemon: true, etcd: true}
	}},
	{name: "minority with the leading daemon", costs: 1, net: true, parts: []part{leadingDaemon}, make: func(b *faultBench, h *rig.Host, _ uint32) fault {
		return b.apart("minority with the leading daemon", h)
	}},
	{name: "minority with raft's leader", costs: 1, net: true, parts: []part{raftsLeader}, make: func(b *faultBench, h *rig.Host, _ uint32) fault {
		return b.apart("minority with raft's leader", h)
	}},
	{name: "majority without the store", costs: 1, net: true, store: true, parts: hostParts, make: func(b *faultBench, h *rig.Host, pick uint32) fault {
		rest := b.most(h)
		kept, what := rest, "the host that is alone has the store"
		if pick%2 == 0 {
			kept, what = b.Hosts, "nobody has the store"
		}
		return together{b.apart("all but host "+fmt.Sprint(h.N)+" together, "+what, rest...), fromStore(kept...)}
	}},
	{name: "halves that hear one host", costs: 2, hosts: 5, net: true, parts: hostParts, make: func(b *faultBench, h *rig.Host, _ uint32) fault {
		rest := b.most(h)
		return b.Split(fmt.Sprintf("halves that hear host %d only", h.N), rest[:len(rest)/2], rest[len(rest)/2:])
	}},
	{name: "one way", costs: 1, net: true, parts: hostParts, make: func(b *faultBench, h *rig.Host, pick uint32) fault {
		return deaf(h, b.other(h, pick))
	}},
	{name: "cut off from the store", net: true, parts: hostParts, make: func(b *faultBench, h *rig.Host, pick uint32) fault {
		if pick%3 == 0 {
			return fromStore(b.Hosts...)
		}
		return fromStore(h)
	}},
	{name: "loss", costs: 1, net: true, parts: hostParts, make: func(_ *faultBench, h *rig.Host, pick uint32) fault {
		return lossy{h, []int{2, 10, 30}[pick%3]}
	}},
	{name: "slow link", costs: 1, net: true, parts: hostParts, make: func(_ *faultBench, h *rig.Host, pick uint32) fault {
		return slowLink{h, []int{200, 1000, 5000}[pick%3]}
	}},
	{name: "disk full", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return diskFull{h} }},
	{name: "disk stalled", costs: 1, parts: hostParts, make: func(_ *faultBench, h *rig.Host, _ uint32) fault { return &diskStalled{h: h} }},
	{name: "wipe", costs: 1, forgets: true, parts: hostParts, make: func(_ *faultBench, h *rig.Host, pick uint32) fault {
		return wiped{h, pick%2 == 0}
	}},
	{name: "corrupt a file", costs: 1, forgets: true, parts: hostParts, make: func(_ *faultBench, h *rig.Host, pick uint32) fault {
		return damaged{h, pick%2 == 0}
	}},
	{name: "clock skew", clock: true, parts: hostParts, make: func(b *faultBench, h *rig.Host, pick uint32) fault {
		by := []time.Duration{time.Hour, -time.Hour, 4 * time.Minute, -4 * time.Minute}
		if b.Options.TLS { // what a certificate that was issued just now allows
			by = by[2:]
		}
		return clockAhead{h, by[int(pick)%len(by)]}
	}},
	{name: "store errors", store: true, parts: []part{noHost}, make: func(_ *faultBench, _ *rig.Host, pick uint32) fault {
		how := []teststore.Fault{teststore.Lose, teststore.Drop, teststore.Refuse, teststore.Fail, teststore.Hang, teststore.Cut}
		return storeFails{how[int(pick)%len(how)], []int{1, 2, 5}[pick/8%3]}
	}},
	{name: "slow store", store: true, parts: []part{noHost}, make: func(_ *faultBench, _ *rig.Host, pick uint32) fault {
		return storeSlow{[]time.Duration{300 * time.Millisecond, 2 * time.Second}[pick%2]}
	}},
}

// beyond are the faults that take the quorum, and leave every disk as it is.
var beyond = []*faultKind{
	{name: "full partition", net: true, parts: []part{noHost}, make: func(b *faultBench, _ *rig.Host, _ uint32) fault { return b.alone() }},
	{name: "minorities", net: true, hosts: 5, parts: hostParts, make: func(b *faultBench, h *rig.Host, pick uint32) fault {
		rest := b.most(h)
		f := b.Split("minorities", rest[:len(rest)/2], rest[len(rest)/2:], []*rig.Host{h})
		if pick%2 == 0 {
			return f
		}
		return together{f, fromStore(rest[:len(rest)/2]...)}
	}},
	{name: "most hosts without power", parts: []part{anyHost}, make: func(b *faultBench, h *rig.Host, _ uint32) fault {
		var all together
		for _, x := range b.most(h) {
			all = append(all, hostKilled{x})
		}
		return all
	}},
	{name: "most hosts stand still", parts: []part{anyHost}, make: func(b *faultBench, h *rig.Host, _ uint32) fault {
		var all together
		for _, x := range b.most(h) {
			all = append(all, &paused{h: x, daemon: true, etcd: true})
		}
		return all
	}},
}

// most are all hosts but one.
func (b *faultBench) most(but *rig.Host) []*rig.Host {
	return slices.DeleteFunc(slices.Clone(b.Hosts), func(h *rig.Host) bool { return h == but })
}

// other is another host.
func (b *faultBench) other(h *rig.Host, pick uint32) *rig.Host {
	others := b.most(h)
	return others[int(pick)%len(others)]
}

// planFaults makes the schedule of a seed, with a job of the seed's own choice if none
// is given.
func planFaults(seed uint64, wanted string) schedule {
	random := rand.New(rand.NewPCG(seed, 0xfa))
	s := schedule{seed: seed, job: jobs[random.IntN(len(jobs))], members: 3, version: testetcd.V36, tls: random.IntN(2) == 0}
	if i := slices.IndexFunc(jobs, func(j job) bool { return j.name == wanted }); i >= 0 {
		s.job = jobs[i]
	}
	if random.IntN(3) == 0 {
		s.members = 5
	}
	s.job.shape(&s, random)
	s.hosts = max(s.hosts, s.members, s.job.members(s))
	if s.hosts == 3 && random.IntN(2) == 0 {
		s.hosts = 4 // one is free
	}
	for range 2 + random.IntN(3) {
		s.rounds = append(s.rounds, s.round(random, len(s.rounds) == 0))
	}
	s.shift(rand.New(rand.NewPCG(seed, 0xfb)))
	return s
}

// shift has some rounds do the same as the one before to other hosts, some come at a moment
// that matters, and some that take no voter last.
func (s *schedule) shift(random *rand.Rand) {
	for i := range s.rounds {
		r := &s.rounds[i]
		if i > 0 && random.IntN(6) == 0 {
			before := s.rounds[i-1]
			r.faults, r.same, r.lap, r.beyond = slices.Clone(before.faults), before.same, before.lap, before.beyond
			for j := range r.faults {
				r.faults[j].pick = random.Uint32()
			}
		}
		r.moment = []moment{anyMoment, anyMoment, amidStep, amidHandOver}[random.IntN(4)]
		if s.job.acts && i == 0 { // later there may be nothing left to do
			if random.IntN(3) == 0 {
				r.moment = amidStep
			}
			if r.moment == amidStep {
				r.own, r.passed = true, random.IntN(3)
			}
		}
		for j := range r.faults {
			f := &r.faults[j]
			switch fits := slices.Contains(f.kind.parts, anyHost); {
			case fits && r.moment == amidStep && random.IntN(2) == 0:
				f.part = stepsHost
			case fits && f.part == stepsHost:
				f.part = anyHost // what it was in the round before
			}
		}
		takesNobody := !slices.ContainsFunc(r.faults, func(f planned) bool { return f.kind.costs > 0 })
		if takesNobody && !r.beyond && random.IntN(3) == 0 {
			r.hold += time.Duration(8+random.IntN(17)) * time.Second
		}
	}
}

// stands is how many voters may be down at any time of the job.
func (s schedule) stands() int { return (min(s.members, s.job.members(s)) - s.job.takes - 1) / 2 }

func (s schedule) round(random *rand.Rand, first bool) round {
	between := func(least, most int) time.Duration {
		return time.Duration(least+random.IntN(most-least)) * time.Millisecond
	}
	r := round{after: between(0, 3000), hold: between(500, 9000)}
	if random.IntN(7) == 0 && !s.job.delicate {
		r.beyond = true
		possible := slices.DeleteFunc(slices.Clone(beyond), func(kind *faultKind) bool { return kind.hosts > s.hosts })
		kind := possible[random.IntN(len(possible))]
		r.faults = []planned{{kind, kind.parts[random.IntN(len(kind.parts))], random.Uint32()}}
		return r
	}
	if !first && random.IntN(3) == 0 {
		r.hold += between(3000, 9000) // past --dead-after
	}
	for range 1 + random.IntN(2) {
		r.same = len(r.faults) == 1 && r.faults[0].part != noHost && r.faults[0].kind.costs < 2 && random.IntN(3) == 0
		allowed := slices.DeleteFunc(slices.Clone(vocabulary), func(kind *faultKind) bool { return !s.allows(r, kind) })
		kind := allowed[random.IntN(len(allowed))]
		r.faults = append(r.faults, planned{kind, kind.parts[random.IntN(len(kind.parts))], random.Uint32()})
	}
	if len(r.faults) == 2 && random.IntN(2) == 0 {
		r.lap = between(200, 4000)
	}
	return r
}

// allows reports whether the cluster promises to stand one more fault.
func (s schedule) allows(r round, kind *faultKind) bool {
	if kind.hosts > s.hosts || kind.forgets && (s.job.delicate || s.job.takes > 0) || kind.costs > 0 && s.job.restarts {
		return false
	}
	costs := kind.costs
	for _, f := range r.faults {
		if f.kind.net && kind.net || f.kind.store && kind.store {
			return false
		}
		if r.same { // one host is down, whatever it suffers; on its disk and its processes one fault at a time works
			if f.kind.net == kind.net && f.kind.clock == kind.clock || !slices.Contains(kind.parts, anyHost) || max(f.kind.costs, kind.costs) > 1 {
				return false
			}
			costs = max(f.kind.costs, kind.costs)
			continue
		}
		costs += f.kind.costs
	}
	return kind.costs == 0 || costs <= s.stands()
}

func (s schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s, %d hosts, %d members, etcd %s, TLS: %t", s.seed, s.job.name, s.hosts, s.members, s.version, s.tls)
	for i, r := range s.rounds {
		var all []string
		for _, f := range r.faults {
			what := f.kind.name
			if f.part != noHost {
				what += " of " + string(f.part)
			}
			all = append(all, what)
		}
		fmt.Fprintf(&b, "\n  round %d, %s after the cluster was whole, for %s: %s", i+1, r.after, r.hold, strings.Join(all, " + "))
		if r.same {
			b.WriteString(" (the same host)")
		}
		if r.lap > 0 {
			fmt.Fprintf(&b, ", %s apart", r.lap)
		}
		if r.moment != anyMoment {
			fmt.Fprintf(&b, ", %s", r.moment)
			if r.own {
				b.WriteString(" of the job")
			}
			if r.passed > 0 {
				fmt.Fprintf(&b, ", after %d of them", r.passed)
			}
		}
		if r.beyond {
			b.WriteString(" (no quorum)")
		}
	}
	return b.String()
}

// Equal seeds give equal schedules, and no schedule asks for more than the
// cluster promises without saying so.
func TestFaultSchedules(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(5000) {
		s := planFaults(seed, "")
		if again := planFaults(seed, ""); again.String() != s.String() {
			t.Fatalf("seed %d gives two schedules:\n%s\n%s", seed, s, again)
		}
		seen["job "+s.job.name]++
		for _, r := range s.rounds {
			costs, forgets := 0, 0
			seen[string(r.moment)]++
			for _, f := range r.faults {
				seen[f.kind.name]++
				if r.same {
					costs = max(costs, f.kind.costs)
				} else {
					costs += f.kind.costs
				}
				if f.kind.forgets {
					forgets++
				}
				if f.part == stepsHost {
					seen["step: "+f.kind.name]++
				}
			}
			seen[fmt.Sprintf("same host: %t, apart: %t", r.same, r.lap > 0)]++
			if !r.beyond && (costs > s.stands()) || r.same && len(r.faults) != 2 {
				t.Errorf("more than the cluster promises: %s", s)
			}
			if r.beyond && forgets > 0 {
				t.Errorf("data is lost without a quorum: %s", s)
			}
		}
	}
	for _, kind := range slices.Concat(vocabulary, beyond) {
		if seen[kind.name] < 20 {
			t.Errorf("%q is in %d rounds of 5000 schedules", kind.name, seen[kind.name])
		}
	}
	for _, how := range []string{"same host: true, apart: true", "same host: true, apart: false", "same host: false, apart: true"} {
		if seen[how] < 200 {
			t.Errorf("%q are %d rounds of 5000 schedules", how, seen[how])
		}
	}
	for _, kind := range vocabulary {
		if slices.Contains(kind.parts, anyHost) && seen["step: "+kind.name] < 5 {
			t.Errorf("%q is for the host of a step in %d rounds of 5000 schedules", kind.name, seen["step: "+kind.name])
		}
	}
	for _, when := range []moment{amidStep, amidHandOver} {
		if seen[string(when)] < 2000 {
			t.Errorf("%q are %d rounds of 5000 schedules", when, seen[string(when)])
		}
	}
	for _, j := range jobs {
		if seen["job "+j.name] < 200 {
			t.Errorf("the job %q is in %d of 5000 schedules", j.name, seen["job "+j.name])
		}
	}
}
