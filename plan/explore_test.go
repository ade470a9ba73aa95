package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// A small world is explored breadth first: from every state everything that may
// happen next is tried, as long as the budget of faults lasts, and a state that
// was seen before is not tried again. So not the likely schedules but all of
// them are held against the laws, up to the bound.
//
// What the leader does is deterministic; what is chosen is what happens to it and
// to the hosts. Faults cost of the budget, and what ends them is free:
//
//	step       the leader looks, decides, and its action is carried out at once
//	hold       it decides, and is paused before the action goes out (fault)
//	land       what was held goes out, whoever leads by then
//	again      the same, and a second copy of it stays on its way (fault)
//	slow       a membership call passes its guard, and its host is paused (fault)
//	call       that host goes on
//	lead H     another host believes that it leads (fault)
//	down H     the machine goes off (fault), up H
//	dead H     the process ends and is not restarted yet (fault), mend H
//	gap H      the daemon does not answer (fault), mend H
//	wipe H     the machine comes back with an empty disk (fault)
//	store      the store does not answer (fault), and answers again
//	fails      what the leader has decided on is refused, or does not get there (fault)
//	sleep      nobody looks for longer than what was watched counts (fault)
//	back       the clocks go back (fault)
//	leave H    a person's step towards taking a host out, in some of the worlds (fault)
//	move H     a person's step towards giving raft's leadership to a host (fault)
type smallWorld struct {
	*world
	people bool // give commands
	held   *heldAction
	flight *flight
	faults int // that may still happen

	served uint64               // the highest generation that has served clients
	born   map[birth]birthplace // where members were started first; replaced, never changed in place
	struck bool                 // a fault took a member away since the held action was decided on
}

type birth struct {
	cluster cluster.ClusterID
	member  cluster.MemberID
}

type birthplace struct {
	disk cluster.DiskID
	host cluster.HostID
}

// heldAction is what a paused leader had decided on.
type heldAction struct {
	action *decision.Action
	fence  cluster.Fence
	at     time.Time
	store  *cluster.Intent
	landed bool // one copy has
}

// flight is a membership call between its guard and etcd.
type flight struct {
	op decision.HostOp
	at time.Time
}

// move is one thing that may happen.
type move struct {
	name string
	host cluster.HostID
}

// leads: it is the leader's, and begins with a look.
func (m move) leads() bool {
	return m.name == "step" || m.name == "hold" || m.name == "slow" || m.name == "fails"
}

func (m move) String() string { return strings.TrimSpace(m.name + " " + string(m.host)) }

func (s *smallWorld) clone() *smallWorld {
	w := *s.world
	w.hosts = make([]*worldHost, len(s.hosts))
	for i, h := range s.hosts {
		c := *h
		c.SetAside = slices.Clip(c.SetAside)
		w.hosts[i] = &c
	}
	w.clusters = make([]*worldCluster, len(s.clusters))
	for i, c := range s.clusters {
		n := *c
		n.members, n.alarms = slices.Clone(c.members), slices.Clone(c.alarms)
		if c.formats != nil {
			n.formats = make(map[cluster.MemberID]cluster.Version, len(c.formats))
			for k, v := range c.formats {
				n.formats[k] = v
			}
		}
		w.clusters[i] = &n
	}
	w.queue.commands, w.queue.backups, w.queue.ended = slices.Clone(w.queue.commands), slices.Clip(w.queue.backups), slices.Clip(w.queue.ended)
	n := *s
	n.world = &w
	return &n
}

