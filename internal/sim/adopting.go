package sim

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
)

const (
	// withForeign is the share of the seeds that begin with a cluster which something
	// else runs, and which a person takes over.
	withForeign = 0.1
	// foreignBegins is where the numbers of a seed for them begin, and takingBegins
	// where those of the person who takes it over do.
	foreignBegins = 1 << 42
	takingBegins  = 1<<42 + 1<<20
	// withTLSOfOurs is the share of those that are joined in which our daemons have TLS
	// and the members that are there do not; its number is clearBegins.
	withTLSOfOurs = 0.35
	clearBegins   = 1<<42 + 1<<21
	// takeOverWithin bounds the time from the end of the faults to a person who has
	// nothing more to do: five hosts, one after the other.
	takeOverWithin = 25 * time.Minute
)

// Adopts reports whether a seed begins with a cluster that something else runs.
func Adopts(seed uint64) bool {
	var x actor
	x.begin(dice(mix(seed)), foreignBegins, withForeign)
	return x.on
}

// adopter is a cluster that something else runs, and the person who takes it over:
// in place, host by host, or by joining it from other hosts.
type adopter struct {
	actor
	joins  bool
	wanted int // members of ours, where they join
	at     []*machine
	person actor       // of whom others ask nothing, with numbers of its own
	over   atomic.Bool // the person has nothing more to do
}

// beginForeign puts up that cluster, and hosts on which our daemons are, or will be.
func (g *generator) beginForeign(hosts int) {
	x, w := &g.foreign, g.w
	sizes := [...]int{1, 3, 3, 5}
	size := sizes[x.next().below(len(sizes))]
	x.joins = x.next().chance(0.5)
	x.wanted = sizes[x.next().below(len(sizes))]
	x.person = actor{seed: g.seed, begins: takingBegins}
	own := max(hosts, size)
	if x.joins {
		own = max(hosts, x.wanted)
		for i := range size {
			m := g.place(fmt.Sprintf("x%d", i+1))
			m.elsewhere = true
			x.at = append(x.at, m)
		}
	}
	clear := x.joins && g.seed.roll(clearBegins).chance(withTLSOfOurs)
	for _, m := range x.at {
		m.plain.Store(clear || m.plain.Load())
	}
	for range own {
		m := g.place(string(rune('a' + len(w.hosts()))))
		if clear {
			w.count("hosts with TLS beside members without")
			m.plain.Store(false)
		}
		if !x.joins && len(x.at) < size {
			m.without.Store(true)
			x.at = append(x.at, m)
		}
		w.later(x.next().within(0, 20*time.Second), func() { w.Start(m) })
	}
	g.spec.MemberCount = size
	if x.joins {
		g.spec.MemberCount = x.wanted
	} else {
		w.Mark(g.spec)
	}
	w.Found(g.spec.EtcdVersion, x.at...)
	wait := x.next().within(2*time.Second, 30*time.Second)
	w.loops.Go(func() {
		if !w.sleep(w.ctx, wait) {
			return
		}
		if x.joins {
			g.joinAll()
		} else {
			g.takeAll()
		}
		x.over.Store(true)
	})
}

// joining: our hosts join a cluster that is not ours yet, and what the store has of it
// is the command's.
func (g *generator) joining() bool { return g.foreign.on && g.foreign.joins && !g.w.adopted() }

// rest is what a person lets pass.
func (x *adopter) rest(w *World, most time.Duration) { w.sleep(w.ctx, x.person.next().within(0, most)) }

