package register

import (
	"encoding/json"
	"fmt"
	"testing"
)

type net struct {
	k map[Seat]Keeper
}

func (n *net) say(m Message) Reply {
	k, ok := n.k[m.To]
	if !ok {
		return Reply{From: m.To, Kind: m.Kind, Ballot: m.Entry.Ballot, Part: m.Entry.Part, Refused: Silent}
	}
	k, r := k.Handle(m)
	n.k[m.To] = k
	return r
}

// run delivers at once; drop says what is lost.
func (n *net) run(p *Proposer, out []Message, drop func(Message) bool) {
	for {
		for len(out) > 0 {
			m := out[0]
			out = out[1:]
			if drop != nil && drop(m) {
				out = append(out, p.Receive(Reply{From: m.To, Kind: m.Kind, Ballot: m.Entry.Ballot, Part: m.Entry.Part, Refused: Silent})...)
				continue
			}
			out = append(out, p.Receive(n.say(m))...)
		}
		if p.Phase() != Ready {
			return
		}
		out = p.Propose()
	}
}

func three(t *testing.T) (*net, []Seat) {
	n := &net{map[Seat]Keeper{}}
	seats := []Seat{{"A", "a"}, {"B", "b"}, {"C", "c"}}
	d, err := (&Document{Record: "r", Version: 1, Keepers: append([]Seat(nil), seats...)}).sealed(MaxDocument)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seats {
		k := NewKeeper(s, "r")
		k.Accepted = Entry{Ballot: Ballot{1, ""}, Part: Next, Doc: d}
		k.Promised = k.Accepted.Ballot
		n.k[s] = k
	}
	return n, seats
}

func has(e Entry) string { o, ok := e.Doc.Objects["k"]; return fmt.Sprint(ok, o.Tag) }

// A write of what is not there, completed and deleted by somebody else before its second try, does not take effect again.
func TestAbsentIsNotTakenForNeverThere(t *testing.T) {
	n, seats := three(t)
	w := &Write{Key: "k", Object: &Object{Tag: "W"}, Holds: func(exists bool, _ string) bool { return !exists }}
	p, out := Round("r", seats, Ballot{2, "p1"}, w.Change)
	n.run(p, out, func(m Message) bool { return m.Kind == Accept && m.To.Host != "A" })
	_, err := p.Result()
	t.Log("attempt 1:", err)
	w.Sent()
	q, out := Round("r", seats, Ballot{3, "q1"}, nil)
	n.run(q, out, nil)
	e, err := q.Result()
	t.Log("Q reads", has(e), err)
	del := &Write{Key: "k"}
	q, out = Round("r", seats, Ballot{4, "q2"}, del.Change)
	n.run(q, out, nil)
	e, err = q.Result()
	t.Log("Q deleted", has(e), err)
	p, out = Round("r", seats, Ballot{5, "p2"}, w.Change)
	n.run(p, out, nil)
	e, err = p.Result()
	if err == nil && has(e) == "trueW" {
		t.Errorf("the write took effect a second time: %s", has(e))
	}
}

// A host that lost its file answers for the keeper that it was: it is no more, and not silent.
func TestLostKeeperIsHeard(t *testing.T) {
	n, seats := three(t)
	delete(n.k, seats[2]) // C is down
	n.k[seats[1]] = NewKeeper(Seat{"B", "b2"}, "r")
	p, out := Round("r", seats, Ballot{2, "p1"}, nil)
	n.run(p, out, nil)
	if p.Phase() != Ended {
		t.Errorf("all have answered and phase is %d", p.Phase())
	}
	// and its refusal is taken for that of the new seat
	n, seats = three(t)
	b2 := Seat{"B", "b2"}
	d, _ := (&Document{Record: "r", Version: 9, Keepers: []Seat{b2, {"D", "d"}}}).sealed(MaxDocument)
	for _, s := range d.Keepers {
		n.k[s] = Keeper{Seat: s, Record: "r", Promised: Ballot{1, "z"}, Accepted: Entry{Ballot{1, "z"}, Next, d}}
	}
	// known: seat (B,b) of long ago, then the new ones. One daemon answers for host B.
	p, out = Round("r", []Seat{b2, {"D", "d"}, seats[1]}, Ballot{2, "p1"}, nil)
	var rs []Reply
	for _, m := range out {
		k := n.k[m.To]
		if m.To.Host == "B" {
			k = n.k[b2]
		}
		_, r := k.Handle(m)
		rs = append(rs, r)
	}
	p.Receive(rs[0])
	p.Receive(rs[2])
	p.Receive(rs[1])
	if _, err := p.Result(); p.Phase() == Ended {
		t.Errorf("both keepers promised, and it ended: %v", err)
	}
}

