package register

import (
	"cmp"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// Ballot names one proposal.
type Ballot struct {
	Number uint64 `json:"number"`
	Nonce  string `json:"nonce"`
}

// Compare orders ballots by number, and those with one number somehow.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Number, o.Number), cmp.Compare(b.Nonce, o.Nonce))
}

// Part says which of the two documents of a ballot one is.
type Part int

const (
	// Anew is the document that the ballot goes on from, accepted once more.
	Anew Part = iota
	// Next is the document after it.
	Next
)

// Entry is a document, and the ballot that it was accepted in. The zero value is none.
type Entry struct {
	Ballot Ballot    `json:"ballot"`
	Part   Part      `json:"part"`
	Doc    *Document `json:"doc,omitempty"`
}

// Compare orders entries by ballot and part.
func (e Entry) Compare(o Entry) int {
	return cmp.Or(e.Ballot.Compare(o.Ballot), cmp.Compare(e.Part, o.Part))
}

// same tells whether two keepers accepted one document in one ballot.
func (e Entry) same(o Entry) bool { return e.Compare(o) == 0 && e.Doc.Same(o.Doc) }

// Keeper is what one keeper has durable. Its methods give what it becomes and what it answers; who calls them makes the
// first durable before the second is sent.
type Keeper struct {
	Seat     Seat   `json:"seat"`
	Record   string `json:"record"`
	Promised Ballot `json:"promised"`
	Accepted Entry  `json:"accepted"`
	// Chosen is the newest document that this keeper knows to be chosen. It may lag, and never falls.
	Chosen Entry `json:"chosen"`
}

// NewKeeper is a keeper of a record whose ID no document names yet: that it accepted nothing is the truth.
func NewKeeper(s Seat, record string) Keeper { return Keeper{Seat: s, Record: record} }

// Founder is the one keeper of a new record. Its document is chosen, by this one keeper.
func Founder(d *Document) (Keeper, error) {
	if len(d.Keepers) != 1 {
		return Keeper{}, fmt.Errorf("a record is founded by one keeper, and %d are named", len(d.Keepers))
	}
	e := Entry{Ballot: Ballot{Number: 1}, Part: Next, Doc: d}
	return Keeper{Seat: d.Keepers[0], Record: d.Record, Promised: e.Ballot, Accepted: e, Chosen: e}, nil
}

// Seated is the keeper of a host once the first document of a record counts (see [Begin]): all its keepers accepted it, by that. A host
// that is none of them, or may have forgotten what it promised as one, has the seat other, and knows whom to ask.
func Seated(d *Document, host cluster.HostID, forgot bool, other func() string) Keeper {
	e := Entry{Ballot: Ballot{Number: 1}, Part: Next, Doc: d}
	seat, keeps := d.seatOf(host)
	if !keeps || forgot {
		return Keeper{Seat: Seat{Host: host, Keeper: other()}, Record: d.Record, Chosen: e}
	}
	return Keeper{Seat: seat, Record: d.Record, Promised: e.Ballot, Accepted: e, Chosen: e}
}

// Keepers are those that the documents of this keeper name: whom to ask is no secret of what was chosen.
func (k Keeper) Keepers() (out []Seat) {
	for _, e := range []Entry{k.Chosen, k.Accepted} {
		if e.Doc == nil {
			continue
		}
		for _, seat := range e.Doc.Keepers {
			if !slices.Contains(out, seat) {
				out = append(out, seat)
			}
		}
	}
	return out
}

// Kind is what is asked of a keeper.
type Kind int

const (
	// Ask asks what the keeper accepted, and for no promise.
	Ask Kind = iota
	// Prepare asks it to promise a ballot.
	Prepare
	// Accept asks it to accept a document.
	Accept
	// Learn tells it that what it accepted is chosen.
	Learn
)

// Message is what a proposer says to a keeper.
type Message struct {
	Kind   Kind   `json:"kind"`
	Record string `json:"record"`
	To     Seat   `json:"to"`
	Entry  Entry  `json:"entry"` // the ballot; for Accept and Learn the document too
}

// Refusal says why a keeper does not do what it is asked. The zero value is none.
type Refusal string

const (
	// OtherRecord says that the keeper keeps another record.
	OtherRecord Refusal = "other-record"
	// OtherKeeper says that the keeper with this ID is no more: its file was lost.
	OtherKeeper Refusal = "other-keeper"
	// HigherBallot says that it promised a higher ballot.
	HigherBallot Refusal = "higher-ballot"
	// Unconfirmed says that the keeper's disk may lack what was written on it: it promises, accepts and shows nothing
	// until it knows.
	Unconfirmed Refusal = "unconfirmed"
	// Silent is said of a keeper that did not answer, by who asked it.
	Silent Refusal = "silent"
	// Damaged says that the message cannot be meant: two documents in one ballot, a number far above all known ones, or a
	// question that this release does not know.
	Damaged Refusal = "damaged"
)

