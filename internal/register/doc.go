// Package register decides what a record says that a few hosts keep between them: a register of one small document with
// compare-and-swap, which any minority of its keepers may leave at any moment without a word being lost.
//
// It is pure: no clock, no I/O, no goroutine. A [Keeper] is what one host has durable, and how it answers; a [Proposer] is
// one operation on its way, which says what to send and is told what came back. Whoever carries the messages syncs a keeper
// before it answers, and mints a nonce for each [Proposer].
//
// # The rules, and what each is for
//
//   - A ballot is a number and a nonce, and names one proposal. Two processes of a host, or one that was restarted, would
//     else propose two documents under one name.
//   - A keeper promises no ballot below one that it promised, and accepts nothing below it.
//   - A proposer goes on from the highest document among the promises of a majority of that document's own keepers. So a
//     document that was chosen is never lost, and one that was not may come true.
//   - A change of keepers is one keeper more or less and nothing else. The document before it is accepted anew in the same
//     ballot first, then the change by a majority of the keepers before and of those after. Else two changes of one step each,
//     side by side, would part the record.
//   - A read asks for no promise. What a majority of the newest document's keepers accepted alike is chosen, and nothing newer
//     was when the read began. Else the read is a round of its own, which decides.
//   - A document that says where the record moved to is the last one: it is accepted anew as it is, and nothing follows it.
//     Whoever reads it goes where it says, so a document after it would count beside another place.
//   - Only what is chosen leaves this package ([Keeper.Chosen], [Proposer.Result]): a document that one keeper accepted may
//     never have been written.
package register

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"etcdadm.io/cluster"
)

const (
	// MaxDocument bounds a document, in bytes of its JSON. It is part of the format: a document that one release accepts and
	// another cannot would stop the record.
	MaxDocument = 512 << 10
	// reserve of it is for changes of keepers only: a full record can still be moved.
	reserve = 8 << 10
	// documentFormat numbers what a document holds. A keeper takes no document of a higher one, nor one with a field that it
	// does not know: it would write it on without the field.
	documentFormat = 1
	// MaxKeepers bounds how many hosts keep a record.
	MaxKeepers = 7
	// maxLead bounds how far a ballot may be above what a keeper accepted, so that a damaged number does not end the record.
	maxLead = 1 << 32
)

// Seat names a keeper. The ID is minted with the keeper's file and lost with it: a host that lost its promises is another
// keeper, though it kept its name.
type Seat struct {
	Host   cluster.HostID `json:"host"`
	Keeper string         `json:"keeper"`
}

func (s Seat) compare(o Seat) int {
	return cmp.Or(cmp.Compare(s.Host, o.Host), cmp.Compare(s.Keeper, o.Keeper))
}

// Object is one file of the record.
type Object struct {
	// Tag is random and of one write. A counter would name two contents alike after a record was made again.
	Tag  string `json:"tag"`
	Data []byte `json:"data"`
	// Modified is unix nanoseconds by the writer's clock, for people.
	Modified int64 `json:"modified"`
}

// Document is all that a record says. It is never changed once it was made.
type Document struct {
	Format int `json:"format"`
	// Record is random and of one founding: documents of different ones are never compared.
	Record string `json:"record"`
	// Version counts the documents, for people; nothing is decided by it.
	Version uint64            `json:"version"`
	Keepers []Seat            `json:"keepers"`
	Objects map[string]Object `json:"objects"`
	// Deleted is the version of the newest document that deleted an object. Without it a writer that tries again could not tell
	// an object that is not there yet from one that was there meanwhile.
	Deleted uint64 `json:"deleted,omitempty"`
	// Before are the records that this one was made again from, the oldest first.
	Before []Origin `json:"before,omitempty"`
	// Moved seals the record: this is its last document. Nil: it is not sealed.
	Moved  *Moved `json:"moved,omitempty"`
	digest string
}

// Moved says where a record went. What is sealed stays as it was, and is what the next place begins with.
type Moved struct {
	// To is the random name of the next place.
	To string `json:"to"`
	// Store is the next place's URL, without parameters and anything secret.
	Store string `json:"store"`
	// At is unix nanoseconds by the mover's clock, for people.
	At int64 `json:"at"`
}

// ErrMoved says that the record is sealed: it has a last value, and what counts is kept elsewhere.
var ErrMoved = errors.New("the record was moved")

// Sealed is the last document of the record after it, with the same keepers and objects.
func (d *Document) Sealed(m Moved) (*Document, error) {
	if d.Moved != nil {
		return nil, ErrMoved
	}
	next := d.after(slices.Clone(d.Keepers))
	next.Moved = &m
	return next.sealed(MaxDocument)
}

// Found is the first document of a record, kept by one host alone.
//
// One, since its file is replaced in one step: founded on several, a record could be had by some of them.
func Found(record string, founder Seat, objects map[string]Object) (*Document, error) {
	return (&Document{Record: record, Version: 1, Keepers: []Seat{founder}, Objects: maps.Clone(objects)}).sealed(MaxDocument - reserve)
}

// Begin is the first document of a record that takes the place of a store: kept by several hosts, each of which has it before it counts,
// and makes a keeper of it by [Seated].
func Begin(record string, keepers []Seat, objects map[string]Object) (*Document, error) {
	return (&Document{Record: record, Version: 1, Keepers: slices.Clone(keepers), Objects: maps.Clone(objects)}).sealed(MaxDocument / 2)
}