// moves are those that are possible now, free ones first.
func (s *smallWorld) moves() []move {
	ms := make([]move, 0, 24)
	if s.flight != nil {
		ms = append(ms, move{name: "call"})
	}
	// A host gives a call up after five seconds, and so time stops before.
	if s.flight == nil || s.now.Sub(s.flight.at) < 4*time.Second {
		ms = append(ms, move{name: "step"})
	}
	if s.held != nil {
		ms = append(ms, move{name: "land"})
	}
	for _, h := range s.hosts {
		switch {
		case h.down:
			ms = append(ms, move{"up", h.Host})
		case h.dead, h.gap != "" && (s.flight == nil || s.flight.op.Host != h.Host):
			ms = append(ms, move{"mend", h.Host})
		}
	}
	if s.store.silent {
		ms = append(ms, move{name: "answers"})
	}
	if s.faults == 0 {
		return ms
	}
	if s.held == nil {
		ms = append(ms, move{name: "hold"})
	} else if !s.held.landed {
		ms = append(ms, move{name: "again"})
	}
	if s.flight == nil {
		ms = append(ms, move{name: "slow"})
	}
	ms = append(ms, move{name: "fails"})
	if s.flight == nil && s.held == nil {
		ms = append(ms, move{name: "sleep"}, move{name: "back"})
	}
	for _, h := range s.hosts {
		if h.down {
			continue
		}
		ms = append(ms, move{"down", h.Host})
		if s.flight == nil || s.flight.op.Host != h.Host {
			ms = append(ms, move{"wipe", h.Host})
		}
		if h.gap == "" {
			ms = append(ms, move{"gap", h.Host})
			if h.Host != s.leader {
				ms = append(ms, move{"lead", h.Host})
			}
		}
		if h.runs() {
			ms = append(ms, move{"dead", h.Host})
		}
		if s.people {
			ms = append(ms, move{"leave", h.Host}, move{"move", h.Host})
		}
	}
	if !s.store.silent {
		ms = append(ms, move{name: "silent"})
	}
	return ms
}

// wasted: the move does nothing, and the state after it is not looked at.
var errWasted = fmt.Errorf("nothing happens")

// make carries out a move that is not the leader's, and says what is wrong with that.
func (s *smallWorld) make(m move) (broken []string) {
	h := s.host(m.host)
	switch m.name {
	case "land", "again":
		return s.land(m.name == "again")
	case "call":
		return s.callNow()
	case "leave":
		return s.ordered(decision.Goal{Kind: decision.Leave, Host: m.host, Hold: true})
	case "move":
		return s.ordered(decision.Goal{Kind: decision.MoveLeader, Host: m.host})
	case "up":
		h.down = false
	case "mend":
		h.gap, h.dead = "", false
	case "answers":
		s.store.silent = false
	default:
		s.fault(m, h)
	}
	s.elect()
	return nil
}

func (s *smallWorld) fault(m move, h *worldHost) {
	s.faults--
	switch m.name {
	case "down":
		h.down, s.struck = true, true
		if s.flight != nil && s.flight.op.Host == h.Host {
			s.flight, h.gap = nil, ""
		}
	case "dead":
		h.dead, s.struck = true, true
	case "gap":
		h.gap = string(cluster.GapUnreachable)
	case "wipe":
		s.struck = true
		was := h.gap
		s.wipe(h, "")
		h.gap = was
	case "lead":
		s.lead(h.Host)
	case "silent":
		s.store.silent = true
	case "sleep":
		s.pass(cluster.MaxUnwatched + time.Second)
	case "back":
		s.now = s.now.Add(-20 * time.Second)
	default:
		panic("no move " + m.name)
	}
}

// look is what the leader sees and decides.
func (s *smallWorld) look() (dec decision.Decision, broken []string) {
	if l := s.host(s.leader); l.down || l.gap != "" {
		s.handover() // a host that is not there does not lead
	}
	dec, broken = s.decide(decision.Goal{Kind: decision.Converge})
	if goal, is := offered(dec); is { // a person types it
		var more []string
		dec, more = s.decide(goal)
		broken = append(broken, more...)
	}
	return dec, broken
}

func (s *smallWorld) decide(goal decision.Goal) (dec decision.Decision, broken []string) {
	o := s.observe()
	dec = Next(goal, o)
	return dec, brokenLaws(goal, o, dec)
}

// ordered: a person hands a goal to the leader, which takes one step towards it.
func (s *smallWorld) ordered(goal decision.Goal) (broken []string) {
	s.faults--
	if l := s.host(s.leader); l.down || l.gap != "" {
		return nil
	}
	dec, broken := s.decide(goal)
	if dec.Action != nil {
		calm := s.held == nil && s.flight == nil
		more, refused := s.carryOut(dec.Action, false)
		if broken = append(broken, more...); refused != nil && calm {
			broken = append(broken, fmt.Sprintf("%s is refused at once: %v", dec.Action, refused))
		}
	}
	s.pass(time.Second)
	return broken
}

