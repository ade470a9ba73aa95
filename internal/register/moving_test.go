package register_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The small worlds of a move of the record between its hosts and a store (docs/adr/035): every order of the steps of movers,
// helpers, leaders and people, each of whom may stop for ever, or go on a year later, after any step.
//
// This is a model of the protocol, and no code of it ships yet. The hosts' record is one value, replaced as a whole on a condition:
// that is what the other small worlds hold of the code. A store has objects that are written one at a time, and whose tags are
// their contents.

// markKind is what the created marker of a place says.
type markKind byte

const (
	absent markKind = iota
	claim           // made ready for a move, and not in force
	inForce
	moved  // sealed: another place counts, or will
	frozen // a move is made ready: nothing is written, and whoever leads may end it
	void   // a claim that can never count
)

// mark is a created marker, or the same of the hosts' record. It keeps what the intent says.
type mark struct {
	kind  markKind
	name  int8  // of a claim its own; of a seal that of the next place
	from  int8  // of a claim: the place that it is to follow
	write int8  // of the intent
	ran   uint8 // commands that were run, as bits
}

// mvPlace is where the record may be.
type mvPlace struct {
	mark  mark
	spec  int8 // -1: none
	queue uint8
}

type mvActor struct {
	at    int8 // the next step; over: none
	self  int8
	place int8
	name  int8
	had   mvPlace // what was read
	now   int8    // what the write is of: a spec, or a command
	done  bool    // the write was made while its place counted
}

const over = 127

type mvState struct {
	places [4]mvPlace
	actors [5]mvActor
	// What has to hold is said of these, and no actor reads them.
	spec   int8    // the last one that was written where the record was
	maybe  uint8   // specs, as bits, that were written while the place was frozen: their writers wait for how that ends
	queued uint8   // commands that were queued where the record was
	not    uint8   // commands whose writer was told that they are not queued
	runs   [2]int8 // how often each was run
	wrong  string

	offered bool // the host that recovers has an offer
	making  bool // … and makes the record again, and takes no offer any more
	again   bool // the record was made again: the first place is of hosts that were given up
}

// mvRole is what an actor does.
type mvRole struct {
	what  string // move, help, lead, spec, command, recover
	from  int8   // the place that it begins at
	to    int8   // of a mover
	value int8
}

type mvWorld struct {
	name   string
	stores []int8 // the places that are stores; the others are the hosts'
	first  mvPlace
	roles  []mvRole
	broken string // a rule that is off
}

func (w *mvWorld) store(p int8) bool { return slices.Contains(w.stores, p) }

// target is the place that a name is of: that of the mover who minted it.
func (w *mvWorld) target(name int8) int8 { return w.roles[name-1].to }