// sealed checks a document of at most so many bytes, and computes its digest.
func (d *Document) sealed(most int) (*Document, error) {
	d.Format = documentFormat
	if d.Record == "" {
		return nil, errors.New("a document without the name of its record")
	}
	if n := len(d.Keepers); n == 0 || n > MaxKeepers {
		return nil, fmt.Errorf("a document with %d keepers, of 1 to %d", n, MaxKeepers)
	}
	slices.SortFunc(d.Keepers, Seat.compare)
	for i, s := range d.Keepers {
		if s.Host == "" || s.Keeper == "" {
			return nil, fmt.Errorf("a keeper without a name: %+v", s)
		}
		if i > 0 && s.Host == d.Keepers[i-1].Host {
			return nil, fmt.Errorf("host %s is named twice as a keeper", s.Host)
		}
	}
	if d.Objects == nil {
		d.Objects = map[string]Object{}
	}
	if d.Moved != nil && (d.Moved.To == "" || d.Moved.Store == "") {
		return nil, errors.New("a sealed document that does not say where the record went")
	}
	for key, o := range d.Objects { // any order: one without is enough
		if o.Tag == "" { // as one that is not there has
			return nil, fmt.Errorf("the object %q has no tag", key)
		}
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, &TooLargeError{Bytes: len(data), Most: most}
	}
	sum := sha256.Sum256(data)
	d.digest = hex.EncodeToString(sum[:])
	return d, nil
}

// TooLargeError says that a document would be larger than keepers take.
type TooLargeError struct{ Bytes, Most int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the record would have %d bytes, and %d is the most", e.Bytes, e.Most)
}

// UnmarshalJSON reads a document and checks it.
func (d *Document) UnmarshalJSON(data []byte) error {
	type plain Document
	var p plain
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return err
	}
	if p.Format != documentFormat {
		return fmt.Errorf("a document of format %d, and this release knows %d", p.Format, documentFormat)
	}
	read := Document(p)
	if _, err := read.sealed(MaxDocument); err != nil {
		return err
	}
	*d = read
	return nil
}

// With is the document after it with one object changed; nil deletes the object.
func (d *Document) With(key string, o *Object) (*Document, error) {
	next := d.after(slices.Clone(d.Keepers))
	next.Objects = maps.Clone(d.Objects)
	if o == nil {
		delete(next.Objects, key)
		next.Deleted = next.Version
		return next.sealed(MaxDocument) // it makes room
	}
	next.Objects[key] = *o
	return next.sealed(MaxDocument - reserve)
}

// WithKeeper is the document after it with one keeper more.
func (d *Document) WithKeeper(s Seat) (*Document, error) {
	return d.after(append(slices.Clone(d.Keepers), s)).sealed(MaxDocument)
}

// WithoutKeeper is the document after it with one keeper less.
func (d *Document) WithoutKeeper(s Seat) (*Document, error) {
	left := slices.DeleteFunc(slices.Clone(d.Keepers), func(o Seat) bool { return o == s })
	if len(left) == len(d.Keepers) {
		return nil, fmt.Errorf("%s is no keeper", s.Host)
	}
	return d.after(left).sealed(MaxDocument)
}

// after is the next document, with other keepers and the same objects.
func (d *Document) after(keepers []Seat) *Document {
	return &Document{Record: d.Record, Version: d.Version + 1, Keepers: keepers, Objects: d.Objects, Deleted: d.Deleted, Before: d.Before}
}

// Same tells whether two documents are one.
func (d *Document) Same(o *Document) bool {
	return d == o || d != nil && o != nil && d.digest == o.digest
}

func (d *Document) keeps(s Seat) bool { return slices.Contains(d.Keepers, s) }

// follows tells why next cannot come after d, "" if it can.
func (d *Document) follows(next *Document) string {
	if next.Record != d.Record || next.Version != d.Version+1 {
		return "it is not the next document of the record"
	}
	switch {
	case d.Moved != nil:
		return "it was moved, and this document is its last one"
	case next.Moved != nil && !d.sameObjects(next):
		return "it is sealed and changes an object at once"
	case slices.Equal(d.Keepers, next.Keepers):
		return ""
	case next.Moved != nil:
		return "it is sealed and changes a keeper at once"
	}
	changed := 0
	for _, s := range union(d.Keepers, next.Keepers) {
		if d.keeps(s) != next.keeps(s) {
			changed++
		}
	}
	if changed != 1 {
		return "it changes more than one keeper"
	}
	if !d.sameObjects(next) {
		return "it changes a keeper and an object at once"
	}
	return ""
}

func (d *Document) sameObjects(o *Document) bool {
	return maps.EqualFunc(d.Objects, o.Objects, func(a, b Object) bool { return a.Tag == b.Tag })
}

func union(a, b []Seat) []Seat {
	all := slices.Concat(a, b)
	slices.SortFunc(all, Seat.compare)
	return slices.Compact(all)
}

// majority tells whether more than half of the seats are in a set.
func majority(seats []Seat, in func(Seat) bool) bool {
	n := 0
	for _, s := range seats {
		if in(s) {
			n++
		}
	}
	return 2*n > len(seats)
}
