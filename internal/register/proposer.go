package register

import (
	"errors"
	"fmt"
	"slices"
)

// Phase is how far a proposer came.
type Phase int

const (
	// Asking asks the keepers what they accepted.
	Asking Phase = iota
	// Preparing asks them to promise the ballot.
	Preparing
	// Settling has the document that it goes on from accepted anew.
	Settling
	// Ready waits for [Proposer.Propose]: nothing was written yet.
	Ready
	// Proposing has the next document accepted.
	Proposing
	// Ended has a result.
	Ended
)

var (
	// ErrOvertaken says that keepers promised a higher ballot meanwhile. Try again above [Proposer.Highest].
	ErrOvertaken = errors.New("another proposal came first")
	// ErrNoMajority says that too few keepers take part.
	ErrNoMajority = errors.New("no majority of the record's keepers takes part")
)

// Change makes the document after base. Nil says that base is as wanted. An error ends the operation with it, once
// base is chosen: it is then true of the record.
type Change func(base *Document) (*Document, error)

// Proposer is one attempt at one operation. It is told of the replies to its own messages in any order, late ones and
// repeated ones too.
type Proposer struct {
	record string
	ballot Ballot
	change Change

	phase   Phase
	asked   []Seat         // in this phase
	replies map[Seat]Reply // in this phase
	base    Entry          // the highest document that was seen
	next    *Document
	verdict error // of change
	sent    bool
	highest uint64
	result  Entry
	err     error
}

// Read is an attempt to read. The ballot is used if the keepers do not agree.
func Read(record string, known []Seat, b Ballot) (*Proposer, []Message) {
	p := &Proposer{record: record, ballot: b, highest: b.Number}
	return p, p.begin(Asking, known)
}

// Round is an attempt to change the record, with a ballot that nobody used before. A nil change decides what the record
// says: what was proposed before it and is not its result never comes true.
func Round(record string, known []Seat, b Ballot, change Change) (*Proposer, []Message) {
	p := &Proposer{record: record, ballot: b, change: change, highest: b.Number}
	return p, p.begin(Preparing, known)
}

func (p *Proposer) begin(phase Phase, known []Seat) []Message {
	if len(known) == 0 {
		p.end(Entry{}, ErrNoMajority)
		return nil
	}
	return p.enter(phase, known)
}

// Phase tells how far it came.
func (p *Proposer) Phase() Phase { return p.phase }

// Highest is the highest ballot number that was seen.
func (p *Proposer) Highest() uint64 { return p.highest }

// Sent tells whether the next document was sent to anybody: unless the attempt succeeded it may still be written.
func (p *Proposer) Sent() bool { return p.sent }

// Result is the document that was chosen, once the attempt ended; with an error of the [Change] too. Any other error
// leaves open what the record says.
func (p *Proposer) Result() (Entry, error) { return p.result, p.err }

// Answered are the seats that were asked in this phase, and whether they took part, for people.
func (p *Proposer) Answered() (took, silent []Seat) {
	for _, s := range p.asked {
		if r, ok := p.replies[s]; ok && r.Refused == "" {
			took = append(took, s)
		} else {
			silent = append(silent, s)
		}
	}
	return took, silent
}

// Unconfirmed are the seats that were asked in this phase and whose disks are not confirmed yet: a majority may be
// there all the same.
func (p *Proposer) Unconfirmed() (out []Seat) {
	for _, s := range p.asked {
		if p.replies[s].Refused == Unconfirmed {
			out = append(out, s)
		}
	}
	return out
}

func (p *Proposer) enter(phase Phase, seats []Seat) []Message {
	p.phase, p.asked, p.replies = phase, nil, map[Seat]Reply{}
	return p.ask(seats)
}

