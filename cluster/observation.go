package cluster

import (
	"cmp"
	"slices"
	"time"
)

// GapKind says what could not be seen.
type GapKind string

const (
	GapUnreachable GapKind = "unreachable" // the host's daemon did not answer
	GapBusy        GapKind = "busy"        // the host is carrying out an op
	GapRefused     GapKind = "refused"     // the host has promised a higher fence
	GapStore       GapKind = "store"       // the backup store did not answer
	GapSpec        GapKind = "spec"        // the spec could not be read or makes no sense
)

// Gap is something that could not be seen. It is never an absence.
type Gap struct {
	Kind   GapKind `json:"kind"`
	Host   HostID  `json:"host,omitempty"`
	Detail string  `json:"detail,omitempty"`
	// Op is what a busy host carries out, and Late says that it takes longer than
	// such an op may, or that the host's disk does not answer.
	Op   OpKind `json:"op,omitempty"`
	Late bool   `json:"late,omitempty"`
	// Promised is the fence that a host which refused has promised.
	Promised Fence `json:"promised,omitzero"`
	// Incompatible: something answers where the host's daemon is, and the two do not talk
	// with each other, as by a certificate, a clock or a name that is not what it
	// should be. Nothing is known of the host but that it may well run.
	Incompatible bool `json:"atOdds,omitempty"`
	// Heard: the host's daemon tells of itself, or two do that say they are it, and it
	// does not answer what it is asked, or refuses to. The host is not gone, whatever
	// else it is.
	Heard bool `json:"heard,omitempty"`
}

// AtWork reports whether the host carries out an op, which ends within its time. A
// daemon that starts, one that waits for its disk, and an op beyond its time may
// never end.
func (g Gap) AtWork() bool {
	return g.Kind == GapBusy && !g.Late && g.Op != "" && g.Op != OpBoot && g.Op != OpPromise
}

// Defragments reports whether the host's member writes its database anew: it takes
// part in raft, serves nothing for minutes, and is back then.
func (g Gap) Defragments() bool { return g.AtWork() && g.Op == OpDefragment }

// HostReport is one host's answer, as the leader took it.
type HostReport struct {
	HostState
	// UnderFence: the host promised the fence of this very observation before
	// it looked, so that what it says holds against every other leader.
	UnderFence bool   `json:"underFence,omitempty"`
	Stamp      string `json:"stamp,omitempty"`
}

// StoreView is what the leader saw in the backup store.
type StoreView struct {
	// URL is the store's, for the commands that people are shown; it holds no
	// secret. It may be empty.
	URL string `json:"url,omitempty"`
	// Backups is the same of the store that has the backups, where that is another one.
	Backups string `json:"backups,omitempty"`
	// Read: the control objects were read just now. When it is false, Intent
	// is the last one seen and nothing may be concluded from its absence.
	Read   bool    `json:"read"`
	Intent *Intent `json:"intent,omitempty"`
	// Marker: the created marker exists (with or without an intent in it).
	Marker bool `json:"marker,omitempty"`
	// Joining: it says that hosts of ours join a cluster that something else runs, or are to
	// (`etcdadm adopt --join`), beside which none is made. Looked for only where there is no
	// intent of ours.
	Joining bool `json:"joining,omitempty"`
	// Origin is the backup that the cluster begins with; nil: none. Read only without an intent.
	Origin *Origin `json:"origin,omitempty"`
	// Conditional: the store can write on a condition (SAFETY.md, rule 19).
	Conditional bool `json:"conditional"`
	// Untried: it could be read, and does not count as read, since nobody knows yet
	// what it can do: it was not tried out, or could not be.
	Untried bool `json:"untried,omitempty"`
	// Unwritten: it was read, and for a while has not taken something that this leader
	// wrote into it: what, and why.
	Unwritten string `json:"unwritten,omitempty"`
	// Specified: there is a spec.
	Specified bool `json:"specified,omitempty"`
}

// BackupsURL is the URL of the store that has the backups, as far as it is known.
func (v StoreView) BackupsURL() string { return cmp.Or(v.Backups, v.URL) }

// Founding is a generation that is being founded.
type Founding struct {
	Since      time.Time `json:"since,omitzero"` // without a break that it does not serve; zero: it does, or none is being founded
	Seen       time.Time `json:"seen,omitzero"`  // since when it is watched, served or not
	Generation uint64    `json:"generation,omitempty"`
}

// Quiet is a time in which nobody else can have begun a change of the voters.
type Quiet struct {
	Since      time.Time `json:"since,omitzero"` // zero: not quiet
	Fence      Fence     `json:"fence,omitzero"`
	Generation uint64    `json:"generation,omitempty"`
	Write      uint64    `json:"write,omitempty"`
}

