package register

import (
	"slices"
	"testing"
)

// A keeper that was dropped knows it by what it heard to be chosen, though it accepted nothing since.
func TestMayKeep(t *testing.T) {
	a, b := Seat{Host: "a", Keeper: "1"}, Seat{Host: "b", Keeper: "2"}
	both, alone := &Document{Keepers: []Seat{a, b}}, &Document{Keepers: []Seat{a}}
	at := func(n uint64, p Part, d *Document) Entry { return Entry{Ballot: Ballot{Number: n}, Part: p, Doc: d} }
	for name, c := range map[string]struct {
		k    Keeper
		want []Seat
	}{
		"nothing yet":                        {Keeper{}, nil},
		"accepted, and not known to be more": {Keeper{Accepted: at(1, Anew, alone)}, []Seat{a}},
		"chosen after what it accepted":      {Keeper{Accepted: at(1, Anew, both), Chosen: at(1, Next, alone)}, []Seat{a}},
		"accepted after what was chosen":     {Keeper{Accepted: at(2, Anew, both), Chosen: at(1, Next, alone)}, []Seat{a, b}},
		"accepted, then known to be chosen":  {Keeper{Accepted: at(2, Next, alone), Chosen: at(2, Next, alone)}, []Seat{a}},
	} {
		if got := c.k.MayKeep(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
