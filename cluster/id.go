package cluster

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// HostID names a host for as long as its identity lasts. It is the etcd
// member's name too, as the predecessor of this tool had it.
type HostID string

// DiskID is a random value minted with a host's state directory. A host whose
// disk was wiped or rolled back carries another one, whatever its HostID.
type DiskID string

// MemberID is etcd's identifier of a member; zero means none.
type MemberID uint64

// ClusterID is etcd's identifier of a cluster; zero means unknown.
type ClusterID uint64

func (id MemberID) String() string  { return strconv.FormatUint(uint64(id), 16) }
func (id ClusterID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText renders the ID as etcdctl prints it, in hexadecimal.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads a hexadecimal ID.
func (id *MemberID) UnmarshalText(b []byte) error {
	n, err := parseHexID("member", b)
	*id = MemberID(n)
	return err
}

// MarshalText renders the ID as etcdctl prints it, in hexadecimal.
func (id ClusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads a hexadecimal ID.
func (id *ClusterID) UnmarshalText(b []byte) error {
	n, err := parseHexID("cluster", b)
	*id = ClusterID(n)
	return err
}

func parseHexID(kind string, b []byte) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(string(b), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s ID %.100q: not a hexadecimal number of at most 16 digits", kind, b)
	}
	return n, nil
}

// ParseMemberID reads a member ID as etcdctl prints it.
func ParseMemberID(s string) (MemberID, error) {
	n, err := parseHexID("member", []byte(s))
	return MemberID(n), err
}

// Fence orders leaders. Its number only grows: a leader picks one above all
// that it has seen, and a host that has promised a fence refuses lower ones.
// The zero Fence is below every other.
type Fence struct {
	Number uint64 `json:"number"`
	Host   HostID `json:"host"`
}

// Compare orders fences by number, then by host ID, so that two leaders that
// picked the same number at the same time are still ordered.
func (f Fence) Compare(o Fence) int {
	if c := cmp.Compare(f.Number, o.Number); c != 0 {
		return c
	}
	return cmp.Compare(f.Host, o.Host)
}

// Less reports whether f is lower than o.
func (f Fence) Less(o Fence) bool { return f.Compare(o) < 0 }

// MaxFence is the highest number that a leader may bring. Leaders pick theirs
// less than 2²¹ above what they have seen, so none ever comes near it: a number
// beyond is damage, and whoever promised it refuses every leader until a person
// resets it.
const MaxFence uint64 = 1 << 62

// OutOfReach reports whether no leader may bring the fence.
func (f Fence) OutOfReach() bool { return f.Number > MaxFence }

// IsZero reports whether no fence was ever picked.
func (f Fence) IsZero() bool { return f == Fence{} }

func (f Fence) String() string { return fmt.Sprintf("%d/%s", f.Number, f.Host) }
