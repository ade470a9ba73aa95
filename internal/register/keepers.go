package register

import (
	"slices"

	"etcdadm.io/cluster"
)

// Wanted is the next change of who keeps the record, if one is wanted: the hosts of the voters keep it. Ready are the seats of
// those that answered and are ready to keep it; nothing is concluded from the silence of others.
//
// A keeper is added before one is dropped: with a dead one among three, the fourth makes the majority that the change needs.
// Only one that lost its file goes first, since its host cannot be named twice. A silent one goes before one that is ready, and a
// ready one only while a majority of those that stay is ready: a document that some accepted, and whose own keepers have no
// majority, ends the record for ever, though a majority of the keepers before lives on.
func Wanted(d *Document, voters []cluster.HostID, ready []Seat) Change {
	for _, s := range ready {
		if had, ok := d.seatOf(s.Host); ok && had != s && len(d.Keepers) > 1 {
			return without(had)
		}
	}
	added := 0
	for _, s := range ready {
		if _, ok := d.seatOf(s.Host); !ok && slices.Contains(voters, s.Host) && len(d.Keepers) < MaxKeepers {
			return func(base *Document) (*Document, error) {
				if _, ok := base.seatOf(s.Host); ok {
					return nil, nil
				}
				return base.WithKeeper(s)
			}
		}
		if slices.Contains(voters, s.Host) {
			added++
		}
	}
	if len(voters) == 0 || added < len(voters) {
		return nil // a voter is not a keeper yet: until it is, nobody goes
	}
	for _, silent := range []bool{true, false} {
		for _, s := range d.Keepers {
			if slices.Contains(ready, s) != silent && !slices.Contains(voters, s.Host) && len(d.Keepers) > 1 && d.goesOn(s, ready) {
				return without(s)
			}
		}
	}
	return nil
}

// goesOn tells whether a majority of the keepers without one of them is ready.
func (d *Document) goesOn(without Seat, ready []Seat) bool {
	left := slices.DeleteFunc(slices.Clone(d.Keepers), func(s Seat) bool { return s == without })
	return majority(left, func(s Seat) bool { return slices.Contains(ready, s) })
}

func without(s Seat) Change {
	return func(base *Document) (*Document, error) {
		if !base.keeps(s) || len(base.Keepers) == 1 {
			return nil, nil
		}
		return base.WithoutKeeper(s)
	}
}

// seatOf is the seat that a host has among the keepers.
func (d *Document) seatOf(h cluster.HostID) (Seat, bool) {
	i := slices.IndexFunc(d.Keepers, func(s Seat) bool { return s.Host == h })
	if i < 0 {
		return Seat{}, false
	}
	return d.Keepers[i], true
}
