package cluster

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is an etcd release, such as 3.6.16. The zero Version means unknown.
type Version struct {
	Major, Minor, Patch int
}

// ParseVersion reads "3.6.16" or "v3.6.16". Anything after the patch number
// is refused, because pre-releases of etcd carry data formats of their own.
func ParseVersion(s string) (Version, error) {
	parts := strings.Split(strings.TrimPrefix(s, "v"), ".")
	if len(parts) != 3 {
		return Version{}, versionError(s)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 64) // which takes no sign
		if err != nil || v > 9999 || (len(p) > 1 && p[0] == '0') {
			return Version{}, versionError(s)
		}
		n[i] = int(v)
	}
	return Version{n[0], n[1], n[2]}, nil
}

func versionError(s string) error {
	return fmt.Errorf("parse etcd version %.100q: want three numbers, such as 3.6.16", s)
}

// MustVersion is ParseVersion for constants; it panics on bad input.
func MustVersion(s string) Version {
	v, err := ParseVersion(s)
	if err != nil {
		panic(err)
	}
	return v
}

func (v Version) String() string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// IsZero reports whether the version is unknown.
func (v Version) IsZero() bool { return v == Version{} }

// Compare orders versions.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// SameMinor reports whether both are of one minor release line.
func (v Version) SameMinor(o Version) bool { return v.Major == o.Major && v.Minor == o.Minor }

// AtLeast reports whether v is the given release line or a later one.
func (v Version) AtLeast(major, minor int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor)) >= 0
}

// Base is the first release of the version's line: 3.6.0 for 3.6.16. etcd writes
// lines that way.
func (v Version) Base() Version { return Version{v.Major, v.Minor, 0} }

// Neighbours reports whether one of the lines comes right after the other.
func (v Version) Neighbours(o Version) bool {
	return v.Major == o.Major && (v.Minor == o.Minor+1 || o.Minor == v.Minor+1)
}

// KnownLines are the release lines of etcd whose rules this release knows.
const KnownLines = "2.3, 3.2 to 3.7"

// Known reports whether the version is of one of the KnownLines.
func (v Version) Known() bool {
	return v.Major == 3 && v.Minor >= 2 && v.Minor <= 7 || v.Major == 2 && v.Minor == 3
}

// HasLearners reports whether members can join without a vote. Source: etcd
// introduced learners in 3.4.
func (v Version) HasLearners() bool { return v.AtLeast(3, 4) }

// LinearizableMemberList reports whether MemberList answers through raft.
// Source: etcd made it linearizable in 3.5.
func (v Version) LinearizableMemberList() bool { return v.AtLeast(3, 5) }

// MaxLearners is how many learners our members accept at a time. Source:
// --max-learners exists from etcd 3.6 and must be equal on all members; we
// start 3.6 and later with 2, earlier releases have one.
func (v Version) MaxLearners() int {
	switch {
	case v.AtLeast(3, 6):
		return 2
	case v.HasLearners():
		return 1
	default:
		return 0
	}
}

// MarshalText renders the version; unknown is the empty string.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a version; the empty string is unknown.
func (v *Version) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*v = Version{}
		return nil
	}
	p, err := ParseVersion(string(b))
	*v = p
	return err
}