// decided is what becomes of a decision.
func (s *smallWorld) decided(how string, dec decision.Decision) (broken []string, err error) {
	switch {
	case dec.Action == nil && how != "step":
		return nil, errWasted
	case dec.Action == nil:
		s.pass(idle(dec))
		return nil, nil
	case how == "hold":
		s.faults--
		s.held, s.struck = &heldAction{action: dec.Action, fence: s.fence, at: s.now, store: s.store.intent}, false
	case how == "fails":
		s.faults--
	case how == "slow":
		if dec.Action.Kind != decision.ActHosts || !dec.Action.Ops[0].Op.Kind.Membership() {
			return nil, errWasted
		}
		op := dec.Action.Ops[0]
		h := s.host(op.Host)
		if h.Promised != s.fence || s.guarded(h, op.Guard) != nil {
			return nil, errWasted
		}
		s.faults--
		h.gap, h.at, s.flight, s.struck = string(cluster.GapBusy), op.Op.Kind, &flight{op: op, at: s.now}, false
	default:
		calm := s.held == nil && s.flight == nil
		var refused error
		broken, refused = s.carryOut(dec.Action, false)
		if refused != nil && calm {
			broken = append(broken, fmt.Sprintf("%s is refused at once: %v", dec.Action, refused))
		}
	}
	s.pass(time.Second)
	return broken, nil
}

// idle is how long it takes to the next look.
func idle(d decision.Decision) time.Duration {
	switch {
	case d.Again == 0 || d.Again > 5*time.Second:
		return 5 * time.Second
	case d.Again <= time.Second:
		return time.Second
	}
	return d.Again.Round(time.Second)
}

// pass lets time go by; a member that was started serves after a while, also one
// that nobody looks at.
func (s *smallWorld) pass(d time.Duration) {
	s.advance(d)
	for _, h := range s.hosts {
		if h.quiet > 0 {
			h.quiet--
		}
	}
	s.elect()
	if s.held != nil && s.now.Sub(s.held.at) > cluster.MaxStampAge && s.held.action.Kind == decision.ActHosts {
		s.held = nil // every host refuses it now
	}
}

// carryOut has the action done, and looks whether it took a quorum away that it was
// not allowed to take. excused: a member went away since it was decided on.
func (s *smallWorld) carryOut(a *decision.Action, excused bool) (broken []string, err error) {
	before := s.serving()
	err = s.act(a)
	for _, o := range a.Ops {
		if h := s.host(o.Host); err == nil && o.Op.Kind == cluster.OpRestart {
			h.quiet = max(h.quiet, 1)
		}
	}
	s.elect()
	for _, c := range before {
		if !excused && !s.hasQuorum(c) && !s.mayEnd(c) {
			broken = append(broken, fmt.Sprintf("%s takes the quorum of cluster %s away", a, c.id))
		}
	}
	return broken, err
}

// serving are the clusters that have a quorum.
func (s *smallWorld) serving() (out []*worldCluster) {
	for _, c := range s.clusters {
		if n, _ := s.voters(c); n > 2 && s.hasQuorum(c) {
			out = append(out, c)
		}
	}
	return out
}

// mayEnd: a written intent stops the cluster, or asks for its halt.
func (s *smallWorld) mayEnd(c *worldCluster) bool {
	in := s.store.intent
	return in != nil && (in.Generation > c.generation || in.Halted() != nil)
}

func (s *smallWorld) land(again bool) []string {
	p := s.held
	if again {
		s.faults--
		q := *p
		q.landed = true
		s.held = &q
	} else {
		s.held = nil
	}
	if p.action.Kind == decision.ActIntent && !sameIntent(p.store, s.store.intent) {
		s.held = nil // the store refuses it, now and later
		return nil
	}
	if p.action.Kind == decision.ActHosts && (p.landed || s.now.Sub(p.at) > cluster.MaxStampAge) {
		s.held = nil // one observation is good for one op, and for a while
		return nil
	}
	now := s.fence
	s.fence = p.fence
	broken, _ := s.carryOut(p.action, s.struck) // a host may refuse it by now
	s.fence = now
	return broken
}

func sameIntent(a, b *cluster.Intent) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Nonce == b.Nonce && a.Order(b) == 0)
}