// ask sends what is said in this phase to the seats that it was not said to.
func (p *Proposer) ask(seats []Seat) (out []Message) {
	for _, s := range seats {
		if slices.Contains(p.asked, s) {
			continue
		}
		p.asked = append(p.asked, s)
		m := Message{Record: p.record, To: s, Entry: Entry{Ballot: p.ballot}}
		switch p.phase {
		case Asking:
			m.Kind, m.Entry = Ask, Entry{}
		case Preparing:
			m.Kind = Prepare
		case Settling:
			m.Kind, m.Entry.Doc = Accept, p.base.Doc
		case Proposing:
			m.Kind, m.Entry.Part, m.Entry.Doc = Accept, Next, p.next
		case Ready, Ended:
			return nil
		}
		out = append(out, m)
	}
	return out
}

// AskAgain asks once more: keepers that disagreed may have been in the middle of a write, which a round would end.
func (p *Proposer) AskAgain() []Message {
	if p.phase != Asking {
		return nil
	}
	return p.enter(Asking, p.asked)
}

// Insist ends the asking of a read, though keepers are silent or disagree, with a round.
func (p *Proposer) Insist() []Message {
	if p.phase != Asking {
		return nil
	}
	if p.highest > p.ballot.Number { // it was not used yet
		p.highest++
		p.ballot.Number = p.highest
	}
	return p.enter(Preparing, p.asked)
}

// Propose sends the next document. The caller has just made sure that it still may.
func (p *Proposer) Propose() []Message {
	if p.phase != Ready {
		return nil
	}
	p.sent = true
	if s, grows := p.newcomer(); grows {
		// The others once it accepted: a keeper that cannot would be counted and never be there.
		return p.enter(Proposing, []Seat{s})
	}
	return p.enter(Proposing, union(p.base.Doc.Keepers, p.next.Keepers))
}

// newcomer is the keeper that the next document has and the one before has not.
func (p *Proposer) newcomer() (Seat, bool) {
	i := slices.IndexFunc(p.next.Keepers, func(s Seat) bool { return !p.base.Doc.keeps(s) })
	if i < 0 {
		return Seat{}, false
	}
	return p.next.Keepers[i], true
}

// CallOff ends an attempt that the caller gives up, because its time is up.
func (p *Proposer) CallOff(err error) {
	if p.phase != Ended {
		p.end(Entry{}, err)
	}
}

func (p *Proposer) end(e Entry, err error) {
	p.phase, p.result, p.err = Ended, e, err
}

// Receive takes an answer, and gives what to send next.
func (p *Proposer) Receive(r Reply) []Message {
	if r.Refused != OtherRecord && r.Refused != OtherKeeper && !tooFar(r.Promised, r.Accepted.Ballot) {
		p.highest = max(p.highest, r.Promised.Number)
	}
	if !p.expects(r) {
		return nil
	}
	p.replies[r.From] = r
	switch p.phase {
	case Asking:
		return p.listened(r)
	case Preparing:
		return p.promised(r)
	case Settling:
		if p.agreed(p.base.Doc.Keepers) {
			return p.settled()
		}
		p.giveUp(p.base.Doc.Keepers)
	case Proposing:
		return p.accepted(r)
	case Ready, Ended:
	}
	return nil
}

func (p *Proposer) accepted(r Reply) []Message {
	if p.agreed(p.base.Doc.Keepers) && p.agreed(p.next.Keepers) {
		return p.chosen(Entry{Ballot: p.ballot, Part: Next, Doc: p.next}, nil)
	}
	if s, grows := p.newcomer(); grows && s == r.From {
		if r.Refused != "" {
			p.end(Entry{}, ErrNoMajority)
			return nil
		}
		return p.ask(union(p.base.Doc.Keepers, p.next.Keepers))
	}
	p.giveUp(p.base.Doc.Keepers)
	if p.phase != Ended {
		p.giveUp(p.next.Keepers)
	}
	return nil
}

// expects tells whether a reply answers what this phase asks. One of an earlier phase says nothing of this one.
func (p *Proposer) expects(r Reply) bool {
	if !slices.Contains(p.asked, r.From) {
		return false
	}
	switch p.phase {
	case Asking:
		return r.Kind == Ask
	case Preparing:
		return r.Kind == Prepare && r.Ballot == p.ballot
	case Settling:
		return r.Kind == Accept && r.Ballot == p.ballot && r.Part == Anew
	case Proposing:
		return r.Kind == Accept && r.Ballot == p.ballot && r.Part == Next
	case Ready, Ended:
	}
	return false
}