func (s *mvState) fail(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

// step takes the next step of an actor.
func (w *mvWorld) step(s *mvState, i int) {
	r, a := w.roles[i], &s.actors[i]
	switch r.what {
	case "move":
		w.move(s, i, r, a)
	case "help":
		w.help(s, a, 0)
	case "lead":
		w.lead(s, a)
	case "recover":
		w.recover(s, r, a)
	default:
		w.write(s, r, a)
	}
}

const helping = 20 // the first step of a mover who has sealed

func (w *mvWorld) move(s *mvState, i int, r mvRole, a *mvActor) {
	from, to := &s.places[r.from], &s.places[r.to]
	if a.at >= helping {
		a.place = r.from
		w.help(s, a, helping)
		return
	}
	switch a.at {
	case 0: // look: nobody waits for anything
		a.name, a.had = int8(i+1), *from
		a.at = 1
		switch {
		case from.mark.kind != inForce, from.queue != 0 && w.broken != "leaves commands behind":
			a.at = over
		case w.store(r.from):
			a.at = 10
		}
	case 1: // whether the next place is free; of the hosts' records each has a name of its own, and they lie side by side
		a.at = 2
		a.place = int8(to.mark.kind)
		a.now, a.had.mark.from = to.mark.name, to.mark.from
		switch k := to.mark.kind; {
		case k == inForce, k == moved:
			a.at = over
		case k == claim && to.mark.from > r.from && w.broken != "claims over a later place's": // that place was made from this one
			a.at = over
		case k == void && to.mark.from == r.from && w.broken != "claims over a void": // that move is over, and who sealed it may not find a claim again
			a.at = over
		}
	case 2: // claim it
		a.at = 3
		if int8(to.mark.kind) != a.place || to.mark.name != a.now || to.mark.from != a.had.mark.from {
			a.at = over
			return
		}
		to.mark = mark{kind: claim, name: a.name, from: r.from}
	case 3: // is the claim there still?
		a.at = 6
		switch {
		case to.mark.kind != claim || to.mark.name != a.name:
			a.at = over
		case s.making: // the offer is refused
			a.at = over
		case w.broken == "copies first":
			a.at = 4
		case w.broken == "no seal":
			to.mark, to.spec = mark{kind: inForce, write: a.had.mark.write, ran: a.had.mark.ran}, a.had.spec
			a.at = over
		}
		s.offered = s.offered || a.at != over
	case 4:
		to.spec, a.at = a.had.spec, 6
	case 6: // seal, over all that the hosts' record says
		a.had.mark.from = from.mark.from
		a.at = over
		if *from == a.had {
			from.mark.kind, from.mark.name = moved, a.name
			a.at = helping
		}
	default:
		w.moveBack(s, r, a, from, to)
	}
}

// moveBack is a mover from a store to the hosts: it freezes the store, and what is to count is ready before the seal.
func (w *mvWorld) moveBack(s *mvState, r mvRole, a *mvActor, from, to *mvPlace) {
	next := func(ok bool, at int8) {
		if a.at = over; ok {
			a.at = at
		}
	}
	switch a.at {
	case 10:
		same := from.mark == a.had.mark
		if same && w.broken != "no freeze" {
			from.mark.kind, from.mark.name = frozen, a.name
			from.mark.write++ // so that no write of a move before fits
		}
		a.had.mark = from.mark
		next(same, 11)
	case 11:
		next(true, 12)
		if from.queue != 0 && w.broken != "leaves commands behind" {
			a.at = 15
		}
	case 12:
		a.had.spec, a.at = from.spec, 13
	case 13: // a claim with all that is to count; each has its own file on the hosts
		*to, a.at = mvPlace{mark: mark{kind: claim, name: a.name, from: r.from, write: a.had.mark.write, ran: a.had.mark.ran}, spec: a.had.spec}, 14
	case 14:
		same := from.mark == a.had.mark
		if same {
			from.mark.kind, from.mark.name = moved, a.name
		}
		next(same, helping)
	case 15:
		s.thaw(from, a.had.mark)
		a.at = over
	}
}

// thaw ends what froze a store: what was written meanwhile counts.
func (s *mvState) thaw(p *mvPlace, seen mark) {
	if p.mark == seen && seen.kind == frozen {
		p.mark.kind, p.mark.name = inForce, 0
		p.mark.write++
		s.spec, s.maybe, s.queued = p.spec, 0, s.queued|p.queue
	}
}

// told is a person who is told that a write counts.
func (s *mvState) told(a *mvActor) {
	if !a.done && s.places[a.place].mark.kind != inForce {
		s.fail("a person was told that a write counts, and it does not")
	}
}

// help goes on from a seal, and is anybody's.
func (w *mvWorld) help(s *mvState, a *mvActor, base int8) {
	from := &s.places[a.place]
	next := func(at int8) { a.at = base + at }
	if a.at == base {
		if from.mark.kind != moved {
			a.at = over
			return
		}
		a.name = from.mark.name
		a.had = *from // a record of the hosts, as a whole; of a store only its name is used
		next(1)
		return
	}
	to := &s.places[w.target(a.name)]
	if !w.store(w.target(a.name)) {
		if to.mark.kind == claim && to.mark.name == a.name { // ready as it is
			to.mark.kind, to.mark.name, to.mark.from = inForce, 0, 0
		}
		a.at = over
		return
	}
	switch a.at - base {
	case 1: // any claim from this place will do: the seal of the mover who made it can never come
		a.now, a.at = to.mark.name, over
		if to.mark.kind == claim && w.goesBy(to.mark, a) && (a.now == a.name || w.broken != "its own claim only") {
			next(3)
		}
	case 3:
		if to.spec == -1 || w.broken == "copies over" {
			to.spec = a.had.spec
		}
		next(5)
		if to.spec != a.had.spec {
			a.at = over // somebody else's: a person is told
		}
	case 5:
		a.at = over
		if to.mark.kind == claim && to.mark.name == a.now && w.goesBy(to.mark, a) || w.broken == "in force over anything" {
			to.mark = mark{kind: inForce, write: a.had.mark.write, ran: a.had.mark.ran}
		}
	}
}

// goesBy tells whether a claim is to follow the place whose seal an actor has read.
func (w *mvWorld) goesBy(m mark, a *mvActor) bool {
	return m.from == a.place || w.broken == "goes by any claim"
}

// find goes on to where the record is now. It tells whether it is there.
func (w *mvWorld) find(s *mvState, a *mvActor) bool {
	switch m := s.places[a.place].mark; m.kind {
	case frozen: // it is waited for
		if w.roles[a.self].what == "lead" { // who leads ends what another left
			s.thaw(&s.places[a.place], m)
		}
	case inForce:
		a.had = s.places[a.place]
		a.at++
		return true
	case moved:
		a.place = w.target(m.name)
	default:
		a.at = over
	}
	return false
}

// lead runs one command of the queue, and takes it out.
func (w *mvWorld) lead(s *mvState, a *mvActor) {
	p := &s.places[a.place]
	switch a.at {
	case 0:
		w.find(s, a)
	case 1: // the queue
		a.at, a.now = over, 0
		for c := range int8(2) {
			if p.queue>>c&1 == 1 && (a.had.mark.ran>>c&1 == 0 || w.broken == "run again") {
				a.now, a.at = c, 2
				break
			}
		}
	case 2: // it is written down first
		if p.mark != a.had.mark {
			a.at = over
			return
		}
		p.mark.write++
		p.mark.ran |= 1 << a.now
		s.runs[a.now]++
		a.at = 3
	case 3:
		a.at = over
		if w.store(a.place) || p.mark.kind == inForce {
			p.queue &^= 1 << a.now
		}
	}
}

// write is a person's: a spec, over what is there, or a command.
func (w *mvWorld) write(s *mvState, r mvRole, a *mvActor) {
	p := &s.places[a.place]
	switch a.at {
	case 0:
		w.find(s, a)
	case 1:
		a.had.spec, a.at = p.spec, 2
	case 2:
		a.done = p.mark.kind == inForce
		a.at = over
		switch {
		case !w.store(a.place) && !a.done: // refused: the record has a last value
			return
		case r.what == "command":
			p.queue |= 1 << r.value
			if a.done {
				s.queued |= 1 << r.value
			}
		case p.spec != a.had.spec:
			return
		default:
			p.spec = r.value
			switch p.mark.kind {
			case inForce:
				s.spec, s.maybe = r.value, 0
			case frozen:
				s.maybe |= 1 << r.value
			}
		}
		if a.at = 3; !w.store(a.place) {
			s.told(a)
			a.at = over
		}
	case 3: // in a store: whether it counted
		switch {
		case p.mark.kind == frozen && w.broken != "does not look afterwards": // it is waited for
			return
		case p.mark.kind == inForce || p.mark.kind == frozen || w.broken == "does not look afterwards":
			s.told(a)
		case r.what == "command": // whether it is in the next place, by its ID: it was run before, or is not queued
			if w.broken != "answers at once" {
				a.at, a.place = 4, w.target(p.mark.name)
				return
			}
			s.not |= 1 << r.value
		}
		a.at = over
	case 4:
		switch p.mark.kind {
		case moved:
			a.place = w.target(p.mark.name)
			return
		case inForce:
		default: // it is waited for
			return
		}
		if a.at = over; p.mark.ran>>r.value&1 == 0 {
			s.not |= 1 << r.value
		}
	}
}

// recover makes the record of the first place again on one host, which does not know whether that is sealed. It looks at the
// store of the offer that it has.
func (w *mvWorld) recover(s *mvState, r mvRole, a *mvActor) {
	x := &s.places[1]
	switch a.at {
	case 0:
		s.making, a.at = true, 3
		if s.offered && w.broken != "recovers without a look" {
			a.at = 1
		}
	case 1:
		switch a.now = x.mark.name; x.mark.kind {
		case claim:
			a.at = 2
		case void:
			a.at = 3
		default: // it is in force there, and the host follows; or the store was emptied, and it is refused
			s.making, a.at = false, over
		}
	case 2:
		if x.mark.kind == claim && x.mark.name == a.now {
			x.mark.kind = void
		}
		a.at = 1
	case 3:
		s.again, a.at = true, over
		s.places[r.to] = s.places[0]
		s.places[r.to].mark.kind = inForce
	}
}

// check is what has to hold in every state.
func (w *mvWorld) check(s *mvState) {
	counting := -1
	for i, p := range s.places {
		if p.mark.kind != inForce || i == 0 && s.again {
			continue
		}
		if counting >= 0 {
			s.fail("places %d and %d both count", counting, i)
		}
		counting = i
	}
	for c, n := range s.runs {
		if n > 1 {
			s.fail("command %d was run %d times", c, n)
		}
		if n > 0 && s.not>>c&1 == 1 {
			s.fail("command %d was run, and its writer was told that it is not queued", c)
		}
	}
	if counting < 0 {
		return
	}
	p := s.places[counting]
	if p.spec != s.spec && (p.spec < 0 || s.maybe>>p.spec&1 == 0) {
		s.fail("the spec is %d, and %d was written last", p.spec, s.spec)
	}
	if lost := s.queued &^ (p.queue | p.mark.ran); lost != 0 {
		s.fail("commands %b are lost", lost)
	}
	for c, n := range s.runs {
		if n > 0 && p.mark.ran>>c&1 == 0 {
			s.fail("that command %d was run is forgotten", c)
		}
	}
}

// helped is the state after one helper, who is alone, has gone on from every seal: then one place has to count. Else a crash at
// this moment would strand the cluster. A recovery that put its void has ended for good by then: a person, who sees that no record was made
// again, has a void claimed anew (moving.Follower.Reclaim), and what a recovery goes by is too old after that wait (keeper.Again).
func (w *mvWorld) helped(s mvState) mvState {
	for p := range s.places {
		s.thaw(&s.places[p], s.places[p].mark)
		if s.places[p].mark.kind != moved {
			continue
		}
		if x := w.target(s.places[p].mark.name); w.store(x) && s.places[x].mark.kind == void && s.places[x].mark.from == int8(p) && !s.again && w.broken != "nobody claims again" {
			s.places[x].mark.kind, s.places[x].mark.name = claim, s.places[p].mark.name
		}
		a := mvActor{place: int8(p)}
		for n := 0; a.at != over && n < 100; n++ {
			w.help(&s, &a, 0)
		}
	}
	return s
}

type mvExplorer struct {
	w     *mvWorld
	seen  map[mvState]struct{}
	path  []string
	found string
	ends  [4]int // in how many states a place counts in the end
	runs  int    // in how many a command was run
}

func (x *mvExplorer) explore(s mvState) {
	if _, ok := x.seen[s]; ok || x.found != "" {
		return
	}
	x.seen[s] = struct{}{}
	x.w.check(&s)
	after := x.w.helped(s)
	x.w.check(&after)
	counting := 0
	for i, p := range after.places {
		if p.mark.kind == inForce {
			counting++
			x.ends[i]++
		}
	}
	if counting == 0 {
		s.fail("nothing counts, and neither a helper nor a person changes that")
	}
	if s.runs[0]+s.runs[1] > 0 {
		x.runs++
	}
	if why := s.wrong + after.wrong; why != "" {
		x.found = why + "\n  " + strings.Join(x.path, "\n  ")
		return
	}
	for i, r := range x.w.roles {
		if s.actors[i].at == over {
			continue
		}
		next := s
		x.path = append(x.path, fmt.Sprintf("%d %s: step %d", i, r.what, s.actors[i].at))
		x.w.step(&next, i)
		x.explore(next)
		x.path = x.path[:len(x.path)-1]
	}
}

func (w *mvWorld) run() *mvExplorer {
	s := mvState{spec: w.first.spec, queued: w.first.queue}
	for i := range s.places {
		s.places[i].spec = -1
	}
	s.places[0] = w.first
	for i := range s.actors {
		s.actors[i].at = over
		if i < len(w.roles) {
			s.actors[i] = mvActor{self: int8(i), place: w.roles[i].from}
		}
	}
	x := &mvExplorer{w: w, seen: map[mvState]struct{}{}}
	x.explore(s)
	return x
}

var (
	waits  = mvPlace{queue: 1} // a command is queued at first
	toX    = mvRole{what: "move", from: 0, to: 1}
	helper = mvRole{what: "help"}
	leader = mvRole{what: "lead"}
	// Person's words: another spec, the first one again, a command.
	other = mvRole{what: "spec", value: 1}
	back  = mvRole{what: "spec", value: 0}
	queue = mvRole{what: "command", value: 1}
	again = mvRole{what: "recover", to: 3}
)

var movingWorlds = []mvWorld{
	{name: "two movers to one store", stores: []int8{1}, roles: []mvRole{toX, toX, helper, other, back}},
	{name: "two movers to one store, and a command", stores: []int8{1}, roles: []mvRole{toX, toX, helper, queue, leader}},
	{name: "two movers to two stores", stores: []int8{1, 2}, roles: []mvRole{toX, {what: "move", to: 2}, helper, other, queue}},
	{name: "a late helper", stores: []int8{1}, roles: []mvRole{toX, helper, helper, other, back}},
	{name: "a late helper, and commands", stores: []int8{1}, first: waits, roles: []mvRole{toX, helper, queue, leader, leader}},
	{name: "two movers back", stores: []int8{0}, roles: []mvRole{toX, {what: "move", to: 2}, other, back, leader}},
	{name: "two movers back, and commands", stores: []int8{0}, first: waits, roles: []mvRole{toX, {what: "move", to: 2}, queue, leader, leader}},
	{name: "back, and late helpers", stores: []int8{0}, roles: []mvRole{toX, helper, helper, other, leader}},
	{name: "there and back", stores: []int8{1}, roles: []mvRole{toX, {what: "move", from: 1, to: 2}, helper, other, leader}},
	{name: "there and back, and commands", stores: []int8{1}, roles: []mvRole{toX, {what: "move", from: 1, to: 2}, helper, queue, leader}},
	{name: "made again after half a move", stores: []int8{1}, roles: []mvRole{toX, helper, again}},
	{name: "made again while two move", stores: []int8{1}, roles: []mvRole{toX, toX, helper, again}},
	{name: "made again, and moved once more", stores: []int8{1}, roles: []mvRole{toX, toX, helper, again, {what: "move", from: 3, to: 1}}},
}

// Each of these rules is off in a world that then breaks.
var brokenMoves = []mvWorld{
	{broken: "no seal", stores: []int8{1}, roles: []mvRole{toX}},
	{broken: "copies first", stores: []int8{1}, roles: []mvRole{toX, toX, other}},
	{broken: "copies over", stores: []int8{1}, roles: []mvRole{toX, helper, other}},
	{broken: "in force over anything", stores: []int8{1}, roles: []mvRole{toX, helper, queue, leader}},
	{broken: "its own claim only", stores: []int8{1}, roles: []mvRole{toX, toX}},
	{broken: "run again", stores: []int8{1}, first: waits, roles: []mvRole{leader, leader}},
	{broken: "leaves commands behind", stores: []int8{1}, roles: []mvRole{toX, queue}},
	{broken: "no freeze", stores: []int8{0}, roles: []mvRole{toX, other}},
	{broken: "does not look afterwards", stores: []int8{0}, roles: []mvRole{toX, other}},
	{broken: "answers at once", stores: []int8{0}, roles: []mvRole{toX, queue, leader}},
	{broken: "recovers without a look", stores: []int8{1}, roles: []mvRole{toX, again}},
	{broken: "nobody claims again", stores: []int8{1}, roles: []mvRole{toX, toX, again}},
	{broken: "claims over a void", stores: []int8{1}, roles: []mvRole{toX, toX, helper, again}},
	{broken: "claims over a later place's", stores: []int8{1}, roles: []mvRole{toX, toX, helper, again, {what: "move", from: 3, to: 1}}},
	{broken: "goes by any claim", stores: []int8{1}, roles: []mvRole{toX, helper, again, {what: "move", from: 3, to: 1}}},
	{broken: "one claim takes the place of another", stores: []int8{0}, roles: []mvRole{toX, toX, leader}},
}

// commands tells whether there are any.
func (w *mvWorld) commands() bool {
	return w.first.queue != 0 || slices.ContainsFunc(w.roles, func(r mvRole) bool { return r.what == "command" })
}

func TestMovingWorlds(t *testing.T) {
	for _, w := range movingWorlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.first.mark.kind = inForce
			x := w.run()
			if x.found != "" {
				t.Fatal(x.found)
			}
			for _, r := range w.roles {
				if r.what == "move" && x.ends[r.to] == 0 || r.what == "lead" && x.runs == 0 && w.commands() || r.what == "recover" && x.ends[r.to] == 0 {
					t.Errorf("nothing ever comes of %q", r.what)
				}
			}
			t.Logf("%d states; each place counts in the end in %v of them", len(x.seen), x.ends)
		})
	}
}

func TestRulesOfMovesAreNeeded(t *testing.T) {
	for _, w := range brokenMoves {
		t.Run(w.broken, func(t *testing.T) {
			w.first.mark.kind = inForce
			if x := w.run(); x.found == "" {
				t.Fatal("nothing breaks")
			} else {
				t.Log(x.found) // the schedule
			}
		})
	}
}