func (s *smallWorld) callNow() []string {
	f := s.flight
	h := s.host(f.op.Host)
	h.gap, s.flight = "", nil
	before := s.serving()
	_ = s.member(h, f.op) // etcd may refuse it by now
	s.elect()
	var broken []string
	for _, c := range before {
		if !s.struck && !s.hasQuorum(c) && !s.mayEnd(c) {
			broken = append(broken, fmt.Sprintf("%s, late, takes the quorum of cluster %s away", f.op.Op, c.id))
		}
	}
	return broken
}

// unsound says what must not be in any state.
func (s *smallWorld) unsound() (broken []string) {
	if s.wrong != "" {
		broken = append(broken, s.wrong)
	}
	seen := map[birth]cluster.HostID{}
	for _, h := range s.hosts {
		if h.Local.Member == 0 || !h.Local.HasData || h.Local.State != cluster.MemberStarted {
			continue
		}
		b := birth{h.Local.Cluster, h.Local.Member}
		if other, twice := seen[b]; twice {
			broken = append(broken, fmt.Sprintf("hosts %s and %s both carry member %s", other, h.Host, b.member))
		}
		seen[b] = h.Host
		switch at, known := s.born[b]; {
		case !known:
			grown := make(map[birth]birthplace, len(s.born)+1)
			for k, v := range s.born {
				grown[k] = v
			}
			grown[b] = birthplace{h.Disk, h.Host}
			s.born = grown
		case at.disk != h.Disk:
			broken = append(broken, fmt.Sprintf("member %s began on disk %s of host %s, and is on disk %s of host %s", b.member, at.disk, at.host, h.Disk, h.Host))
		}
	}
	for b, at := range s.born {
		h := s.host(at.host)
		if h == nil || h.Disk != at.disk || h.Local.Member == b.member && h.Local.Cluster == b.cluster {
			continue
		}
		if !slices.ContainsFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Member == b.member && a.Cluster == b.cluster }) {
			broken = append(broken, fmt.Sprintf("the data of member %s is gone from host %s", b.member, h.Host))
		}
	}
	serving := 0
	for _, c := range s.clusters {
		if !s.hasQuorum(c) {
			continue
		}
		serving++
		if c.generation < s.served {
			broken = append(broken, fmt.Sprintf("generation %d serves after generation %d did", c.generation, s.served))
		}
		s.served = max(s.served, c.generation)
	}
	if serving > 1 {
		broken = append(broken, "two clusters serve")
	}
	return broken
}

// ruined: so many disks were lost that the newest cluster cannot have a quorum
// again, or one of a cluster that is not ours yet, and a person has to say what is
// to be done.
func (s *smallWorld) ruined() bool {
	if len(s.clusters) == 0 {
		return false
	}
	c := s.clusters[len(s.clusters)-1]
	n, have := 0, 0
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		n++
		if s.carrier(c, m.ID) != nil {
			have++
		}
	}
	return have < cluster.Quorum(n) || have < n && s.store.intent.Adopted()
}

// takenBack: every voter is up, and a change of version that needs an outage waits
// for another word of a person, since the first one was used in vain. Or the only
// founder of a generation from data lost its disk, and what a person may do is said.
func (s *smallWorld) takenBack(dec decision.Decision) bool {
	in := s.store.intent
	if dec.Action != nil || in == nil || in.Halt == nil {
		return false
	}
	said := func(b decision.Blocker) bool {
		return b.Code == "founder-forgot" && b.Command != "" || b.Code == "version" && in.Halt.Ended != "" && dec.Rule == "steady"
	}
	return slices.ContainsFunc(dec.Blockers, said)
}

func (s *smallWorld) healed() bool {
	return !s.store.silent && s.flight == nil && !slices.ContainsFunc(s.hosts, func(h *worldHost) bool { return h.down || h.dead || h.gap != "" })
}

func mustRun(t testing.TB, w *world) {
	t.Helper()
	if d, err := w.run(decision.Goal{Kind: decision.Converge}, mostActions, false, func(*cluster.Observation, decision.Decision, error) {}); err != nil || !d.Done {
		t.Fatalf("the world does not come to rest: %s%v", describe(d), err)
	}
}
