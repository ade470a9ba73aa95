// Package decide says what the operator does next for one cluster. It is a pure function: the objects as they are seen and
// what the daemons told last go in; steps, each with its reason, and what is waited for come out.
//
// What must always hold:
//
//   - A decision has one step that takes something away, or any number of others, never both.
//   - No volume is given up whose host is a voter, or may become one, by anything that is written (see Keeps).
//   - A host's number is never used again.
//   - The budget of disruptions is at least the quorum of the voters that are, and of those that are to be.
//   - Unknown is not absent: what nobody tells, or told too long ago, takes nothing away.
//   - What the planner decides is not decided here: which member is added, removed or restarted.
//
// Why was this volume not deleted? status.hosts[].why of the EtcdCluster says it; Keeps, in volumes.go, is all that there
// is to it.
package decide

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// World is what is seen of one cluster. Lists are sorted.
type World struct {
	Now  time.Time
	Want Want
	// Namespace and Name are the EtcdCluster's.
	Namespace, Name string
	// Since is when the EtcdCluster was made: what was told before is about an earlier life.
	Since time.Time
	// Record is the control object.
	Record Record
	// Hosts are those that any object is known of, by number.
	Hosts []Host
	// Budget is how many pods may not be drained; 0: there is no budget.
	Budget int
	// Spec is what is written for the daemons; nil: nothing yet.
	Spec *cluster.Spec
	// Joining is what is written of an adoption; nil: nothing.
	Joining *Joining
	// Intent is the cluster's own record; nil: there is none, or none any more.
	Intent *cluster.Intent
	// Unread says why spec or intent are there and cannot be read.
	Unread string
	// Bars says why nothing may be asked of a cluster on bare hosts; empty: it may.
	Bars string
	// Told is what the daemons told last; nil: nothing yet.
	Told *Told
	// Pause is the operator's own that is not ended; nil: there is none. OthersPause is a host that somebody else has, or wants
	// to have, paused; PausesUnread says why nobody knows.
	Pause        *Pause
	OthersPause  string
	PausesUnread string
	// Full: pods are replaced in as many other clusters as may be at once, and in this one none is yet.
	Full bool
	// Authorities are the cluster's; nil: there are none yet.
	Authorities *Authorities
	// Shared: some of the objects are there that are no host's.
	Shared bool
	// Stamped is Now by the clock of the API server, which is asked where the authorities have ended by the operator's; zero: it did not
	// say, or nobody asked. Unstamped is why it did not.
	Stamped   time.Time
	Unstamped string
	// Taken are objects under names of this cluster that are somebody else's.
	Taken []string
	// Copy is that of the backup which a new cluster begins with; nil: none is made, or nobody has looked.
	Copy *Copy
	// StoreOf is another EtcdCluster with the same store, which has it before this one.
	StoreOf string
	// NamespaceEnds and KindEnds: the namespace or the CRD is being deleted.
	NamespaceEnds, KindEnds bool
}

// Want is what an EtcdCluster asks for.
type Want struct {
	// Spec is what is asked of the daemons, without hosts.
	Spec  cluster.Spec
	Spare int
	// ReplaceAfter is how long a host is silent before another one is made.
	ReplaceAfter time.Duration
	// Paused: nothing is done but for the hold.
	Paused bool
	// Hibernate: no pod is to run.
	Hibernate bool
	// Deleted is when the EtcdCluster was deleted; zero: it was not.
	Deleted time.Time
	// Store: backups have a store.
	Store bool
	// Backup: a last backup is to be taken before the cluster is deleted or sleeps.
	Backup bool
	// Drills: backups are proven by themselves, DrillEvery so often.
	Drills     bool
	DrillEvery time.Duration
	// Volumes says what becomes of the volumes then.
	Volumes Volumes
	// Rotate is how often the authorities are to have been replaced, and RotationGrace how long clients have at each step of it.
	Rotate        int
	RotationGrace time.Duration
	// Issuer is who is to sign the clients' authority.
	Issuer Issuer
	// IssuerBarred: this operator may not ask that one.
	IssuerBarred bool
	// From is what a new cluster begins with; nil: nothing.
	From *Origin
	// Adopt is a running cluster that is to be taken over; nil: none. GivenUp: a person says that no host has a member of the cluster
	// whose adoption is under way. LetGo: a person wants a deleted EtcdCluster to go, and nothing else.
	Adopt          *Adopt
	GivenUp, LetGo bool
	// Refused says what is wrong with the EtcdCluster that the API server cannot tell.
	Refused string
}