func shuffled[T any](x *actor, all []T) []T {
	all = slices.Clone(all)
	for i := range all {
		j := i + x.next().below(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// takeAll has our daemon in the place of the other program on each host.
func (g *generator) takeAll() {
	x, w := &g.foreign, g.w
	careful := x.person.next().chance(0.7)
	w.count("clusters taken over in place")
	for _, m := range shuffled(&x.person, x.at) {
		x.rest(w, 10*time.Second)
		if x.person.next().chance(0.4) { // ours waits beside it
			g.install(m)
			x.rest(w, 10*time.Second)
		}
		w.StopTheirs(m, x.person.next().chance(0.6))
		x.rest(w, 8*time.Second)
		g.install(m)
		if x.person.next().chance(0.2) {
			x.rest(w, 15*time.Second)
			g.goBackToTheirs(m)
		}
		if careful {
			w.awaitServing(m, time.Minute)
		}
	}
}

func (g *generator) install(m *machine) {
	m.without.Store(false)
	if !m.off.Load() {
		g.w.Start(m)
	}
}

// goBackToTheirs is a person who has the other program run the member once more,
// unless the cluster is ours by then.
func (g *generator) goBackToTheirs(m *machine) {
	x, w := &g.foreign, g.w
	if w.adopted() {
		return
	}
	w.count("hosts given back")
	m.without.Store(true)
	w.StopDaemon(m)
	if p := m.running(); p != nil {
		w.harm(m)
		p.Stop()
	}
	w.StartTheirs(m)
	x.rest(w, 20*time.Second)
	w.StopTheirs(m, x.person.next().chance(0.6))
	x.rest(w, 5*time.Second)
	g.install(m)
}

// awaitServing waits until the member of a machine serves, but not for ever.
func (w *World) awaitServing(m *machine, most time.Duration) {
	for began := time.Now(); time.Since(began) < most; {
		if s, ok := w.seenOn(m); ok && s.Serving && s.Leader != 0 || !w.sleep(w.ctx, 500*time.Millisecond) {
			return
		}
	}
}

// joinAll has the hosts join one after the other, and does what the command tells,
// until the cluster is ours. Then it takes away what ran the removed members.
func (g *generator) joinAll() {
	x, w := &g.foreign, g.w
	w.count("clusters joined")
	ours := shuffled(&x.person, slices.DeleteFunc(w.hosts(), func(m *machine) bool { return m.elsewhere }))
	said := x.person.next().chance(0.5) || x.wanted != len(x.at)
	for at := 0; !w.adopted() && w.ctx.Err() == nil && len(w.Broken()) == 0; {
		m := ours[at%len(ours)]
		members := 0
		if said {
			members = x.wanted
		}
		within := x.person.next().within(10*time.Second, 90*time.Second)
		err := errDead
		if !m.off.Load() {
			err = w.adopts(m, members, within)
		}
		switch {
		case err == nil:
			at++
		case errors.Is(err, adoption.ErrRefused), errors.Is(err, adoption.ErrAgain):
			g.heed(m, err.Error())
			said = said || strings.Contains(err.Error(), "--members says how many")
			switch there := joinsNow(ours, err.Error()); {
			case there >= 0: // what another host's run has begun, that one ends
				at = there
			case x.person.next().chance(0.5):
				at++
			}
		case x.person.next().chance(0.2):
			at++
		}
		x.rest(w, 10*time.Second)
	}
	for _, m := range x.at {
		x.rest(w, 3*time.Second)
		w.StopTheirs(m, x.person.next().chance(0.5))
	}
}

var joiningLine = regexp.MustCompile(`the host at ([^ ,;]+).* is joining`)

// joinsNow is which of the hosts the command says is joining; -1: it says of none.
func joinsNow(ours []*machine, said string) int {
	line := joiningLine.FindStringSubmatch(said)
	if line == nil {
		return -1
	}
	return slices.IndexFunc(ours, func(m *machine) bool { return strings.Contains(line[1], "//"+m.address+":") })
}

var removeLine = regexp.MustCompile(`etcdctl member remove ([0-9a-f]+)`)

// heed does what the command says that a person has to do.
func (g *generator) heed(m *machine, said string) {
	w := g.w
	if line := removeLine.FindStringSubmatch(said); line != nil {
		id, err := cluster.ParseMemberID(line[1])
		if err != nil {
			w.violate("%s: %v", said, err)
			return
		}
		if w.isLost(id) {
			g.removeByHand(id)
		}
		return
	}
	if strings.Contains(said, "empty the host, and run this again") {
		w.count("hosts emptied by a person")
		w.Halt(m)
		w.Wipe(m)
		w.Start(m)
	}
	if strings.Contains(said, "the spec in the store asks for") {
		w.Spec(g.spec)
	}
}

// isLost is what a person finds who looks: nothing of the member is there any more,
// and no host was given it that has not begun.
func (w *World) isLost(id cluster.MemberID) bool {
	if m := w.holder(id); m != nil { // whose disk may have gone back in time
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.proc != nil && strings.Contains(m.proc.Exit(), "tocommit")
	}
	voters, learners := w.voters()
	if slices.ContainsFunc(voters, func(v cluster.Member) bool { return v.ID == id }) {
		return true
	}
	elsewhere := func(a *record.Admission) bool { // another host is to have it
		at := slices.IndexFunc(learners, func(l cluster.Member) bool { return l.ID == id })
		return at >= 0 && !slices.Equal(slices.Sorted(slices.Values(a.URLs.Peer)), learners[at].PeerURLs)
	}
	for _, m := range w.hosts() {
		m.mu.Lock()
		a := m.disk.admission
		m.mu.Unlock()
		s, _ := m.state()
		if a != nil && !m.gone.Load() && !slices.Contains(s.Carried, id) && (a.Member == id || a.Member == 0 && !slices.Contains(a.Known, id) && !elsewhere(a)) {
			return false
		}
	}
	return true
}

// removeByHand is etcdctl member remove.
func (g *generator) removeByHand(id cluster.MemberID) {
	w := g.w
	w.count("members removed by a person")
	w.tracef("", "a person removes member %s by hand", id)
	w.mu.Lock()
	w.gaveUp = append(w.gaveUp, id)
	w.mu.Unlock()
	for _, h := range w.hosts() {
		ctx, cancel := context.WithTimeout(w.ctx, etcd.CallTimeout)
		err := w.etcd.Member(h.ID()).Remove(ctx, id)
		cancel()
		w.step()
		if !errors.Is(err, etcd.ErrUnreachable) && !errors.Is(err, etcd.ErrLearner) {
			w.tracef("", "it was asked at %s: %v", h.name, err)
			return
		}
	}
}

// awaitTaken waits for the person who takes the cluster over to be done.
func (g *generator) awaitTaken() bool {
	x, w := &g.foreign, g.w
	for began := time.Now(); x.on && !x.over.Load(); {
		if len(w.Broken()) > 0 || !w.sleep(w.ctx, time.Second) {
			return false
		}
		if time.Since(began) > takeOverWithin {
			w.violate("within %s the person has not taken the cluster over", takeOverWithin)
			return false
		}
	}
	return true
}
