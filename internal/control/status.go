package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Status is what the leader tells whoever looks into the store: `etcdadm
// status --store`, a person, a dashboard. It is advisory; nothing is decided
// by it.
type Status struct {
	Cluster string         `json:"cluster"`
	Leader  cluster.HostID `json:"leader"` // of the daemons
	At      time.Time      `json:"at"`     // when it was written, by the leader's clock
	Since   time.Time      `json:"since"`  // since when the decision has been this one
	Rule    string         `json:"rule"`
	Reason  string         `json:"reason"`
	Command string         `json:"command,omitempty"`
	Spec    *cluster.Spec  `json:"spec,omitempty"`
	// Settled: by this decision nothing is left to be done for Spec, but for upkeep such as a backup. Nil: a release that does not
	// say it.
	Settled *bool `json:"settled,omitempty"`
	// Generation and ClusterID are the record's; zero: there is none, or it is not founded.
	Generation uint64            `json:"generation,omitempty"`
	ClusterID  cluster.ClusterID `json:"clusterID,omitempty"`
	// Version is the lowest that a voter runs; zero: none is known.
	Version cluster.Version `json:"version,omitzero"`
	Members []MemberStatus  `json:"members,omitempty"`
	// Hosts are those that the leader heard at its last look, sorted. One with a member that
	// is not among them was not heard.
	Hosts    []HostStatus    `json:"hosts,omitempty"`
	Blockers []BlockerStatus `json:"blockers,omitempty"`
	// Backup is the newest backup that the leader knows of, and Proven the newest that was found good.
	Backup *cluster.Backup `json:"backup,omitempty"`
	Proven *cluster.Backup `json:"proven,omitempty"`
	// Commands are those in the queue, and what each waits for.
	Commands []CommandStatus `json:"commands,omitempty"`
	// Pauses are those that were asked for and are not over. While there are any the status
	// is written every ten seconds: who stops a host goes by a status that has just come.
	Pauses []PauseStatus `json:"pauses,omitempty"`
}

// PauseStatus is a pause of a host.
type PauseStatus struct {
	ID   string         `json:"id,omitempty"`
	Host cluster.HostID `json:"host"`
	By   string         `json:"by,omitempty"`
	// MayGo: the host said in the leader's last look that it was granted this pause. It may
	// be stopped while every other voter is up.
	MayGo bool `json:"mayGo"`
}

// Voters counts the voters, and those of them that are up.
func (s Status) Voters() (up, voters int) {
	for _, m := range s.Members {
		if !m.Learner {
			voters++
			if m.Up {
				up++
			}
		}
	}
	return up, voters
}

// ActsOn says whether what is told was decided by a spec as it is written; known is false where no spec is told. Times that the
// spec leaves open the leader has of its own.
func (s Status) ActsOn(written cluster.Spec) (is, known bool) {
	if s.Spec == nil {
		return false, false
	}
	by := *s.Spec
	if written.DeadAfter <= 0 {
		by.DeadAfter = written.DeadAfter
	}
	if written.AutoRecoverAfter <= 0 {
		by.AutoRecoverAfter = written.AutoRecoverAfter
	}
	return by.Equal(written), true
}

// Fresh is how old a status may be and still tell of now: it is written every five minutes, and at every change.
const Fresh = 12 * time.Minute

// Health is how a cluster is, in one word.
type Health string

// The cluster's health, the best first.
const (
	// Well: every voter that is wanted is up, clients are served, and nothing waits for a person.
	Well Health = "well"
	// Degraded: it serves clients, and is not well: a voter is down or missing, an alarm is
	// raised, or a blocker names what a person has to do.
	Degraded Health = "degraded"
	// NoQuorum: no quorum of its voters is up in sight of the leading daemon, or its members
	// keep ordinary clients out (before they are founded, in quarantine, in a cluster stop).
	NoQuorum Health = "no-quorum"
	// Unknown: the daemon that leads did not answer, or told nothing of late.
	Unknown Health = "unknown"
)