// Volumes says what becomes of the volumes of a deleted cluster.
type Volumes string

// Values of Volumes.
const (
	KeepUnproven  Volumes = "KeepUnproven"
	KeepVolumes   Volumes = "Keep"
	DeleteVolumes Volumes = "Delete"
)

// Record is the control object.
type Record struct {
	There bool
	// Part: some of it is there, and not all.
	Part bool
	// Next is the number of the next host.
	Next int
	// Copied: the UID that is written inside is another object's.
	Copied bool
	// Remade: it was made while there were hosts already.
	Remade bool
	// Held: the hold of the spec is that of the pause, and no person's.
	Held bool
	// Adopts: it was written down that a running cluster is to be adopted, and that is not over. AdoptsID is the one that is meant, as it
	// is written there; zero: none.
	Adopts   bool
	AdoptsID cluster.ClusterID
	// Kept: the label says that a deleted cluster left it behind on purpose.
	Kept bool
	// Begun is what a new cluster begins with, as it is written.
	Begun Begun
	// Last is the last backup, which the operator asked for as this EtcdCluster was deleted.
	Last LastBackup
}

// LastBackup is the operator's own wish for a backup, and what became of it.
type LastBackup struct {
	// Asked: there is such a wish. Taken: it ended, and the backup is there.
	Asked, Taken bool
	// Failed says why it ended without one, and At when; empty: it did not.
	Failed string
	At     time.Time
	// Proven: a backup that was not there before the wish is found good.
	Proven bool
}

// Pause is the operator's own, of one host.
type Pause struct {
	ID, Host string
	For      time.Duration
	// Asked is when this process asked for it; zero: it was another one.
	Asked time.Time
	// Loose: by what is written somebody deletes the host's pod by it, which is there still; that may come to pass at any time.
	Loose bool
}

// Host is a place for a member: a StatefulSet of one pod, with a volume and certificates.
type Host struct {
	N    int
	Name string
	// Set and Running: there is a StatefulSet, and it is to have its pod.
	Set, Running bool
	// Claim is its volume. Unbound: the claim has none yet, and no machine was chosen for it, so that nothing was ever written there.
	Claim   Claim
	Unbound bool
	// Kept: the label says that a deleted cluster left the volume behind on purpose.
	Kept bool
	// Adopts: the volume was made for a host that is to join a running cluster, and that is not over. AdoptsID is the cluster that it
	// names; zero: none.
	Adopts   bool
	AdoptsID cluster.ClusterID
	// Leaves: its certificates are there. LeavesDue: some of them are to be renewed. OldLeaves: they were written by an earlier
	// step of the authorities.
	Leaves, LeavesDue, OldLeaves bool
	// LeavesEnd is when the first of them ends, of a host that is to start where the keys are lost; zero: not known, or nobody looked.
	LeavesEnd time.Time
	// Pod: there is one, whatever its state. Going: it is ending. Outlived: it is of before authorities that were made in place of
	// those that had ended.
	Pod, Going, Outlived bool
	// OldSet and OldPod: set and pod were made by another template than is wanted.
	OldSet, OldPod bool
	// Serves: its container is ready, which a voter is that serves. Runs is since when it runs; zero: it does not.
	Serves bool
	Runs   time.Time
	// Ready: Kubernetes has its pod for one that serves, also after what it knows of the pod's machine, and sends clients there.
	// ReadySince is since when it has, or has not; zero: that is not known.
	Ready      bool
	ReadySince time.Time
	// Stuck is why its container does not run, in a word of its kubelet or scheduler; empty: it runs, or is to start soon.
	Stuck string
	// Says is what Kubernetes says of that in a sentence: its scheduler, and which volume the claim waits for; empty: nothing.
	Says string
	// Loses is the release that its member runs, if the image that its pod mounts for it is in no pod that is wanted, and
	// another version is; empty: none.
	Loses string
	// NoStore: it has not the store that is wanted now.
	NoStore bool
	// Replace: a person wants another host in its place.
	Replace bool
	// SpentSince is since when its daemon has said that nothing but a removed member's data lies there; zero: it did not.
	SpentSince time.Time
	// SilentSince is since when the daemons do not hear it, as far as that counts ([World.SilentSince]); zero: they do.
	SilentSince time.Time
}