// see remembers the highest document. Whose seats it names are asked too.
func (p *Proposer) see(r Reply) []Message {
	if r.Refused == "" && r.Accepted.Doc != nil && (p.base.Doc == nil || r.Accepted.Compare(p.base) > 0) {
		p.base = r.Accepted
	}
	if p.base.Doc == nil {
		return nil
	}
	return p.ask(p.base.Doc.Keepers)
}

func (p *Proposer) listened(r Reply) []Message {
	out := p.see(r)
	alike := func(s Seat) bool {
		r, ok := p.replies[s]
		return ok && r.Refused == "" && r.Accepted.same(p.base)
	}
	if p.base.Doc != nil && majority(p.base.Doc.Keepers, alike) {
		p.end(p.base, nil)
		return nil
	}
	// Where too few take part a round says so; where they disagree, a write may be on its way.
	if len(out) == 0 && len(p.replies) == len(p.asked) && (p.base.Doc == nil || !p.agreed(p.base.Doc.Keepers)) {
		return p.Insist()
	}
	return out
}

func (p *Proposer) promised(r Reply) []Message {
	out := p.see(r)
	if p.base.Doc == nil || !p.agreed(p.base.Doc.Keepers) {
		switch {
		case len(p.replies) == len(p.asked): // nobody is left who could name newer keepers
			p.giveUp(nil)
		case p.base.Doc != nil && p.overtaken():
			p.giveUp(p.base.Doc.Keepers)
		}
		return out
	}
	if p.change != nil && p.base.Doc.Moved != nil {
		p.verdict = ErrMoved
	} else if p.change != nil {
		p.next, p.verdict = p.change(p.base.Doc)
		if p.verdict != nil {
			p.next = nil
		}
		if p.next != nil {
			if why := p.base.Doc.follows(p.next); why != "" {
				p.next, p.verdict = nil, fmt.Errorf("change the record: %s", why)
			}
		}
	}
	// A plain write needs no settling: what it goes on from is chosen with it.
	if p.next != nil && slices.Equal(p.next.Keepers, p.base.Doc.Keepers) {
		p.phase = Ready
		return nil
	}
	return p.enter(Settling, p.base.Doc.Keepers)
}

func (p *Proposer) settled() []Message {
	if p.next == nil {
		return p.chosen(Entry{Ballot: p.ballot, Part: Anew, Doc: p.base.Doc}, p.verdict)
	}
	p.phase = Ready
	return nil
}

// chosen ends the attempt, and tells the keepers.
func (p *Proposer) chosen(e Entry, verdict error) (out []Message) {
	p.end(e, verdict)
	for _, s := range p.asked {
		out = append(out, Message{Kind: Learn, Record: p.record, To: s, Entry: e})
	}
	return out
}

// agreed tells whether a majority of the seats did as it was asked in this phase.
func (p *Proposer) agreed(seats []Seat) bool {
	return majority(seats, func(s Seat) bool {
		r, ok := p.replies[s]
		return ok && r.Refused == ""
	})
}

// giveUp ends the attempt if no majority of the seats can come together any more; of none it never can.
func (p *Proposer) giveUp(seats []Seat) {
	switch {
	case p.possible(seats):
	case p.overtaken():
		p.end(Entry{}, ErrOvertaken)
	default:
		p.end(Entry{}, ErrNoMajority)
	}
}

// possible tells whether a majority of the seats may still do as it was asked.
func (p *Proposer) possible(seats []Seat) bool {
	return majority(seats, func(s Seat) bool {
		r, ok := p.replies[s]
		return !ok || r.Refused == ""
	})
}

func (p *Proposer) overtaken() bool {
	for _, r := range p.replies { // any order: one is enough
		if r.Refused == HigherBallot {
			return true
		}
	}
	return false
}
