package register

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

func none(string) bool { return false }

func mint(tag string) func() string { return func() string { return tag } }

// write has the keepers that are there accept one more document, or some of them.
func (n *net) write(seats []Seat, b Ballot, tag string, drop func(Message) bool) (Entry, error) {
	w := &Write{Key: "k", Object: &Object{Tag: tag}}
	p, out := Round("r", seats, b, w.Change)
	n.run(p, out, drop)
	return p.Result()
}

func away(hosts ...cluster.HostID) func(Message) bool {
	return func(m Message) bool { return slices.Contains(hosts, m.To.Host) }
}

// Two of three are gone: the record is made again from the third, with what was written and without the queue, and those that
// come back and know nothing more go over to it.
func TestMadeAgain(t *testing.T) {
	n, seats := three(t)
	if _, err := n.write(seats, Ballot{2, "w"}, "1", nil); err != nil {
		t.Fatal(err)
	}
	c := n.k[seats[2]]
	gone := errors.New("gone")
	answers := []Answer{{Host: "A", Silent: gone}, {Host: "B", Silent: gone}}
	if _, refused := c.Base(answers, []cluster.HostID{"A"}); refused != "host B does not answer (gone): bring it back, or name it with --lost if it is gone for good" {
		t.Errorf("one is not named: %q", refused)
	}
	lost := []cluster.HostID{"A", "B"}
	base, refused := c.Base(answers, lost)
	if refused != "" {
		t.Fatal(refused)
	}
	made, err := Again("r2", Seat{"C", "c2"}, base, lost, mint("new"), func(key string) bool { return key == "queue" })
	if err != nil {
		t.Fatal(err)
	}
	if o := made.Objects["k"]; o.Tag != "new" || len(made.Keepers) != 1 {
		t.Errorf("it says %+v", made)
	}
	founder, err := Founder(made)
	if err != nil {
		t.Fatal(err)
	}
	a, err := n.k[seats[0]].Follow(Seat{"A", "a2"}, founder.Chosen)
	if err != nil {
		t.Fatal(err)
	}
	if a.Accepted.Doc != nil || !a.Newest().Doc.Same(made) || a.Check() != "" {
		t.Errorf("it became %+v", a)
	}
	// Had they written more without C, they would stay.
	if _, err := n.write(seats, Ballot{5, "w"}, "2", away("C")); err != nil {
		t.Fatal(err)
	}
	if why := n.k[seats[0]].Follows(made); why == "" {
		t.Error("a host leaves a record of which it knows more")
	}
	if why := founder.Follows(n.k[seats[0]].Accepted.Doc); why == "" {
		t.Error("the founder goes back to the record before")
	}
}

func TestNotMadeAgain(t *testing.T) {
	n, seats := three(t)
	c := n.k[seats[2]]
	d, gone := n.k[seats[0]].Accepted, errors.New("gone")
	for name, x := range map[string]struct {
		answers []Answer
		lost    []cluster.HostID
		want    string
	}{
		"a majority is there": {[]Answer{{Host: "A", Seat: seats[0], Record: "r", Newest: d}, {Host: "B", Silent: gone}}, []cluster.HostID{"B"},
			"a majority of the hosts that keep the record answers: nothing has to be made again"},
		"a lost one answers": {[]Answer{{Host: "A", Record: "r", Newest: d}, {Host: "B", Silent: gone}}, []cluster.HostID{"A", "B"},
			"host A answers, and is named lost"},
		"two at once": {[]Answer{{Host: "D", Making: true}, {Host: "A", Silent: gone}, {Host: "B", Silent: gone}}, []cluster.HostID{"A", "B"},
			"host D is making the record again at this moment: run the command on one host only"},
	} {
		if _, refused := c.Base(x.answers, x.lost); refused != x.want {
			t.Errorf("%s: %q", name, refused)
		}
	}
	// A host that lost its file has nothing to say, and does not count among those that keep the record.
	answers := []Answer{{Host: "A", Record: "r", Seat: Seat{"A", "a2"}}, {Host: "B", Silent: gone}}
	if _, refused := c.Base(answers, []cluster.HostID{"B"}); refused != "" {
		t.Errorf("one lost its file: %q", refused)
	}
	// Whom any document names is asked.
	four, err := d.Doc.WithKeeper(Seat{"F", "f1"})
	if err != nil {
		t.Fatal(err)
	}
	answers = []Answer{{Host: "D", Record: "r", Newest: Entry{Ballot: Ballot{7, "x"}, Part: Next, Doc: four}}, {Host: "A", Silent: gone}, {Host: "B", Silent: gone}}
	if _, refused := c.Base(answers, []cluster.HostID{"A", "B"}); refused != "host F keeps the record, and was not asked: bring it back, or name it with --lost if it is gone for good" {
		t.Errorf("a keeper that this host never heard of: %q", refused)
	}
	answers = []Answer{{Host: "A", Silent: gone}, {Host: "B", There: gone}}
	if _, refused := c.Base(answers, []cluster.HostID{"A", "B"}); refused != "host B answers, and is named lost" {
		t.Errorf("one that is there and says nothing is named: %q", refused)
	}
	if _, refused := c.Base(answers, []cluster.HostID{"A"}); refused != "host B is there and does not say what it keeps (gone): mend that first" {
		t.Errorf("one is there and says nothing: %q", refused)
	}
	// The newest that anybody has counts. A host that it drops goes on only where nobody else can.
	without, err := d.Doc.WithoutKeeper(seats[2])
	if err != nil {
		t.Fatal(err)
	}
	newer := Entry{Ballot: Ballot{7, "x"}, Part: Next, Doc: without}
	answers = []Answer{{Host: "A", Record: "r", Seat: seats[0], Newest: newer}, {Host: "B", Silent: gone}}
	c.Chosen = d
	if base, refused := c.Base(answers, []cluster.HostID{"B"}); !strings.HasSuffix(refused, ": run the command on host A") || base.Compare(newer) != 0 {
		t.Errorf("removed: %q", refused)
	}
	answers = []Answer{{Host: "D", Record: "r", Newest: newer}, {Host: "A", Silent: gone}, {Host: "B", Silent: gone}}
	if base, refused := c.Base(answers, []cluster.HostID{"A", "B"}); refused != "" || base.Compare(newer) != 0 {
		t.Errorf("dropped by a document that may not be chosen: %q", refused)
	}
	c.Chosen = newer
	if _, refused := c.Base(answers, []cluster.HostID{"A", "B"}); refused != ErrRemoved.Error() {
		t.Errorf("removed, and the others are lost: %q", refused)
	}
}

