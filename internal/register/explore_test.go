package register

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"

	"etcdadm.io/cluster"
)

// large explores worlds that take minutes.
var large = flag.Bool("large", false, "explore the worlds that take minutes")

// The small worlds try every schedule: each message is handled never, once or often, at once or long after its sender was
// given up; each answer comes or is lost; proposers stop anywhere and try again.
//
// An answer that comes late adds nothing to one that comes at once or is lost: what a proposer makes of a set of answers does
// not depend on their order. A Prepare of an attempt that is over is left out: it can only have others refused.

// wish is what a proposer does in a small world.
type wish string

const (
	look   wish = "look"   // a read that asks for no promise
	decide wish = "decide" // a read that decides
	write  wish = "write"
	once   wish = "once" // a write if absent, tried again
	over   wish = "over" // a write over what is there, tried again
	del    wish = "del"
	seal   wish = "seal"
)

// again tells whether further attempts of an operation are tries of one Write.
func again(w wish) bool { return w == once || w == del || w == over }

func add(k int) wish  { return wish(fmt.Sprintf("+%d", k)) }
func drop(k int) wish { return wish(fmt.Sprintf("-%d", k)) }

// smallWorld is how one begins.
type smallWorld struct {
	name     string
	hosts    int
	keepers  []int    // of the first document
	plans    [][]wish // of each proposer, one operation after the other
	attempts int      // of each operation
	large    bool
	// broken is a rule that is off. The world is to find out.
	broken string
}

// attempt is one proposer's attempt.
type attempt struct {
	*Proposer
	plan, try int
	before    []int // results that were there when the operation began
	began     bool
	written   Write // what is known of the attempts before
}

// worldState is one state. Attempts are copied when they change.
type worldState struct {
	keepers  []Keeper
	at       []attempt
	messages []int
	accepted []acceptance
	results  []int    // documents that operations gave
	refused  []string // tags of writes whose condition did not hold
}

type acceptance struct {
	entry, by int // an interned entry, and the keepers that ever accepted it, as bits
}

type messageKey struct {
	kind  Kind
	to    Seat
	entry int
}

type entryKey struct {
	ballot Ballot
	part   Part
	doc    *Document
}

type explorer struct {
	t        *testing.T
	w        smallWorld
	seats    []Seat
	seen     map[[2]uint64]struct{}
	seeds    [2]maphash.Seed
	messages []Message
	ofMsg    map[messageKey]int
	docs     []*Document
	parents  []int
	ofDoc    map[*Document]int
	made     map[string]*Document // by the document before it and the change
	entries  []Entry
	ofEntry  map[entryKey]int
	path     []func() string
	ended    map[string]int
	found    string
}