// An operation ends when nobody is left who could help.
func TestNobodyIsAsked(t *testing.T) {
	n, _ := three(t)
	p, out := Round("r", nil, Ballot{2, "p1"}, nil)
	n.run(p, out, nil)
	if p.Phase() != Ended {
		t.Errorf("nobody is asked, phase %d, %d messages", p.Phase(), len(out))
	}
	x := Seat{"X", "x"}
	n.k[x] = NewKeeper(x, "r")
	for _, p := range []func() (*Proposer, []Message){
		func() (*Proposer, []Message) { return Round("r", []Seat{x}, Ballot{2, "p2"}, nil) },
		func() (*Proposer, []Message) { return Read("r", []Seat{x}, Ballot{2, "p3"}) },
	} {
		p, out := p()
		n.run(p, out, nil)
		if p.Phase() != Ended {
			t.Errorf("the only one who was asked has answered, and phase is %d", p.Phase())
		}
	}
}

// Keepers of long ago that are gone do not end an operation before those that are there now are heard of.
func TestNewerKeepersAreHeardFirst(t *testing.T) {
	n := &net{map[Seat]Keeper{}}
	c, d, e := Seat{"C", "c"}, Seat{"D", "d"}, Seat{"E", "e"}
	doc, _ := (&Document{Record: "r", Version: 9, Keepers: []Seat{c, d, e}}).sealed(MaxDocument)
	for _, s := range doc.Keepers {
		n.k[s] = Keeper{Seat: s, Record: "r", Promised: Ballot{1, ""}, Accepted: Entry{Ballot{1, ""}, Next, doc}}
	}
	known := []Seat{{"A", "a"}, {"B", "b"}, c} // A and B are gone, C,D,E keep the record
	p, out := Round("r", known, Ballot{2, "p1"}, nil)
	n.run(p, out, nil)
	if _, err := p.Result(); err != nil {
		t.Errorf("all keepers are up: %v", err)
	}
	p, out = Read("r", known, Ballot{3, "p2"})
	n.run(p, out, nil)
	_, err := p.Result()
	t.Log("a read:", err)
}

// A number that one keeper has damaged, or that is of another record, does not stop the others.
func TestDamagedNumber(t *testing.T) {
	// one keeper of three with a damaged number (or one of another record, which answers OtherRecord)
	for _, other := range []string{"r", "other"} {
		n, seats := three(t)
		k := n.k[seats[2]]
		k.Promised.Number, k.Record = 1<<40, other
		n.k[seats[2]] = k
		highest := uint64(1)
		for i := range 3 {
			p, out := Round("r", seats, Ballot{highest + 1, fmt.Sprint(i)}, nil)
			n.run(p, out, nil)
			_, err := p.Result()
			t.Log(other, "attempt", i, "with", highest+1, err, p.Phase())
			highest = max(highest, p.Highest())
			if i > 0 && err != nil {
				t.Errorf("one keeper's damage stops the record: %v", err)
			}
		}
	}
	// a new keeper of a record whose numbers are high
	a, b := Seat{"A", "a"}, Seat{"B", "b"}
	d, _ := Found("r", a, nil)
	f, _ := Founder(d)
	n := &net{map[Seat]Keeper{a: f, b: NewKeeper(b, "r")}}
	p, out := Round("r", []Seat{a}, Ballot{1 + maxLead, "x"}, nil)
	n.run(p, out, nil)
	_, err := p.Result()
	t.Log("a number that A takes:", err)
	p, out = Round("r", []Seat{a}, Ballot{2 + maxLead, "y"}, func(d *Document) (*Document, error) { return d.WithKeeper(b) })
	n.run(p, out, nil)
	_, err = p.Result()
	t.Log("add B:", err)
	p, out = Round("r", []Seat{a}, Ballot{3 + maxLead, "z"}, nil)
	n.run(p, out, nil)
	if _, err = p.Result(); err != nil {
		t.Errorf("with A and B up: %v", err)
	}
}