// Whatever was lost on the way and whoever wrote meanwhile: if anything was chosen that a record made again does not have, most
// keepers of the record before stay with it.
func TestWhatLivesIsNotLeft(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, seats := three(t)
		var chosen []Entry
		number := uint64(2)
		step := func() {
			number += uint64(r.IntN(3))
			if e, err := n.write(seats, Ballot{number, fmt.Sprint(number, r.Uint32())}, fmt.Sprint("t", number), func(Message) bool { return r.IntN(4) == 0 }); err == nil {
				chosen = append(chosen, e)
			}
		}
		for range r.IntN(6) {
			step()
		}
		survivor := n.k[seats[r.IntN(3)]]
		made, err := Again("r2", Seat{survivor.Seat.Host, "new"}, survivor.Newest(), nil, mint("t"), none)
		if err != nil {
			t.Fatal(err)
		}
		for range r.IntN(6) { // they were not lost at all, or the made one is late
			step()
		}
		stay := 0
		for _, s := range seats {
			if n.k[s].Follows(made) != "" {
				stay++
			}
		}
		origin, _ := made.From("r")
		if n := len(chosen); n > 0 && chosen[n-1].Compare(Entry{Ballot: origin.Ballot, Part: origin.Part}) > 0 && stay < 2 {
			t.Fatalf("seed %d: %d of 3 stay with a record that goes on", seed, stay)
		}
	}
}

// What is sealed may count elsewhere, chosen or not: nothing is made again from it.
func TestAgainOfWhatMoved(t *testing.T) {
	alone := Seat{Host: "a", Keeper: "1"}
	d, err := Found("r", alone, map[string]Object{"k": {Tag: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := d.Sealed(Moved{To: "n", Store: "s3://bucket/folder"})
	if err != nil || !sealed.sameObjects(d) {
		t.Fatal(sealed, err)
	}
	e := Entry{Ballot: Ballot{Number: 2, Nonce: "x"}, Part: Next, Doc: sealed}
	if _, err := Again("r2", alone, e, nil, mint("u"), none); !errors.Is(err, ErrMoved) {
		t.Error(err)
	}
	lost := Seat{Host: "b", Keeper: "2"}
	two, err := d.WithKeeper(lost)
	if err != nil {
		t.Fatal(err)
	}
	if two, err = two.Sealed(*sealed.Moved); err != nil {
		t.Fatal(err)
	}
	gone := []Answer{{Host: "b", Silent: errors.New("silent")}}
	if base, why := (Keeper{Seat: alone, Record: "r", Accepted: Entry{Ballot: e.Ballot, Part: Next, Doc: two}}).Base(gone, []cluster.HostID{"b"}); why != "" || base.Doc.Moved == nil {
		t.Errorf("whoever has a seal goes where it says: %q", why)
	}
	if _, err := sealed.Sealed(Moved{To: "m", Store: "s3://other"}); !errors.Is(err, ErrMoved) {
		t.Error(err)
	}
	for _, m := range []Moved{{To: "n"}, {Store: "s3://x"}} {
		if _, err := d.Sealed(m); err == nil {
			t.Errorf("%+v", m)
		}
	}
	for name, next := range map[string]func() (*Document, error){
		"an object": func() (*Document, error) { return sealed.With("k", &Object{Tag: "u"}) },
		"a keeper":  func() (*Document, error) { return sealed.WithKeeper(Seat{Host: "b", Keeper: "2"}) },
		"itself":    func() (*Document, error) { return sealed.after(sealed.Keepers), nil },
	} {
		if after, err := next(); err != nil || sealed.follows(after) == "" {
			t.Errorf("%s after a seal: %v", name, err)
		}
	}
	if more, err := d.WithKeeper(Seat{Host: "b", Keeper: "2"}); err != nil {
		t.Error(err)
	} else if more.Moved = sealed.Moved; d.follows(more) == "" {
		t.Error("a seal that changes a keeper")
	}
}