func newExplorer(t *testing.T, w smallWorld) *explorer {
	x := &explorer{t: t, w: w, seen: map[[2]uint64]struct{}{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		ofMsg: map[messageKey]int{}, ofDoc: map[*Document]int{}, made: map[string]*Document{}, ofEntry: map[entryKey]int{}, ended: map[string]int{}}
	for i := range w.hosts {
		x.seats = append(x.seats, Seat{Host: cluster.HostID(rune('A' + i)), Keeper: fmt.Sprint(i)})
	}
	return x
}

func (x *explorer) doc(d *Document, parent int) {
	x.docs, x.parents = append(x.docs, d), append(x.parents, parent)
	x.ofDoc[d] = len(x.docs) - 1
}

// known is the number of a document; one that a proposer made has its parent.
func (x *explorer) known(d *Document) int {
	if d == nil {
		return -1
	}
	id, ok := x.ofDoc[d]
	if !ok {
		x.t.Fatalf("a document from nowhere: %+v", d)
	}
	return id
}

func (x *explorer) entry(e Entry) int {
	key := entryKey{e.Ballot, e.Part, e.Doc}
	if id, ok := x.ofEntry[key]; ok {
		return id
	}
	x.entries = append(x.entries, e)
	x.ofEntry[key] = len(x.entries) - 1
	return len(x.entries) - 1
}

func (x *explorer) message(m Message) int {
	key := messageKey{m.Kind, m.To, x.entry(m.Entry)}
	if id, ok := x.ofMsg[key]; ok {
		return id
	}
	x.messages = append(x.messages, m)
	x.ofMsg[key] = len(x.messages) - 1
	return len(x.messages) - 1
}

// after tells whether a document is another, or comes after it.
func (x *explorer) after(d, o int) bool {
	for ; d >= 0; d = x.parents[d] {
		if d == o {
			return true
		}
	}
	return false
}

func (s *worldState) clone() *worldState {
	return &worldState{slices.Clone(s.keepers), slices.Clone(s.at), slices.Clone(s.messages), slices.Clone(s.accepted), slices.Clone(s.results), slices.Clone(s.refused)}
}

// own makes an attempt this state's own, to be changed.
func (s *worldState) own(i int) *attempt {
	a := &s.at[i]
	c := *a.Proposer
	c.asked, c.replies = slices.Clone(c.asked), make(map[Seat]Reply, len(a.replies))
	for k, r := range a.replies {
		c.replies[k] = r
	}
	a.Proposer = &c
	return a
}

func (x *explorer) send(s *worldState, out []Message) {
	for _, m := range out {
		if m.Kind == Learn {
			continue
		}
		id := x.message(m)
		if at, there := slices.BinarySearch(s.messages, id); !there {
			s.messages = slices.Insert(s.messages, at, id)
		}
	}
}

func (x *explorer) key(s *worldState) [2]uint64 {
	var b bytes.Buffer
	put := func(n ...int) {
		for _, n := range n {
			_ = binary.Write(&b, binary.LittleEndian, int16(n))
		}
	}
	for _, k := range s.keepers {
		put(int(k.Promised.Number))
		b.WriteString(k.Promised.Nonce)
		put(x.entry(k.Accepted))
	}
	for _, a := range s.at {
		put(a.plan, a.try)
		if a.written.sent {
			put(1)
		}
		b.WriteString(a.written.seen + "|")
		put(int(a.written.deleted))
		if !a.began {
			if a.Proposer != nil {
				put(int(a.highest))
			}
			put(-5)
			put(a.before...)
			put(-2)
			continue
		}
		put(int(a.phase), int(a.ballot.Number))
		for _, seat := range a.asked {
			put(int(seat.Host[0]))
			if r, ok := a.replies[seat]; ok {
				put(len(r.Refused), x.entry(r.Accepted))
			}
		}
		put(-1, x.entry(a.base), x.known(a.next), int(a.highest))
		put(a.before...)
		put(-2)
	}
	put(s.messages...)
	put(-3)
	for _, c := range s.accepted {
		put(c.entry, c.by)
	}
	put(-4)
	put(s.results...)
	b.WriteString(fmt.Sprint(s.refused))
	return [2]uint64{maphash.Bytes(x.seeds[0], b.Bytes()), maphash.Bytes(x.seeds[1], b.Bytes())}
}

func (x *explorer) change(w wish, nonce string, a attempt, tag string) Change {
	if w == look || w == decide {
		return nil
	}
	return func(base *Document) (*Document, error) {
		if again(w) {
			c := a.written
			c.Key, c.Object = "k", &Object{Tag: tag}
			switch w {
			case once:
				c.Holds = func(exists bool, _ string) bool { return !exists }
			case del:
				c.Object = nil
			}
			if x.w.broken == "absent" { // what is absent now was so all the time
				c.deleted = base.Deleted
			}
			next, err := c.Change(base)
			if next == nil {
				return next, err
			}
			made := fmt.Sprint(x.known(base), w, tag)
			if next, ok := x.made[made]; ok {
				return next, nil
			}
			x.doc(next, x.known(base))
			x.made[made] = next
			return next, nil
		}
		made := fmt.Sprint(x.known(base), w, nonce)
		if next, ok := x.made[made]; ok {
			return next, nil
		}
		var next *Document
		var err error
		switch {
		case w == write:
			next, err = base.With("k", &Object{Tag: nonce})
		case w == seal:
			next, err = base.Sealed(Moved{To: nonce, Store: "s3://x"})
		case w[0] == '+':
			seat := x.seats[w[1]-'0']
			if base.keeps(seat) {
				return nil, nil
			}
			next, err = base.WithKeeper(seat)
		default:
			seat := x.seats[w[1]-'0']
			if !base.keeps(seat) || len(base.Keepers) == 1 {
				return nil, nil
			}
			next, err = base.WithoutKeeper(seat)
		}
		if err != nil {
			x.t.Fatal(err)
		}
		x.doc(next, x.known(base))
		x.made[made] = next
		return next, nil
	}
}

// begin begins an attempt of a proposer.
func (x *explorer) begin(s *worldState, i int) {
	a := &s.at[i]
	w := x.w.plans[i][a.plan]
	number := uint64(2)
	if a.Proposer != nil {
		number = a.highest + 1
	}
	if a.try == 0 {
		a.before = slices.Clone(s.results)
	}
	b := Ballot{Number: number, Nonce: fmt.Sprintf("p%d.%d.%d", i, a.plan, a.try)}
	if x.w.broken == "nonce" {
		b.Nonce = "" // two processes of a host
	}
	known := x.docs[0].Keepers
	var out []Message
	if w == look {
		a.Proposer, out = Read("r", known, b)
	} else {
		a.Proposer, out = Round("r", known, b, x.change(w, b.Nonce+fmt.Sprint(i), *a, fmt.Sprintf("t%d.%d", i, a.plan)))
	}
	a.began = true
	x.send(s, out)
}

// step lets a proposer take what it is given, and go on by itself as far as it can.
func (x *explorer) step(s *worldState, i int, out []Message) {
	a := &s.at[i]
	if x.w.broken == "settle" && a.Phase() == Settling && a.next != nil {
		a.phase, out = Ready, nil
	}
	x.send(s, out)
	if a.Phase() == Ready {
		if again(x.w.plans[i][a.plan]) && !a.written.sent {
			a.written.seen, a.written.deleted = a.base.Doc.Objects["k"].Tag, a.base.Doc.Deleted
		}
		x.send(s, a.Propose())
	}
	if a.Phase() == Ended {
		x.over(s, i)
	}
}

// over ends an attempt: with a result, or for another one.
func (x *explorer) over(s *worldState, i int) {
	a := &s.at[i]
	e, err := a.Result()
	if a.sent && again(x.w.plans[i][a.plan]) {
		a.written.Sent()
	}
	if e.Doc != nil {
		if err != nil {
			x.ended[fmt.Sprint(err)]++
			if errors.Is(err, ErrCondition) {
				s.refused = append(s.refused, fmt.Sprintf("t%d.%d", i, a.plan))
				slices.Sort(s.refused)
				x.twice(s)
			}
		}
		id := x.known(e.Doc)
		for _, b := range a.before {
			if !x.after(id, b) {
				x.fail("an operation gave document %d, and one that had ended before it began gave %d", id, b)
			}
		}
		if at, there := slices.BinarySearch(s.results, id); !there {
			s.results = slices.Insert(s.results, at, id)
		}
		if !x.chosen(s, id) {
			x.fail("an operation gave document %d, which is not chosen", id)
		}
		x.ended["done"]++
	} else {
		x.ended[fmt.Sprint(err)]++
	}
	a.try++
	if e.Doc != nil || a.try == x.w.attempts {
		a.plan, a.try, a.before = a.plan+1, 0, nil
		a.written = Write{}
	}
	a.began, a.asked, a.replies, a.base, a.next = false, nil, nil, Entry{}, nil
	// A Prepare of an attempt that is over can only have others refused.
	s.messages = slices.DeleteFunc(s.messages, func(id int) bool {
		m := x.messages[id]
		return m.Kind == Prepare && m.Entry.Ballot == a.ballot
	})
}

// chosen tells whether a document is, or one after it.
func (x *explorer) chosen(s *worldState, id int) bool {
	return slices.ContainsFunc(x.allChosen(s), func(c int) bool { return x.after(c, id) })
}

// allChosen are the documents that a majority of their keepers accepted in one ballot. Of a change of keepers a majority of
// those before it accepted it or the document before it, in that ballot.
func (x *explorer) allChosen(s *worldState) (out []int) {
	out = append(out, 0)
	for _, c := range s.accepted {
		e := x.entries[c.entry]
		if !majority(e.Doc.Keepers, c.has) {
			continue
		}
		id := x.known(e.Doc)
		if p := x.parents[id]; p >= 0 && e.Part == Next && !slices.Equal(x.docs[p].Keepers, e.Doc.Keepers) {
			by := c
			for _, o := range s.accepted {
				if oe := x.entries[o.entry]; oe.Ballot == e.Ballot && oe.Part == Anew {
					by.by |= o.by
				}
			}
			if !majority(x.docs[p].Keepers, by.has) {
				continue
			}
		}
		out = append(out, id)
	}
	return out
}

// twice holds that a write took effect once at most, and one that was refused never.
func (x *explorer) twice(s *worldState) {
	for _, c := range x.allChosen(s) {
		times := map[string]int{}
		for d := c; d >= 0; d = x.parents[d] {
			tag := x.docs[d].Objects["k"].Tag
			if tag == "" {
				continue
			}
			if p := x.parents[d]; p < 0 || x.docs[p].Objects["k"].Tag != tag {
				times[tag]++
			}
		}
		for tag, n := range times {
			if n > 1 {
				x.fail("%s took effect %d times", tag, n)
			}
			if slices.Contains(s.refused, tag) {
				x.fail("%s was refused and is written", tag)
			}
		}
	}
}

func (c acceptance) has(s Seat) bool { return c.by>>(s.Host[0]-'A')&1 == 1 }

func (x *explorer) fail(format string, args ...any) {
	if x.found == "" {
		x.found = fmt.Sprintf(format, args...)
		for _, what := range x.path {
			x.found += "\n  " + what()
		}
		for i, d := range x.docs {
			x.found += fmt.Sprintf("\ndocument %d after %d: keepers %v, k=%s", i, x.parents[i], d.Keepers, d.Objects["k"].Tag)
		}
	}
}

// matters tells whether anything comes of a message: the keeper changes, or somebody learns from the answer.
func (x *explorer) matters(s *worldState, id int) bool {
	m := x.messages[id]
	before := s.keepers[m.To.Host[0]-'A']
	after, r := before.Handle(m)
	if after.Promised != before.Promised || !after.Accepted.same(before.Accepted) {
		return true
	}
	return slices.ContainsFunc(s.at, func(a attempt) bool { return x.learns(a, m, r) })
}

// learns tells whether an attempt is told by an answer what it did not know.
func (x *explorer) learns(a attempt, m Message, r Reply) bool {
	if !a.began || !a.expects(r) || m.Kind != Ask && a.ballot != m.Entry.Ballot {
		return false
	}
	had, ok := a.replies[r.From]
	return !ok || had.Refused != r.Refused || !had.Accepted.same(r.Accepted)
}

// handle has a keeper handle a message. It tells whether anything came of it.
func (x *explorer) handle(s *worldState, id int, answered bool) bool {
	m := x.messages[id]
	i := int(m.To.Host[0] - 'A')
	before := s.keepers[i]
	after, r := before.Handle(m)
	changed := after.Promised != before.Promised || !after.Accepted.same(before.Accepted)
	s.keepers[i] = after
	if after.Accepted.Compare(before.Accepted) < 0 || after.Promised.Compare(before.Promised) < 0 {
		x.fail("keeper %s fell", m.To.Host)
	}
	if m.Kind == Accept && r.Refused == "" {
		e := x.entry(m.Entry)
		at := slices.IndexFunc(s.accepted, func(c acceptance) bool { return c.entry == e })
		if at < 0 {
			s.accepted = append(s.accepted, acceptance{entry: e})
			slices.SortFunc(s.accepted, func(a, b acceptance) int { return a.entry - b.entry })
			at = slices.IndexFunc(s.accepted, func(c acceptance) bool { return c.entry == e })
		}
		if s.accepted[at].by>>i&1 == 0 {
			s.accepted[at].by |= 1 << i
			all := x.allChosen(s)
			x.twice(s)
			for _, a := range all {
				if p := x.parents[a]; p >= 0 && x.docs[p].Moved != nil {
					x.fail("document %d is chosen after %d, which is sealed", a, p)
				}
				for _, b := range all {
					if !x.after(a, b) && !x.after(b, a) {
						x.fail("documents %d and %d are both chosen", a, b)
					}
				}
			}
		}
	}
	if !answered {
		return changed
	}
	took := false
	for j := range s.at {
		if x.learns(s.at[j], m, r) {
			took = true
			x.step(s, j, s.own(j).Receive(r))
		}
	}
	return took
}

func (x *explorer) explore(s *worldState) {
	if x.found != "" {
		return
	}
	key := x.key(s)
	if _, ok := x.seen[key]; ok {
		return
	}
	x.seen[key] = struct{}{}
	try := func(what func() string, act func(*worldState) bool) {
		if x.found != "" {
			return
		}
		x.path = append(x.path, what)
		if next := s.clone(); act(next) {
			x.explore(next)
		}
		x.path = x.path[:len(x.path)-1]
	}
	for i := range s.at {
		switch a := s.at[i]; {
		case a.plan == len(x.w.plans[i]):
		case !a.began:
			try(func() string { return fmt.Sprintf("p%d begins %s", i, x.w.plans[i][a.plan]) }, func(s *worldState) bool { x.begin(s, i); return true })
		default:
			if a.Phase() == Asking {
				try(func() string { return fmt.Sprintf("p%d asks again", i) }, func(s *worldState) bool {
					if len(s.at[i].replies) == 0 {
						return false
					}
					x.step(s, i, s.own(i).AskAgain())
					return true
				})
				try(func() string { return fmt.Sprintf("p%d insists", i) }, func(s *worldState) bool { x.step(s, i, s.own(i).Insist()); return true })
			}
			try(func() string { return fmt.Sprintf("p%d stops", i) }, func(s *worldState) bool {
				s.own(i).CallOff(errors.New("stopped"))
				x.over(s, i)
				return true
			})
		}
	}
	for i, a := range s.at {
		if a.began && a.Phase() != Ready && len(a.replies) == len(a.asked) && a.Phase() != Asking {
			x.fail("p%d is stuck in phase %d though all have answered", i, a.Phase())
		}
	}
	for _, id := range s.messages {
		what := func() string {
			m := x.messages[id]
			return fmt.Sprintf("%s: %s %d.%s part %d doc %d", m.To.Host, []string{"ask", "prepare", "accept"}[m.Kind], m.Entry.Ballot.Number, m.Entry.Ballot.Nonce, m.Entry.Part, x.known(m.Entry.Doc))
		}
		if x.matters(s, id) {
			try(what, func(s *worldState) bool { return x.handle(s, id, true) })
			try(func() string { return what() + ", answer lost" }, func(s *worldState) bool { return x.handle(s, id, false) })
		}
	}
}

func (x *explorer) run() {
	first := &Document{Record: "r", Version: 1}
	for _, k := range x.w.keepers {
		first.Keepers = append(first.Keepers, x.seats[k])
	}
	if _, err := first.sealed(MaxDocument); err != nil {
		x.t.Fatal(err)
	}
	x.doc(first, -1)
	s := &worldState{at: make([]attempt, len(x.w.plans))}
	for _, seat := range x.seats {
		k := NewKeeper(seat, "r")
		if first.keeps(seat) {
			k.Accepted = Entry{Ballot: Ballot{Number: 1}, Part: Next, Doc: first}
			k.Promised = k.Accepted.Ballot
		}
		s.keepers = append(s.keepers, k)
	}
	x.explore(s)
}

// The worlds in which the rules hold, each in every order of its proposers: the order is that of their ballots.
var smallWorlds = []smallWorld{
	{name: "two writers", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{write}, {write}}, attempts: 1},
	{name: "two writers try again", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{write}, {write}}, attempts: 2, large: true},
	{name: "two writers of two try again", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{write}, {write}}, attempts: 2},
	{name: "a writer and a reader", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{write}, {look, look}}, attempts: 1, large: true},
	{name: "a writer, a reader and who decides", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{write}, {look}, {decide}}, attempts: 1},
	{name: "one more and one less of two", hosts: 3, keepers: []int{0, 1}, plans: [][]wish{{add(2)}, {drop(0)}}, attempts: 1},
	{name: "one more and one less of two, and a reader", hosts: 3, keepers: []int{0, 1}, plans: [][]wish{{add(2)}, {drop(0)}, {look}}, attempts: 1, large: true},
	{name: "two grow at once", hosts: 4, keepers: []int{0, 1}, plans: [][]wish{{add(2)}, {add(3)}}, attempts: 1},
	{name: "one grows to two and writes", hosts: 2, keepers: []int{0}, plans: [][]wish{{add(1), write}, {write}}, attempts: 1},
	{name: "one grows to three, and a reader", hosts: 3, keepers: []int{0}, plans: [][]wish{{add(1), add(2)}, {look}}, attempts: 1},
	{name: "a write while a keeper goes", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{write}, {drop(0)}}, attempts: 1},
	{name: "a write while a keeper goes and comes back", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{write}, {drop(0), add(0)}}, attempts: 1},
	{name: "one more, one less and a write", hosts: 4, keepers: []int{0, 1}, plans: [][]wish{{add(3)}, {drop(0)}, {write}}, attempts: 1, large: true},
	{name: "written if absent, and deleted", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{once}, {del}}, attempts: 2},
	{name: "written if absent, and over", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{once}, {over}}, attempts: 2},
	{name: "written if absent by two", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{once}, {once}}, attempts: 2},
	{name: "a seal, and a writer who tries again", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{seal}, {once}}, attempts: 1},
	{name: "two seals try again", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{seal}, {seal}}, attempts: 2},
	{name: "a seal while a keeper goes, and a reader", hosts: 3, keepers: []int{0, 1}, plans: [][]wish{{seal}, {drop(0)}, {look}}, attempts: 1, large: true},
	{name: "a seal while a keeper goes", hosts: 3, keepers: []int{0, 1}, plans: [][]wish{{seal}, {drop(0)}}, attempts: 1},
	{name: "a seal while a keeper comes", hosts: 3, keepers: []int{0, 1}, plans: [][]wish{{seal}, {add(2)}}, attempts: 1},
	{name: "a seal is decided anew", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{seal}, {decide}, {write}}, attempts: 1},
	{name: "written twice, and deleted", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{once, over}, {del}}, attempts: 2, large: true},
}

