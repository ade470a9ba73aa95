package keycopy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// Kind is one sort of thing that cannot be carried over as it is.
type Kind string

// From version 2.
const (
	EmptyDirectory Kind = "empty-directory"
	DirectoryTTL   Kind = "directory-ttl"
	UnreadableName Kind = "unreadable-name"
	MaybeBinary    Kind = "maybe-binary"
	Indexes        Kind = "indexes"
	Passing        Kind = "passing"
	Expiring       Kind = "expiring"
)

// From version 3 to version 2.
const (
	NotAPath         Kind = "not-a-path"
	NotText          Kind = "not-text"
	LeafAndDirectory Kind = "leaf-and-directory"
	Hidden           Kind = "hidden"
	SharedLease      Kind = "shared-lease"
	Leases           Kind = "leases"
	EmptyLease       Kind = "lease-without-keys"
)

// From either.
const (
	Revisions Kind = "revisions"
	OtherKeys Kind = "keys-of-version-2"
	Users     Kind = "users"
	Roles     Kind = "roles"
	AuthOn    Kind = "authentication"
	Alarms    Kind = "alarms"
)

// kinds say what each means, in the order of a report.
var kinds = []struct {
	kind   Kind
	always bool // comes with the way, whatever the data
	text   string
}{
	{NotAPath, false, "keys whose names are no paths of version 2: not text, without a slash at the beginning, or with an empty, \".\" or \"..\" part. They are left out."},
	{NotText, false, "keys whose values are not text (UTF-8), which version 2 cannot return. They are left out."},
	{LeafAndDirectory, false, "keys that would be directories too, because other keys lie below them. The keys below are kept, these are left out."},
	{UnreadableName, false, "keys whose names etcd cannot write in JSON, and finds by no name that it shows. They are left out."},
	{MaybeBinary, false, "keys in whose values etcd shows U+FFFD, as it does for bytes that are not text. What it shows is carried over; if it stood for other bytes, they are lost."},
	{EmptyDirectory, false, "directories without keys, or whose keys all have a TTL. Version 3 has no directories: of these nothing is left once their keys have run out."},
	{DirectoryTTL, false, "directories with a TTL. The keys in them get leases that end when the directory would have; keys that are put there later do not expire."},
	{Hidden, false, "keys that version 2 hides, because a part of their path begins with an underscore. They are carried over, and are read by their full names only."},
	{SharedLease, false, "keys that share a lease with others. Each gets a TTL of its own, and nothing ends or renews them together any more."},
	{Leases, false, "leases, which become TTLs of their keys: in full, and 30 s at least, from when these are written on, also while clients are not served. Nobody can renew them by their IDs any more."},
	{EmptyLease, false, "leases without keys."},
	{OtherKeys, false, "keys of version 2 of the API, which this etcd has beside those of version 3. They are left out."},
	{AuthOn, false, "authentication is on. It is off in the target, until somebody makes users and turns it on."},
	{Users, false, "users. etcd does not give out their passwords, so they have to be made anew."},
	{Roles, false, "roles and what they permit. They have to be made anew."},
	{Alarms, false, "alarms that are raised."},
	{Revisions, true, "keys whose older values, versions and revisions are not kept: all begin with their newest value, as if they had been written once."},
	{Expiring, true, "keys with a TTL. They run out at their time also while clients are not served, as whenever etcd 2 is stopped, and what has run out by then is not carried over. What has not goes on running out in etcd 2; from version 3 on it lasts 30 s at least once clients are served."},
	{Passing, true, "keys and directories that run out within an hour, unless they are renewed, and are not carried over as they are: directories, and what etcd cannot show in JSON. Whoever renews them has to put them there anew."},
	{Indexes, true, "keys whose indexes (createdIndex, modifiedIndex) are not kept: clients that compare or wait by them have to read anew."},
}

// mostExamples is how many names of each kind a report shows.
const mostExamples = 10

// Loss is all of one kind.
type Loss struct {
	Kind  Kind   `json:"kind"`
	Count int64  `json:"count"`
	Text  string `json:"text"` // for people; goes with the count
	// Examples are the first names, quoted where they are not plain.
	Examples []string `json:"examples,omitempty"`
	// Always: it comes with this way, whatever the data.
	Always bool `json:"always,omitempty"`

	names digest
}

