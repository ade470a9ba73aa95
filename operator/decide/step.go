package decide

import "etcdadm.io/cluster"

// Kind is what a step does.
type Kind string

// Steps that take nothing away.
const (
	MakeRecord   Kind = "make-record"  // the control objects
	MakeShared   Kind = "make-shared"  // authorities, account, Services, NetworkPolicy; as they are to be
	MakeHost     Kind = "make-host"    // or what is missing of one: claim, leaves, set
	RenewLeaves  Kind = "renew-leaves" // where they are due
	SetBudget    Kind = "set-budget"
	WriteSpec    Kind = "write-spec"
	StartHost    Kind = "start-host"
	AskBackup    Kind = "ask-backup"
	CopyBackup   Kind = "copy-backup" // into the cluster's store, by a Job
	AskPause     Kind = "ask-pause"   // of a host, in place of another pause of the operator's
	EndPause     Kind = "end-pause"
	MarkStore    Kind = "mark-store"    // of a cluster on bare hosts: who looks after it
	AmendSpec    Kind = "amend-spec"    // there: the EtcdCluster's own keys
	NoteAdoption Kind = "note-adoption" // that a running cluster is to be adopted, before anything else is made
	EndWord      Kind = "end-word"      // there: a person's take-over is done, and its annotation goes
	AskIssuer    Kind = "ask-issuer"    // a key for the clients' authority, for which a request is to be made
	SendRequest  Kind = "send-request"
	// FoundAuthorities makes them where an issuer signs.
	FoundAuthorities Kind = "found-authorities"
	KeepPod          Kind = "keep-pod" // whatever was to delete the pod of the host that the operator has paused does not any more
)

// Steps that take something away. A decision has one of them at most, and then nothing else.
const (
	StopHost    Kind = "stop-host"
	RollHost    Kind = "roll-host" // its set gets the template that is wanted, and a pod that was made by another one goes
	DropVolume  Kind = "drop-volume"
	EndHost     Kind = "end-host"   // the set and the leaves of a host of a deleted cluster
	EndShared   Kind = "end-shared" // Services, budget, account, NetworkPolicy
	EndRecord   Kind = "end-record" // control objects and authorities
	LowerBudget Kind = "lower-budget"
	ClearHost   Kind = "clear-host" // what is left of one whose claim is gone
	EndPod      Kind = "end-pod"    // of a cluster whose authorities had ended: nobody can join anybody before all are started anew
	Rotate      Kind = "rotate"     // the authorities, by a step of which the last ones have nobody trust the former
	KeepData    Kind = "keep-data"  // a label on volumes, record and authorities of a deleted cluster; the finalizer goes
	UnmarkStore Kind = "unmark-store"
	LetGo       Kind = "let-go" // the finalizer of the EtcdCluster
)

// Takes says whether a step takes something away.
func (k Kind) Takes() bool {
	switch k {
	case StopHost, RollHost, DropVolume, EndHost, EndShared, EndRecord, LowerBudget, ClearHost, EndPod, Rotate, KeepData, UnmarkStore, LetGo:
		return true
	}
	return false
}

// ForSpec says whether a step is on the way to what the spec asks; others look after what is there.
func (k Kind) ForSpec() bool {
	switch k {
	case MakeRecord, MakeHost, WriteSpec, AmendSpec, StartHost, CopyBackup, AskPause, RollHost:
		return true
	}
	return false
}

// Step is what the operator does next.
type Step struct {
	Kind Kind
	// N and Host are the host's that it is about.
	N    int
	Host string
	// AtLeast is for budgets; 0: none.
	AtLeast int
	// Spec is what is written; Held says that its hold is the pause's.
	Spec *cluster.Spec
	Held bool
	// Adopted: with it an adoption is over.
	Adopted bool
	// Options are those that the mark of a store names.
	Options []string
	// Begin is the backup that a new cluster begins with, which is fetched first, or written with the spec; empty: none, or it is
	// written.
	Begin string
	// Spent: as its host stops, it is written down that nothing but a removed member's data lies there.
	Spent bool
	// Outage: nobody serves while the host is away, which has the only voter.
	Outage bool
	// Evict: the host stands, and the budget of disruptions is to let its pod go, too.
	Evict bool
	// Phase is that of the authorities that is written, for the number of spec.tls.rotate; ByTime: nobody asked for it.
	Phase  cluster.RotationPhase
	Rotate int
	ByTime bool
	// Next: those that were to sign next sign at once, in place of others that are made now.
	Next bool
	// Issuer is who signs the clients' authority, or is asked to, by so many requests.
	Issuer Issuer
	Tries  int
	// Why is for people.
	Why string
}