// The worlds in which a rule is off: what a rule is for is that its world breaks without it.
var brokenWorlds = []smallWorld{
	{name: "one ballot for two proposals", hosts: 3, keepers: []int{0, 1, 2}, plans: [][]wish{{write}, {write}}, attempts: 1, broken: "nonce"},
	{name: "a change of keepers without settling", hosts: 4, keepers: []int{0, 1}, plans: [][]wish{{add(3)}, {drop(0)}, {look}}, attempts: 1, broken: "settle"},
	{name: "absent is absent", hosts: 2, keepers: []int{0, 1}, plans: [][]wish{{once}, {del}}, attempts: 2, broken: "absent"},
}

// orders are the world with its proposers in each order.
func (w smallWorld) orders() (out []smallWorld) {
	if len(w.plans) == 1 {
		return []smallWorld{w}
	}
	seen := map[string]bool{}
	for i, first := range w.plans {
		rest := w
		rest.plans = slices.Delete(slices.Clone(w.plans), i, i+1)
		for _, o := range rest.orders() {
			o.plans = append([][]wish{first}, o.plans...)
			if key := fmt.Sprint(o.plans); !seen[key] {
				seen[key] = true
				out = append(out, o)
			}
		}
	}
	return out
}

func TestSmallWorlds(t *testing.T) {
	for _, w := range smallWorlds {
		for _, w := range w.orders() {
			t.Run(fmt.Sprint(w.name, w.plans), func(t *testing.T) {
				if w.large && !*large {
					t.Skip("takes minutes: -large")
				}
				t.Parallel()
				x := newExplorer(t, w)
				x.run()
				if x.found != "" {
					t.Fatal(x.found)
				}
				t.Logf("%d states, %d documents; attempts ended: %v", len(x.seen), len(x.docs), x.ended)
			})
		}
	}
}

func TestRulesAreNeeded(t *testing.T) {
	for _, w := range brokenWorlds {
		t.Run(w.name, func(t *testing.T) {
			x := newExplorer(t, w)
			if x.run(); x.found == "" {
				t.Fatalf("without its rule (%s) nothing breaks here", w.broken)
			}
		})
	}
}
