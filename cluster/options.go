package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// OptionKind is what the value of an etcd option is.
type OptionKind string

// Kinds of values.
const (
	KindSwitch   OptionKind = "true or false"
	KindNumber   OptionKind = "a whole number"
	KindBytes    OptionKind = "a size" // 8GiB, 512MiB, or bytes
	KindMillis   OptionKind = "a number of milliseconds"
	KindDuration OptionKind = "a duration" // as Go writes them: 5m, 1h30m
	KindChoice   OptionKind = "one of a list"
	KindText     OptionKind = "a text"
	KindGates    OptionKind = "a list of Gate=true or Gate=false"
	KindURLs     OptionKind = "URLs with an IP address and a port, such as http://127.0.0.1:2381"
)

// Minors are release lines of etcd 3 from the first to the last, both
// included. The zero Minors are none.
type Minors struct{ First, Last int }

// newestMinor is that of the newest line whose options are in the table, and
// oldestMinor that of the oldest.
const (
	oldestMinor = 2
	newestMinor = 7
)

func onward(first int) Minors { return Minors{first, newestMinor} }

// Has reports whether a version is of one of the lines.
func (m Minors) Has(v Version) bool {
	return v.Major == 3 && m.First > 0 && v.Minor >= m.First && v.Minor <= m.Last
}

// Option is a command-line flag of etcd and what may be done with it. Whatever
// may be set takes effect by a restart, so a change rolls through the members.
type Option struct {
	// Name is the flag without dashes and without "experimental-".
	Name string
	Kind OptionKind
	// Min and Max bound a number, both included, when Max is not zero. A
	// duration is bounded from below by Min nanoseconds.
	Min, Max int64
	// Choices are the values of a KindChoice.
	Choices []string

	// Plain are the lines that know --NAME; Prefixed those that know
	// --experimental-NAME.
	Plain, Prefixed Minors
	// Gate is the feature gate that has taken the flag's place from 3.6 on.
	Gate string

	// Refused says why it cannot be set in a spec; empty: it can be.
	Refused string
	// Mixed says what is noticed while some members have the new value and
	// others the old one; empty: nothing.
	Mixed string

	// Variable says what becomes of the flag's ETCD_ variable on a host.
	Variable VariableUse
	// Same are the values by which a variable that is not passed on says what a
	// member does anyway.
	Same []string
	// Successor is the flag that a variable is passed on as where the release knows it.
	Successor string
	// Vital says that a daemon does not start where the variable's value cannot be read, because etcd
	// without the setting would be open to more clients, or would refuse writes.
	Vital bool
	// Closed says that a quarantined member gets no such variable, because it
	// would let clients in.
	Closed bool
}

// Settable reports whether the option may be set in a spec.
func (o Option) Settable() bool { return o.Refused == "" }

// Flag is how a release spells the option, without dashes, and false when the
// release has not got it. For a feature gate it is "feature-gates".
func (o Option) Flag(v Version) (name string, known bool) {
	switch {
	case o.Gate != "" && v.AtLeast(3, 6) && onward(6).Has(v):
		return gatesFlag, true
	case o.Plain.Has(v):
		return o.Name, true
	case o.Prefixed.Has(v):
		return prefix + o.Name, true
	}
	return "", false
}

// Lines says in words which release lines know the option.
func (o Option) Lines() string {
	first, last := 0, 0
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		if _, known := o.Flag(Version{3, minor, 0}); known {
			first = cmp.Or(first, minor)
			last = minor
		}
	}
	switch {
	case first == 0:
		return "none"
	case first == last:
		return fmt.Sprintf("3.%d", first)
	}
	return fmt.Sprintf("3.%d to 3.%d", first, last)
}

const (
	prefix    = "experimental-"
	gatesFlag = "feature-gates"
)

// FindOption looks an option up by its flag's name without dashes, with or
// without "experimental-".
func FindOption(name string) (Option, bool) {
	name = strings.TrimPrefix(name, prefix)
	i, found := slices.BinarySearchFunc(options, name, func(o Option, name string) int { return strings.Compare(o.Name, name) })
	if !found {
		return Option{}, false
	}
	return options[i], true
}

// Options are all options of the table, by name.
func Options() []Option { return slices.Clone(options) }

// Gate is a feature gate of etcd.
type Gate struct {
	Name  string
	Lines Minors
	Mixed string
}

// gates of 3.6 and 3.7 without AllAlpha and AllBeta, which would turn on
// whatever the next patch brings. Source: etcd --help of 3.6.16 and 3.7.3.
var gates = []Gate{
	{Name: "CompactHashCheck", Lines: onward(6)},
	{Name: "FastLeaseKeepAlive", Lines: onward(7)},
	{Name: "InitialCorruptCheck", Lines: onward(6)},
	{Name: "LeaseCheckpoint", Lines: onward(6), Mixed: mixedLeases},
	{Name: "LeaseCheckpointPersist", Lines: onward(6), Mixed: mixedLeases},
	{Name: "PriorityRequest", Lines: onward(7)},
	{Name: "SetMemberLocalAddr", Lines: onward(6)},
	{Name: "StopGRPCServiceOnDefrag", Lines: onward(6)},
	{Name: "TxnModeWriteWithSharedBuffer", Lines: onward(6)},
}

// FindGate looks a feature gate up by its name.
func FindGate(name string) (Gate, bool) {
	for _, g := range gates {
		if g.Name == name {
			return g, true
		}
	}
	return Gate{}, false
}

const mixedLeases = "leases may end earlier or later when raft's leadership moves between members that differ"