// Claim is a host's volume.
type Claim string

// What a claim may be.
const (
	ClaimThere   Claim = "there"
	ClaimNone    Claim = "none"
	ClaimOther   Claim = "other"   // of another class or size than is wanted now
	ClaimLost    Claim = "lost"    // what it was bound to is gone
	ClaimLeaving Claim = "leaving" // a person deleted it, and the finalizer keeps it
)

// votes says whether anything that is written has the host for a voter: now, after a change that may be under way, or in a
// generation that is not closed. A voter whose host is not written down may be any.
func (w *World) votes(name string) bool {
	if w.Intent == nil {
		return false
	}
	sets := w.Intent.VoterSets()
	for _, g := range w.Intent.History {
		if !g.Closed {
			sets = append(sets, g.Voters...)
		}
	}
	for _, set := range sets {
		if slices.ContainsFunc(set, func(v cluster.Voter) bool { return v.Host == "" || v.Host == cluster.HostID(name) }) {
			return true
		}
	}
	founds := func(f cluster.Founder) bool { return f.Host == cluster.HostID(name) }
	return w.Intent.State == cluster.IntentFounding && slices.ContainsFunc(w.Intent.Founders, founds)
}

// idles says that a host neither carries a member nor may, by all that is written. It is false where too little is written
// to tell.
func (w *World) idles(name string) bool {
	return w.Spec != nil && w.Intent != nil && !w.named(name) && !w.votes(name)
}

// Kubectl is a command for a person, who may type it in any context of a shell.
func (w *World) Kubectl(words string) string {
	return "kubectl --namespace=" + cluster.ShellWord(w.Namespace) + " " + words
}

// Describe has a person look at a host's pod.
func (w *World) Describe(host string) string { return w.Kubectl("describe pod " + host + "-0") }

// retired says whether a host was stopped for good, now or before its cluster was deleted: it is not to come back.
func (w *World) retired(h Host) bool {
	return (h.Set && !h.Running || h.Kept) && w.idles(h.Name)
}

// gone says that the record was lost, and that the hosts have not written theirs back.
func (w *World) gone() bool {
	return w.Record.Remade && (w.Intent == nil || w.Intent.Adopted() && w.Joining == nil)
}

// moves says whether the daemons may take one more voter for a while, in place of one: of a voter whose host is not to carry
// one, or is lost, or that they want another host for; and of a learner.
func (w *World) moves(names []cluster.HostID) bool {
	if w.Intent == nil {
		return false
	}
	away := func(v cluster.Voter) bool {
		i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == string(v.Host) })
		return !slices.Contains(names, v.Host) || !w.named(string(v.Host)) || i >= 0 && w.lost(w.Hosts[i])
	}
	if t := w.fresh(); t != nil && slices.ContainsFunc(t.Hosts, func(h ToldHost) bool { return h.Carries && !w.votes(h.Name) }) {
		return true
	}
	return w.noHost() || w.Spec != nil && slices.ContainsFunc(w.Intent.Voters, away)
}

// voters is how many there are by the largest set that is written.
func (w *World) voters() (n int) {
	if w.Intent == nil {
		return 0
	}
	for _, set := range w.Intent.VoterSets() {
		n = max(n, len(set))
	}
	if w.Intent.State == cluster.IntentFounding {
		n = max(n, len(w.Intent.Founders))
	}
	return n
}

// named says whether the spec that is written has the host for one that may carry a member. A spec that names none has all.
func (w *World) named(name string) bool {
	return w.Spec != nil && (len(w.Spec.Hosts) == 0 || slices.Contains(w.Spec.Hosts, cluster.HostID(name)))
}