// What is the step with the host that it is about, as it is told.
func (s Step) What() string {
	if s.Host == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + " " + s.Host
}

// Is says whether two steps do the same.
func (s Step) Is(o Step) bool {
	return o.Kind == s.Kind && o.N == s.N && o.AtLeast == s.AtLeast && o.Evict == s.Evict && o.Phase == s.Phase && o.Next == s.Next && o.Issuer == s.Issuer
}

// Code names what is waited for. It becomes the code of a blocker.
type Code string

// What may be waited for.
const (
	Paused           Code = "Paused"
	Hibernates       Code = "Hibernates"
	NameTaken        Code = "NameTaken"
	StoreTaken       Code = "StoreTaken"
	RecordCopied     Code = "RecordCopied"
	RecordUnread     Code = "RecordUnread"
	NotSupported     Code = "NotSupported"
	SpecRefused      Code = "SpecRefused"
	RecordGone       Code = "RecordGone"
	Pending          Code = "HostPending"
	TooManyHosts     Code = "TooManyHosts"
	BackupMissing    Code = "BackupMissing"
	AuthorityGone    Code = "AuthorityGone"
	AuthorityChanged Code = "AuthorityChanged" // the Secret with the keys is of an earlier step, or was edited
	AuthorityEnded   Code = "AuthorityEnded"
	AuthorityEnds    Code = "AuthorityEnds" // soon, and nothing replaces them
	IssuerWaits      Code = "IssuerWaits"   // the issuer of spec.tls.clients is asked
	IssuerRefuses    Code = "IssuerRefuses" // it did not sign, or not what serves
	IssuerBarred     Code = "IssuerBarred"  // the operator may not ask it
	StepFailed       Code = "StepFailed"
	Rolling          Code = "Rolling"  // a host's pod is being replaced
	RollHeld         Code = "RollHeld" // pods are to be replaced, and something is in the way
	BootstrapWaits   Code = "BootstrapWaits"
	BootstrapFailed  Code = "BootstrapFailed"
	Adopting         Code = "Adopting"
	// Of clusters on bare hosts.
	StoreUnreached Code = "StoreUnreached"
	StoreFree      Code = "StoreFree" // it has a cluster, nobody's mark, and another spec
	Held           Code = "Held"
	NoDaemons      Code = "NoDaemons"
)

// Passes says whether what is waited for is on its way: it comes by itself, if nothing is wrong. Of all else a person has the word.
func (w Wait) Passes() bool {
	if w.Stands {
		return false
	}
	switch w.Code {
	case Pending, BackupMissing, RecordGone, IssuerWaits, Rolling, BootstrapWaits:
		return true
	}
	return false
}

// Wait is what keeps the operator from a step, and the way out.
type Wait struct {
	Code     Code
	Host     string
	Sentence string
	Command  string
	// Stands: the wait does not end until a person acts. Other waits with the same code may end without one.
	Stands bool
	// Aside: it is about other authorities than those that are there, by which the cluster goes on as well as before.
	Aside bool
}

// Decision is what follows from a world.
type Decision struct {
	Steps []Step
	Waits []Wait
	// Rotation is the one of the authorities that is under way; nil: none is, or nobody looked.
	Rotation *Rotation
	// Ending: the authorities are to be replaced, and are not yet; nil: they are not due.
	Ending *Ending
}

func (d *Decision) do(s Step) { d.Steps = append(d.Steps, s) }
func (d *Decision) wait(c Code, sentence string) {
	d.Waits = append(d.Waits, Wait{Code: c, Sentence: sentence})
}

// stand adds a wait that does not end until a person acts.
func (d *Decision) stand(c Code, sentence string) {
	d.Waits = append(d.Waits, Wait{Code: c, Sentence: sentence, Stands: true})
}