// HostMemory remembers a host that was seen at least once.
type HostMemory struct {
	Host     HostID    `json:"host"`
	Disk     DiskID    `json:"disk,omitempty"`
	LastSeen time.Time `json:"lastSeen"`
	// GapSince is when the host stopped answering; zero while it answers.
	GapSince time.Time `json:"gapSince,omitzero"`
	// Fence is the one that the host promised last, and FenceSince the
	// observation in which it first did.
	Fence      Fence     `json:"fence,omitzero"`
	FenceSince time.Time `json:"fenceSince,omitzero"`
	// StoreSince is since when its daemon has told of another backup store than the
	// leader sees, or of none that can be read.
	StoreSince time.Time `json:"storeSince,omitzero"`
}

// MemberMemory remembers what was wrong with a member, and since when.
type MemberMemory struct {
	Member MemberID `json:"member"`
	// SilentSince: since when every host that could be asked says that the
	// member does not answer; zero: at least one of them can reach it.
	SilentSince time.Time `json:"silentSince,omitzero"`
	// VanishedSince: since when its host says that its data is gone from the
	// disk while it runs.
	VanishedSince time.Time `json:"vanishedSince,omitzero"`
	// DamagedSince: since when its host says that etcd ends because it cannot read its
	// data.
	DamagedSince time.Time `json:"damagedSince,omitzero"`
	// Answered is how often its process had been restarted when it answered
	// its host last; what was restarted since then died without an answer.
	Answered int `json:"answered,omitempty"`
	// HealthySince: since when the member counts as up.
	HealthySince time.Time `json:"healthySince,omitzero"`
	// LeaderlessSince: since when the member answers its host and sees no
	// raft leader. It starts anew with each process.
	LeaderlessSince time.Time `json:"leaderlessSince,omitzero"`
	// Revived counts the processes that the member has had while leaderless.
	Revived int `json:"revived,omitempty"`
	// PID is the process that LeaderlessSince is about.
	PID int `json:"pid,omitempty"`
	// JoiningSince: since when a learner has been listed.
	JoiningSince time.Time `json:"joiningSince,omitzero"`
	// HostlessSince: since when no host in sight carries the member.
	HostlessSince time.Time `json:"hostlessSince,omitzero"`
	// Odd is how many comparisons in a row found that its keys are not those of the
	// majority of the voters.
	Odd int `json:"odd,omitempty"`
	// Hashed is the hash that was counted last, by when it was taken on its host's clock.
	Hashed time.Time `json:"hashed,omitzero"`
	// CorruptSince: since when its keys are known not to be those of the others; it
	// does not count as up any more.
	CorruptSince time.Time `json:"corruptSince,omitzero"`
}

// Observation is everything that a decision is made from.
type Observation struct {
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"` // the cluster's name
	Leader  HostID    `json:"leader"`  // who looked
	Fence   Fence     `json:"fence"`
	Spec    *Spec     `json:"spec,omitempty"`
	// SpecUnheard: the hosts were asked by another spec than this one, so that what they say of options is of that one.
	SpecUnheard bool `json:"specUnheard,omitempty"`
	// Standing is there while the spec in the store is refused and Spec is none.
	Standing *Standing    `json:"standing,omitempty"`
	Store    StoreView    `json:"store"`
	Hosts    []HostReport `json:"hosts,omitempty"` // sorted by host
	Gaps     []Gap        `json:"gaps,omitempty"`  // sorted by kind, host
	// Sights are what the other hosts' daemons told of the backup store last, sorted by
	// host. They are as old as their looks.
	Sights []HostSight `json:"sights,omitempty"`
	// Incompatible are daemons that answer and do not talk with the leader's, at hosts of which
	// nothing else is seen. Sorted by endpoint.
	Incompatible []Neighbour `json:"atOdds,omitempty"`
	// Commands is the store's queue, in the order in which they are run.
	Commands []Command `json:"commands,omitempty"`
	// Unlisted says why the queue could not be listed in this look, so that Commands is what
	// was known before; empty: it was, or the store was not read at all.
	Unlisted string `json:"unlisted,omitempty"`
	// Paused are the pauses on record, over or not; see [Observation.PauseOf].
	Paused []Pause `json:"paused,omitempty"`
	// PausesUnread says why it is not known who is paused; empty: it is, if only by an
	// earlier look of this leader.
	PausesUnread string `json:"pausesUnread,omitempty"`
	// PausesDamaged says what is wrong with the object that has them, and what to do. What
	// was read before goes on.
	PausesDamaged string `json:"pausesDamaged,omitempty"`
	// PausesLost: the object was read, and is gone. What was in it goes on.
	PausesLost bool `json:"pausesLost,omitempty"`
	// Manual is set while self-management is off; see [Observation.SelfManaged].
	Manual *Manual `json:"manual,omitempty"`
	// ManualUnknown says why it is not known whether somebody has; empty: it is, if only by
	// an earlier look of this leader.
	ManualUnknown string      `json:"manualUnknown,omitempty"`
	Backups       BackupsView `json:"backups,omitzero"`
	// Upkeep is what the leader was told about etcd's own ills.
	Upkeep Upkeep `json:"upkeep,omitzero"`
	// Recorded is the highest progress that the store's record has: a lower
	// bound of what clients may have seen.
	Recorded Progress `json:"recorded,omitzero"`
	Memory   Memory   `json:"memory,omitzero"`
}

