package record

import (
	"slices"

	"etcdadm.io/cluster"
)

// Launch is everything that shapes the member's process. The adapter of the
// runtime turns it into arguments for the release at hand (see [Args]).
type Launch struct {
	Version cluster.Version `json:"version"`
	Name    cluster.HostID  `json:"name"`
	Token   string          `json:"token"` // also the name of the data directory
	// Nonce names these settings: it is new with every Launch that the host
	// journals, so equal nonces are equal launches.
	Nonce string       `json:"nonce"`
	URLs  cluster.URLs `json:"urls"`
	// InitialCluster is set at the first start only: the founders, or the
	// members of the cluster that is joined. Every entry has a name.
	InitialCluster []cluster.Member `json:"initialCluster,omitempty"`
	Founding       bool             `json:"founding,omitempty"` // initial-cluster-state new rather than existing
	// Quarantined: listen on the quarantine client URLs only.
	Quarantined bool     `json:"quarantined,omitempty"`
	Options     []string `json:"options,omitempty"` // etcd arguments beyond ours, sorted
	// Cut: cut a raft snapshot at once.
	Cut bool `json:"cut,omitempty"`
	// Adopted: as another program ran it. It takes one learner at a time, as the
	// others do that are still run by that program, and keeps its certificates.
	Adopted bool `json:"adopted,omitempty"`
}

// Same reports whether a process of l need not be restarted to be one of o.
// The nonce and what only the first start reads (InitialCluster, Founding) are
// no settings.
func (l Launch) Same(o Launch) bool {
	return l.Version == o.Version && l.Name == o.Name && l.Token == o.Token && l.Quarantined == o.Quarantined && l.Cut == o.Cut && l.Adopted == o.Adopted &&
		sameURLs(l.URLs, o.URLs) && slices.Equal(l.Options, o.Options)
}

func sameURLs(a, b cluster.URLs) bool {
	return slices.Equal(a.Peer, b.Peer) && slices.Equal(a.Client, b.Client) && slices.Equal(a.Quarantine, b.Quarantine)
}

// Ran are the options that a member ran with, as arguments of a release.
type Ran struct {
	Version cluster.Version `json:"version"`
	Options []string        `json:"options,omitempty"`
}

// KeepBefore remembers what the member ran before it gets other options. It is
// there until the member has answered with the new ones; a second change before
// that leaves it as it is.
func (s *State) KeepBefore(next Launch) {
	if now := s.Launch; s.Before == nil && now != nil && !slices.Equal(now.Options, next.Options) {
		s.Before = &Ran{Version: now.Version, Options: slices.Clone(now.Options)}
	}
}

// OptionsBefore gives a launch that does not start the options back that the
// member ran before, where they are of the same release; false: there are none.
func OptionsBefore(s State, launch *Launch) bool {
	b := s.Before
	if b == nil || b.Version != launch.Version || slices.Equal(b.Options, launch.Options) {
		return false
	}
	launch.Options = slices.Clone(b.Options)
	return true
}