// Reply is what a keeper answers.
type Reply struct {
	From     Seat    `json:"from"`
	Kind     Kind    `json:"kind"`
	Ballot   Ballot  `json:"ballot"` // the one that was asked about
	Part     Part    `json:"part"`
	Refused  Refusal `json:"refused,omitempty"`
	Promised Ballot  `json:"promised"`
	Accepted Entry   `json:"accepted"`
}

// Handle is what a keeper becomes by a message, and its answer: as the seat that was asked, so that who asks a keeper that
// is no more hears it.
func (k Keeper) Handle(m Message) (Keeper, Reply) {
	k, refused := k.handle(m)
	r := Reply{From: m.To, Kind: m.Kind, Ballot: m.Entry.Ballot, Part: m.Entry.Part, Refused: refused, Promised: k.Promised, Accepted: k.Accepted}
	if m.Kind != Ask && m.Kind != Prepare {
		r.Accepted.Doc = nil // nobody asks for it
	}
	return k, r
}

func (k Keeper) handle(m Message) (Keeper, Refusal) {
	switch {
	case m.Record != k.Record:
		return k, OtherRecord
	case m.To != k.Seat:
		return k, OtherKeeper
	case m.Kind == Ask:
		return k, ""
	case m.Kind != Prepare && m.Kind != Accept && m.Kind != Learn, m.Entry.Part != Anew && m.Entry.Part != Next:
		return k, Damaged
	case m.Kind != Prepare && (m.Entry.Doc == nil || m.Entry.Doc.Record != k.Record):
		return k, Damaged
	case k.Accepted.Doc != nil && tooFar(m.Entry.Ballot, k.Accepted.Ballot): // a new keeper takes any
		return k, Damaged
	case m.Kind == Learn && m.Entry.Doc.Moved != nil:
		return k.Last(m.Entry), ""
	case m.Kind == Accept && k.Chosen.Doc != nil && k.Chosen.Doc.Moved != nil && !m.Entry.Doc.Same(k.Chosen.Doc):
		return k, Damaged
	case m.Kind == Learn:
		if m.Entry.Compare(k.Chosen) > 0 {
			k.Chosen = m.Entry
		}
		return k, ""
	case m.Entry.Ballot.Compare(k.Promised) < 0:
		return k, HigherBallot
	case m.Kind == Prepare:
		k.Promised = m.Entry.Ballot
		return k, ""
	}
	switch c := m.Entry.Compare(k.Accepted); {
	case c < 0: // its second document was here first
		return k, HigherBallot
	case c == 0 && !m.Entry.Doc.Same(k.Accepted.Doc):
		return k, Damaged
	}
	// An Accept is a promise too: else a keeper could promise a ballot below what it accepted.
	k.Promised, k.Accepted = m.Entry.Ballot, m.Entry
	return k, ""
}

// Last is the keeper that takes up a sealed document as the last one of its record, whether it was asked to accept it or not: what is
// chosen may be accepted late, and nothing else is from here on.
func (k Keeper) Last(e Entry) Keeper {
	if e.Compare(k.Chosen) > 0 {
		k.Chosen = e
	}
	if e.Compare(k.Accepted) > 0 {
		k.Accepted = e
	}
	if k.Accepted.Ballot.Compare(k.Promised) > 0 {
		k.Promised = k.Accepted.Ballot
	}
	return k
}

// tooFar tells whether a ballot is further above another one than can be meant.
func tooFar(b, above Ballot) bool {
	return b.Number > above.Number && b.Number-above.Number > maxLead
}

// Check tells why this cannot be what a keeper has on its disk, "" if it can.
func (k Keeper) Check() string {
	switch {
	case k.Seat.Host == "" || k.Seat.Keeper == "" || k.Record == "":
		return "it does not say which keeper of which record it is"
	case k.Accepted.Ballot.Compare(k.Promised) > 0:
		return "it accepted a ballot above the one that it promised"
	}
	for _, e := range []Entry{k.Accepted, k.Chosen} {
		if e.Doc != nil && e.Doc.Record != k.Record {
			return "it holds a document of another record"
		}
	}
	return ""
}

// MayKeep are the seats that may keep the record now, as far as this keeper knows: those of the document that it knows to
// be chosen, and of one that it accepted after it, which may be chosen too.
func (k Keeper) MayKeep() (out []Seat) {
	if k.Chosen.Doc != nil {
		out = slices.Clone(k.Chosen.Doc.Keepers)
	}
	if k.Accepted.Doc == nil || k.Accepted.Compare(k.Chosen) <= 0 {
		return out
	}
	for _, s := range k.Accepted.Doc.Keepers {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