// What is of another record, or of a kind that is not known, is refused.
func TestForeignMessages(t *testing.T) {
	d, _ := Found("r", Seat{"A", "a"}, nil)
	f, _ := Founder(d)
	o, _ := Found("other", Seat{"Z", "z"}, nil)
	k, r := f.Handle(Message{Kind: Learn, Record: "r", To: f.Seat, Entry: Entry{Ballot{1 << 63, ""}, Next, o}})
	if r.Refused == "" && k.Chosen.Doc.Record != "r" {
		t.Errorf("it knows a document of another record to be chosen: %s", k.Chosen.Doc.Record)
	}
	next, _ := d.With("k", &Object{Tag: "t"})
	k, r = f.Handle(Message{Kind: 7, Record: "r", To: f.Seat, Entry: Entry{Ballot{9, ""}, 3, next}})
	if r.Refused == "" {
		t.Errorf("a kind of message and a part that nobody knows: accepted %+v", k.Accepted.Part)
	}
}

// A document with a field that this release does not know is refused, and not written on without it.
func TestDocumentsOfALaterRelease(t *testing.T) {
	for name, text := range map[string]string{
		"a field":        `{"format":1,"record":"r","version":1,"keepers":[{"host":"A","keeper":"a"}],"objects":{},"frozen":true}`,
		"a format":       `{"format":2,"record":"r","version":1,"keepers":[{"host":"A","keeper":"a"}],"objects":{}}`,
		"a missing tag":  `{"format":1,"record":"r","version":1,"keepers":[{"host":"A","keeper":"a"}],"objects":{"k":{"data":"YQ=="}}}`,
		"no keepers":     `{"format":1,"record":"r","version":1,"keepers":[],"objects":{}}`,
		"a keeper twice": `{"format":1,"record":"r","version":1,"keepers":[{"host":"A","keeper":"a"},{"host":"A","keeper":"b"}],"objects":{}}`,
		"no record":      `{"format":1,"version":1,"keepers":[{"host":"A","keeper":"a"}],"objects":{}}`,
	} {
		var d Document
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A full record still takes another keeper.
func TestFullRecordIsMoved(t *testing.T) {
	d, err := Found("r", Seat{"A", "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := 0, MaxDocument/4; size > 0; i++ {
		next, err := d.With(fmt.Sprint("k", i), &Object{Tag: "t", Data: make([]byte, size)})
		if err != nil {
			size /= 2
			continue
		}
		d = next
	}
	for _, s := range []Seat{{"B", "b"}, {"C", "c"}} {
		if d, err = d.WithKeeper(s); err != nil {
			t.Fatal(err)
		}
	}
}

// A change that gives an error is not written, whatever it gives beside it.
func TestChangeThatFails(t *testing.T) {
	n, seats := three(t)
	p, out := Round("r", seats, Ballot{2, "p"}, func(b *Document) (*Document, error) {
		next, _ := b.With("k", &Object{Tag: "T"})
		return next, ErrCondition
	})
	n.run(p, out, nil)
	e, err := p.Result()
	if err == nil {
		t.Errorf("its change failed, and it wrote %s, %v", has(e), err)
	}
}

// F9
