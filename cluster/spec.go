package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MaxMembers is the largest member count that a spec may ask for. etcd's own
// guidance ends at seven; nine leaves room for a cluster in transition.
const MaxMembers = 9

// DefaultDeadAfter is how long every reachable host has to say that a member
// does not answer before its voter counts as dead and is replaced.
const DefaultDeadAfter = 2 * time.Minute

// Spec is what is wanted. MemberCount and EtcdVersion are in the store in the
// predecessor's format; the rest is in a file of ours beside it.
type Spec struct {
	MemberCount int     `json:"memberCount"`
	EtcdVersion Version `json:"etcdVersion"`

	// Hosts, when not empty, names the hosts that may carry members, and then
	// founding waits for a majority of them by name (static configuration).
	Hosts []HostID `json:"hosts,omitempty"`
	// Hold keeps the planner from growing or shrinking towards MemberCount,
	// because a person changed the membership by hand.
	Hold bool `json:"hold,omitempty"`
	// DeadAfter overrides DefaultDeadAfter when positive.
	DeadAfter time.Duration `json:"deadAfter,omitempty"`
	// AutoRecoverAfter, when positive, is how long the quorum has to be gone
	// before the cluster is recovered from the furthest survivor without a
	// person. It may lose writes.
	AutoRecoverAfter time.Duration `json:"autoRecoverAfter,omitempty"`
	// PauseBeforeLast keeps one voter on the release line that the cluster comes
	// from, as a way back, until a person goes on.
	PauseBeforeLast bool `json:"pauseBeforeLast,omitempty"`
	// AcceptOutage: a person allowed that EtcdVersion is reached with every
	// member stopped for a while: that version and when it was said, as
	// [Consent] writes it. Of another version it says nothing.
	AcceptOutage string `json:"acceptOutage,omitempty"`
	// AcceptLoss is the version and the digest of the list of what is lost on the way
	// there, key by key, that a person accepted, with a space between. Of another
	// version or list it says nothing.
	AcceptLoss string `json:"acceptLoss,omitempty"`
	// NoBackup is the version for which a person does without the backup that is
	// wanted before its first restart; empty: for none. Of another version than
	// EtcdVersion it says nothing.
	NoBackup string `json:"noBackup,omitempty"`
	// Options are etcd settings beyond what the daemon sets by itself, as flag
	// names without dashes.
	Options map[string]string `json:"options,omitempty"`
}

// DeadAfterOrDefault is the time after which a silent member counts as dead.
func (s Spec) DeadAfterOrDefault() time.Duration {
	if s.DeadAfter > 0 {
		return s.DeadAfter
	}
	return DefaultDeadAfter
}

// Consent is the word for an outage on the way to a version, said at a time. Said
// again it is another one, for which is tried again what had failed.
func Consent(v Version, at time.Time) string {
	return v.String() + " " + at.UTC().Format(time.RFC3339Nano)
}

// Consents is the word for the outage that goes for what the spec asks for;
// empty: nobody gave it.
func (s Spec) Consents() string {
	if v, _, said := strings.Cut(s.AcceptOutage, " "); said && v == s.EtcdVersion.String() {
		return s.AcceptOutage
	}
	return ""
}

// AcceptedLoss is the digest of the list of losses that a person accepted on the
// way to what the spec asks for; empty: none.
func (s Spec) AcceptedLoss() string {
	if v, digest, said := strings.Cut(s.AcceptLoss, " "); said && v == s.EtcdVersion.String() {
		return digest
	}
	return ""
}

// WithoutBackup reports whether a person does without a backup before the version
// that the spec asks for.
func (s Spec) WithoutBackup() bool { return s.NoBackup != "" && s.NoBackup == s.EtcdVersion.String() }

// Equal reports whether both ask for the same.
func (s Spec) Equal(o Spec) bool {
	return s.MemberCount == o.MemberCount && s.EtcdVersion == o.EtcdVersion && s.Hold == o.Hold && s.PauseBeforeLast == o.PauseBeforeLast && s.AcceptOutage == o.AcceptOutage && s.AcceptLoss == o.AcceptLoss && s.NoBackup == o.NoBackup &&
		s.DeadAfter == o.DeadAfter && s.AutoRecoverAfter == o.AutoRecoverAfter && slices.Equal(s.Hosts, o.Hosts) && maps.Equal(s.Options, o.Options)
}

// ErrSpec is in the chain of every error of [Spec.Validate].
var ErrSpec = errors.New("refused spec")

// Validate refuses what can never be right, in a sentence for people. Even
// counts are refused: one more member than the odd number below raises the
// quorum, not the number of failures that the cluster survives.
func (s Spec) Validate() error {
	n := s.MemberCount
	switch {
	case n == 0:
		return fmt.Errorf("%w: the member count is missing or zero; a cluster has 1, 3, 5, 7 or 9 members", ErrSpec)
	case n < 0:
		return fmt.Errorf("%w: a member count of %d is negative; a cluster has 1, 3, 5, 7 or 9 members", ErrSpec, n)
	case n > MaxMembers:
		return fmt.Errorf("%w: a member count of %d is beyond the largest supported, %d; every write waits for a majority, so more members make etcd slower, not safer", ErrSpec, n, MaxMembers)
	case n%2 == 0:
		return fmt.Errorf("%w: a member count of %d is even; it survives no more failures than %d, ask for %d or %d", ErrSpec, n, n-1, n-1, n+1)
	}
	if s.EtcdVersion.IsZero() {
		return fmt.Errorf("%w: the etcd version is missing; name one, such as 3.6.16", ErrSpec)
	}
	if !s.EtcdVersion.Known() {
		return fmt.Errorf("%w: etcd %s is of no release line that this release knows (%s)", ErrSpec, s.EtcdVersion, KnownLines)
	}
	if err := s.EtcdVersion.Runnable(); err != nil {
		return fmt.Errorf("%w: %s", ErrSpec, strings.TrimPrefix(err.Error(), ErrVersionRefused.Error()+": "))
	}
	if s.AutoRecoverAfter < 0 {
		return fmt.Errorf("%w: a time of %s before recovering by itself is negative", ErrSpec, s.AutoRecoverAfter)
	}
	if s.DeadAfter < 0 {
		return fmt.Errorf("%w: a dead-after time of %s is negative", ErrSpec, s.DeadAfter)
	}
	for i, h := range s.Hosts {
		if h == "" || slices.Contains(s.Hosts[:i], h) {
			return fmt.Errorf("%w: the list of hosts names %q twice or not at all", ErrSpec, h)
		}
	}
	if len(s.Hosts) > 0 && len(s.Hosts) < n {
		return fmt.Errorf("%w: %d members on %d named hosts; one host carries one member", ErrSpec, n, len(s.Hosts))
	}
	return nil
}