// Report is what a survey found. It holds no values.
type Report struct {
	From cluster.Version `json:"from"`
	To   cluster.Version `json:"to"`
	// At is the source's revision, or its index with version 2.
	At int64 `json:"at"`
	// Keys and Bytes (of names and values) are all that was read, Carried and
	// CarriedBytes what has a place in the target.
	Keys         int64 `json:"keys"`
	Bytes        int64 `json:"bytes"`
	Carried      int64 `json:"carried"`
	CarriedBytes int64 `json:"carriedBytes"`
	// Largest is that of the largest name and value together. An etcd takes 1.5 MiB
	// in one request, unless it is told to take more.
	Largest int64 `json:"largest"`
	// Expiring is how many keys have a TTL or a lease; Leases is how many of these
	// there are.
	Expiring int64  `json:"expiring"`
	Leases   int64  `json:"leases"`
	Losses   []Loss `json:"losses"`
	// Notes are sentences about what could not be looked at.
	Notes []string `json:"notes,omitempty"`
}

// Loses says whether anything is lost beyond what comes with the way.
func (r *Report) Loses() bool {
	return slices.ContainsFunc(r.Losses, func(l Loss) bool { return !l.Always })
}

// Add puts things on the list that no etcd could be asked about.
func (r *Report) Add(kind Kind, names ...string) {
	l := newLedger()
	for i := range r.Losses {
		l.kept[r.Losses[i].Kind] = &r.Losses[i]
	}
	for _, name := range names {
		_ = l.lose(kind, []byte(name))
	}
	r.Losses = l.losses()
}

// Digest stands for the list of losses, with all names and not only the
// examples: who accepts it accepts this list. What always comes with the way is
// not part of it, since its count changes with each key.
func (r *Report) Digest() string {
	var all digest
	h := newHasher()
	for _, l := range r.Losses {
		if !l.Always {
			all.add(h.of(l.Count, []byte(l.Kind), []byte(l.names.String())))
		}
	}
	return all.String()
}

// Write says it all to people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "From etcd %s to %s: %d of %d keys (%d of %d bytes) are carried over, %d of the keys expire.\n",
		r.From, r.To, r.Carried, r.Keys, r.CarriedBytes, r.Bytes, r.Expiring)
	for _, always := range []bool{false, true} {
		for _, l := range r.Losses {
			if l.Always != always {
				continue
			}
			fmt.Fprintf(&b, "\n%s: %d %s\n", l.Kind, l.Count, l.Text)
			for _, e := range l.Examples {
				fmt.Fprintf(&b, "    %s\n", e)
			}
			if more := l.Count - int64(len(l.Examples)); more > 0 && len(l.Examples) > 0 {
				fmt.Fprintf(&b, "    and %d more\n", more)
			}
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ledger collects losses.
type ledger struct {
	h    *hasher
	kept map[Kind]*Loss
}

func newLedger() *ledger { return &ledger{h: newHasher(), kept: map[Kind]*Loss{}} }

func (l *ledger) lose(kind Kind, name []byte) error {
	loss := l.of(kind)
	loss.Count++
	loss.names.add(l.h.of(0, name))
	if len(loss.Examples) < mostExamples {
		loss.Examples = append(loss.Examples, show(name))
	}
	return nil
}

// count adds things that have no names.
func (l *ledger) count(kind Kind, n int64) {
	if n > 0 {
		l.of(kind).Count += n
	}
}

func (l *ledger) of(kind Kind) *Loss {
	loss := l.kept[kind]
	if loss == nil {
		loss = &Loss{Kind: kind}
		l.kept[kind] = loss
	}
	return loss
}

// losses are in the order of kinds.
func (l *ledger) losses() []Loss {
	var losses []Loss
	for _, k := range kinds {
		if loss := l.kept[k.kind]; loss != nil {
			loss.Text, loss.Always = k.text, k.always
			losses = append(losses, *loss)
		}
	}
	return losses
}
