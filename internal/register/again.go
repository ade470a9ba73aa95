package register

import (
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// maxOrigins bounds how many records a document remembers that it was made from. Older ones than that name nobody's file.
const maxOrigins = 16

// ErrRemoved says that a host does not keep the record that is to be made again: it was removed, and knows an old one.
var ErrRemoved = errors.New("this host is none of those that keep the record: it was removed from the cluster")

// Origin is the record that one was made again from, after a majority of its keepers was gone, and how much of it was known.
type Origin struct {
	Record string `json:"record"`
	Ballot Ballot `json:"ballot"`
	Part   Part   `json:"part"`
	// Lost are the hosts that a person named as gone for good.
	Lost []cluster.HostID `json:"lost,omitempty"`
}

// Again is the first document of a record that takes the place of the one of base, whose keepers have no majority any more: with
// its objects under new tags, but for those that leave names, and kept by the founder alone. It may hold what was never chosen,
// as any round may complete it, and lacks what only the lost keepers had.
func Again(record string, founder Seat, base Entry, lost []cluster.HostID, mint func() string, leave func(key string) bool) (*Document, error) {
	if base.Doc == nil {
		return nil, errors.New("none of the hosts that answer has a document of the record")
	}
	if base.Doc.Moved != nil {
		return nil, ErrMoved
	}
	next := base.Doc.after([]Seat{founder})
	next.Record = record
	next.Before = append(slices.Clone(base.Doc.Before), Origin{Record: base.Doc.Record, Ballot: base.Ballot, Part: base.Part, Lost: lost})
	if n := len(next.Before); n > maxOrigins {
		next.Before = next.Before[n-maxOrigins:]
	}
	next.Objects = map[string]Object{}
	for key, o := range base.Doc.Objects { // any order: it fills another map
		if !leave(key) {
			o.Tag = mint() // who read the other record may not write over this one
			next.Objects[key] = o
		}
	}
	return next.sealed(MaxDocument)
}

// From is how a record came from another one.
func (d *Document) From(record string) (Origin, bool) {
	i := slices.IndexFunc(d.Before, func(o Origin) bool { return o.Record == record })
	if i < 0 {
		return Origin{}, false
	}
	return d.Before[i], true
}

// Kept tells whether a document that this keeper has names its host as one that keeps the record.
func (k Keeper) Kept() bool {
	return slices.ContainsFunc(k.Keepers(), func(s Seat) bool { return s.Host == k.Seat.Host })
}

// Newest is the highest that this keeper accepted, or knows to be chosen.
func (k Keeper) Newest() Entry {
	if k.Chosen.Compare(k.Accepted) > 0 {
		return k.Chosen
	}
	return k.Accepted
}

// Follows tells why this keeper does not go over to the record of a document by itself, "" if it does: that record was made
// again from this keeper's, and this keeper knows nothing that was not known then. Where anything more was chosen, a majority
// accepted it and stays, so a record that lives is never left by enough of its keepers to end it.
func (k Keeper) Follows(d *Document) string {
	o, ok := d.From(k.Record)
	switch {
	case !ok:
		return "that record was not made from this host's"
	case o.Lacks(k.Newest()):
		return "this host knows more of the record than was known when that one was made from it"
	}
	return ""
}

// Lacks tells whether what a host has of the record before was not known when this one was made from it.
func (o Origin) Lacks(e Entry) bool { return e.Compare(Entry{Ballot: o.Ballot, Part: o.Part}) > 0 }

// Follow is the keeper that this host becomes when it goes over to the record that a chosen document shows: a new seat, of which
// nothing was ever promised.
func (k Keeper) Follow(seat Seat, shown Entry) (Keeper, error) {
	if why := k.Follows(shown.Doc); why != "" {
		return Keeper{}, fmt.Errorf("go over to record %s: %s", shown.Doc.Record, why)
	}
	return Keeper{Seat: seat, Record: shown.Doc.Record, Chosen: shown}, nil
}

// Answer is what a host says before a record is made again.
type Answer struct {
	Host   cluster.HostID
	Silent error // why it does not answer; nil if it does
	// There is why a host that is there does not say what it keeps; nil if it does, or is silent.
	There error
	// Seat is what it keeps the record as; zero if it keeps none, or forgot what it promised.
	Seat   Seat
	Record string
	Newest Entry
	// Making says that it is making the record again itself.
	Making bool
	// Unconfirmed says that its disk is not confirmed: it keeps the record, and does not answer for it yet.
	Unconfirmed bool
}

// Unheard are hosts that keep the record by some document, and are not among those that were asked: what they accepted, nobody
// knows yet.
func (k Keeper) Unheard(answers []Answer, lost []cluster.HostID) (out []cluster.HostID) {
	known := append([]cluster.HostID{k.Seat.Host}, lost...)
	named := []*Document{k.Accepted.Doc, k.Chosen.Doc}
	for _, a := range answers {
		known = append(known, a.Host)
		named = append(named, a.Newest.Doc)
	}
	for _, d := range named {
		if d == nil || d.Record != k.Record {
			continue
		}
		for _, s := range d.Keepers {
			if !slices.Contains(known, s.Host) && !slices.Contains(out, s.Host) {
				out = append(out, s.Host)
			}
		}
	}
	return out
}

// Base is what a record is made again from: the newest that this keeper or any host has that answers. Refused says why it must
// not be made again now, "" if it may. Every host that was ever heard of, or that keeps the record by any document, has to
// answer or be named lost, and none that is there may be named: what a silent one accepted, nobody knows. A base that is sealed is
// for going to the next place, not for another record: see [Again].
func (k Keeper) Base(answers []Answer, lost []cluster.HostID) (base Entry, refused string) {
	base = k.Newest()
	there := map[Seat]bool{k.Seat: true}
	unconfirmed := cluster.HostID("")
	for _, a := range answers {
		if why := k.against(a, slices.Contains(lost, a.Host)); why != "" {
			return base, why
		}
		there[a.Seat] = a.Record != ""
		if a.Unconfirmed {
			unconfirmed = a.Host
		}
		if a.Silent == nil && a.Newest.Doc != nil && a.Newest.Compare(base) > 0 {
			base = a.Newest
		}
	}
	unheard := k.Unheard(answers, lost)
	switch {
	case len(unheard) > 0:
		return base, fmt.Sprintf("host %s keeps the record, and was not asked: bring it back, or name it with --lost if it is gone for good", unheard[0])
	case base.Doc == nil:
		return base, "this host does not know yet what the record says"
	case majority(base.Doc.Keepers, func(s Seat) bool { return there[s] }) && unconfirmed != "":
		return base, fmt.Sprintf("a majority of the hosts that keep the record answers, and the disk of host %s is not confirmed yet: "+
			"etcdadm host confirm-disk %s, if no older copy of it was put back", unconfirmed, unconfirmed)
	case majority(base.Doc.Keepers, func(s Seat) bool { return there[s] }):
		return base, "a majority of the hosts that keep the record answers: nothing has to be made again"
	}
	if _, keeps := base.Doc.seatOf(k.Seat.Host); keeps {
		return base, ""
	}
	// One that the newest document drops may go on where nobody else can: that drop was never chosen, or all others are gone.
	for _, a := range answers {
		if _, keeps := base.Doc.seatOf(a.Host); keeps && a.Silent == nil {
			return base, fmt.Sprintf("%v: run the command on host %s", ErrRemoved, a.Host)
		}
	}
	if k.Chosen.Doc != nil {
		if _, kept := k.Chosen.Doc.seatOf(k.Seat.Host); kept {
			return base, ""
		}
	}
	return base, ErrRemoved.Error()
}

// against is why one answer speaks against it, "" if it does not.
func (k Keeper) against(a Answer, named bool) string {
	switch {
	case a.Silent != nil && named:
		return ""
	case a.Silent != nil:
		return fmt.Sprintf("host %s does not answer (%v): bring it back, or name it with --lost if it is gone for good", a.Host, a.Silent)
	case named:
		return fmt.Sprintf("host %s answers, and is named lost", a.Host)
	case a.There != nil:
		return fmt.Sprintf("host %s is there and does not say what it keeps (%v): mend that first", a.Host, a.There)
	case a.Making:
		return fmt.Sprintf("host %s is making the record again at this moment: run the command on one host only", a.Host)
	case a.Record != "" && a.Record != k.Record:
		return fmt.Sprintf("host %s keeps another record, %s: %s", a.Host, a.Record, k.wayToOther(a))
	}
	return ""
}

func (k Keeper) wayToOther(a Answer) string {
	if a.Newest.Doc != nil {
		if _, ok := a.Newest.Doc.From(k.Record); ok {
			return "it was made again from this host's, and this host goes over to it by itself within seconds, or says why not"
		}
	}
	if d := k.Newest().Doc; d != nil {
		if _, ok := d.From(a.Record); ok {
			return "this host's was made again from it, and that host goes over by itself within seconds, or says why not"
		}
	}
	return "neither was made from the other; see docs/operations/other-record.md"
}