// Health is how the cluster is by what the leader told last, where that is fresh.
func (s Status) Health(now time.Time) Health {
	up, voters := s.Voters()
	serving := func(m MemberStatus) bool { return !m.Learner && m.Up && !m.Quarantined }
	switch {
	case now.Sub(s.At) > Fresh:
		return Unknown
	case voters == 0, up <= voters/2, !slices.ContainsFunc(s.Members, serving):
		return NoQuorum
	case up < voters, s.Spec == nil, !s.Spec.Hold && voters != s.Spec.MemberCount,
		slices.ContainsFunc(s.Blockers, func(b BlockerStatus) bool { return b.Command != "" }):
		return Degraded
	}
	return Well
}

// CommandStatus is a command of the queue.
type CommandStatus struct {
	Command string              `json:"command"`
	Kind    cluster.CommandKind `json:"kind"`
	What    string              `json:"what"`
	Running bool                `json:"running"`
	For     string              `json:"for"`
}

// HostStatus is a host that was heard.
type HostStatus struct {
	Host cluster.HostID   `json:"host"`
	Disk cluster.DiskID   `json:"disk"`
	Data cluster.DiskData `json:"data"` // what its daemon said lies on the disk
	// Trust is whom it trusts; nil: it has no TLS, or does not tell.
	Trust *TrustStatus `json:"trust,omitempty"`
}

// TrustStatus is whom a host trusts, as certificates of authorities by their SHA-256, sorted. Who rotates the authorities of
// hosts that hold none of their keys goes by it.
type TrustStatus struct {
	// Daemon has those that the daemon trusts.
	Daemon []string `json:"daemon"`
	// Member has those that its etcd was started with; empty: none runs, or it is not known.
	Member []string `json:"member,omitempty"`
	// Signed has those that signed what the host shows; "" is for nobody that it trusts.
	Signed []string `json:"signed,omitempty"`
}

// MemberStatus is a member as the leader sees it.
type MemberStatus struct {
	Member  cluster.MemberID `json:"member"`
	Host    cluster.HostID   `json:"host,omitempty"`
	Version cluster.Version  `json:"version,omitzero"` // of etcd that it runs, where that is known
	Learner bool             `json:"learner,omitempty"`
	Leads   bool             `json:"leads,omitempty"` // raft
	Up      bool             `json:"up"`
	// Condition is what is wrong with it, and Why says it in words; up, and empty: nothing.
	Condition cluster.Condition `json:"condition,omitempty"`
	Why       string            `json:"why,omitempty"`
	// Silent is for how long its host has not answered, as far as that counts: since this leader leads at most, and not for a pause.
	Silent time.Duration `json:"silent,omitempty"`
	// Quarantined: it listens to clients of the quarantine only.
	Quarantined bool `json:"quarantined,omitempty"`
}

// BlockerStatus is something that a person should know of.
type BlockerStatus struct {
	Code string `json:"code"`
	// Subject is the host or member that it is about; empty: the cluster. Facts are those
	// of the sentence, by name.
	Subject  string          `json:"subject,omitempty"`
	Facts    json.RawMessage `json:"facts,omitempty"`
	Sentence string          `json:"sentence"`
	Command  string          `json:"command,omitempty"` // lifts it
}

// WriteStatus replaces the status.
func (f *Folder) WriteStatus(ctx context.Context, s Status) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if _, err := f.put(ctx, keyStatus, data, blob.Any); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// ReadStatus reads the status; ok is false when there is none.
func (f *Folder) ReadStatus(ctx context.Context) (s Status, ok bool, err error) {
	data, _, err := blob.ReadAll(ctx, f.store, keyStatus, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Status{}, false, nil
	case err != nil:
		return Status{}, false, fmt.Errorf("read the status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return Status{}, false, malformed(keyStatus, "", err)
	}
	return s, true, nil
}