// Neighbour is a daemon that runs and that the leader's does not understand, or the other
// way round: a clock, a certificate, a name.
type Neighbour struct {
	Host     HostID `json:"host,omitempty"` // as it is said to be; it did not prove it
	Endpoint string `json:"endpoint"`
	Why      string `json:"why"`
}

// Sort puts every list into its canonical order. Lists whose order is a
// meaning of its own, such as an intent's founders, stay as they are.
func (o *Observation) Sort() {
	for i := 1; i < len(o.Hosts); i++ { // sorting copies each report that it compares
		if o.Hosts[i].Host < o.Hosts[i-1].Host {
			slices.SortStableFunc(o.Hosts, func(a, b HostReport) int { return cmp.Compare(a.Host, b.Host) })
			break
		}
	}
	slices.SortStableFunc(o.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Detail, b.Detail))
	})
	slices.SortStableFunc(o.Incompatible, func(a, b Neighbour) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	for i := range o.Hosts {
		o.Hosts[i].sort()
	}
	slices.SortStableFunc(o.Memory.Hosts, func(a, b HostMemory) int { return cmp.Compare(a.Host, b.Host) })
	slices.SortStableFunc(o.Memory.Members, func(a, b MemberMemory) int { return cmp.Compare(a.Member, b.Member) })
}

func (h *HostReport) sort() {
	if v := h.View; v != nil {
		slices.SortStableFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	}
	asides := func(a, b SetAside) int { return cmp.Or(cmp.Compare(a.Dir, b.Dir), cmp.Compare(a.Reason, b.Reason)) }
	slices.SortStableFunc(h.SetAside, asides)
	slices.SortStableFunc(h.Foreign, asides)
	slices.SortStableFunc(h.Reaches, func(a, b Reach) int { return cmp.Compare(a.Member, b.Member) })
	slices.SortStableFunc(h.Releases, Version.Compare)
	if t := h.PeerTLS; t != nil {
		slices.SortStableFunc(t.Rejects, func(a, b Rejection) int { return cmp.Compare(a.Member, b.Member) })
	}
	slices.SortStableFunc(h.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Sentence, b.Sentence), cmp.Compare(a.Hint, b.Hint))
	})
	slices.SortStableFunc(h.Settings, func(a, b HostSetting) int { return cmp.Or(cmp.Compare(a.Flag, b.Flag), cmp.Compare(a.Value, b.Value)) })
	slices.Sort(h.Local.Known)
	slices.Sort(h.Options)
	slices.Sort(h.Local.Options)
}

// Host returns the report of a host.
func (o *Observation) Host(id HostID) (*HostReport, bool) {
	for i := range o.Hosts { // a report is too large for a search to copy each that it compares
		if o.Hosts[i].Host == id {
			return &o.Hosts[i], true
		}
	}
	return nil, false
}

// HostGap returns what kept a host from being seen.
func (o *Observation) HostGap(id HostID) (Gap, bool) {
	for _, g := range o.Gaps {
		if g.Host == id {
			return g, true
		}
	}
	return Gap{}, false
}

func index(h *HostReport) uint64 {
	if h.Status == nil {
		return 0
	}
	return h.Status.Applied
}

// names reports whether the host's member list is of the intent's cluster or,
// while that is being founded, of its founders.
func (in *Intent) names(h *HostReport) bool {
	if in == nil || in.Cluster != 0 {
		return in != nil && in.Cluster == h.View.Cluster
	}
	return slices.ContainsFunc(in.Founders, func(f Founder) bool {
		return f.Member != 0 && slices.ContainsFunc(h.View.Members, func(m Member) bool { return m.ID == f.Member })
	})
}
