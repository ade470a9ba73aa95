package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterStatus is what is seen of a cluster. The daemons tell most of it.
type ClusterStatus struct {
	// ObservedGeneration is the metadata.generation that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Generation counts foundings, restores and recoveries of the data.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// ClusterID is etcd's.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Leader is the host whose daemon leads.
	// +optional
	Leader string `json:"leader,omitempty"`
	// Version that all members run; between two versions the lower one.
	// +optional
	Version string `json:"version,omitempty"`
	// Voters is how many members vote.
	// +optional
	Voters int32 `json:"voters,omitempty"`
	// Up is how many of them are up; left out where nobody has told lately.
	// +optional
	Up *int32 `json:"up,omitempty"`
	// NextHost is the number of the next host, which goes on where the control object was lost.
	// +optional
	NextHost int32 `json:"nextHost,omitempty"`
	// Selector finds the pods.
	// +optional
	Selector string `json:"selector,omitempty"`
	// +listType=map
	// +listMapKey=name
	// +optional
	Hosts []HostStatus `json:"hosts,omitempty"`
	// +listType=atomic
	// +optional
	Blockers []Blocker `json:"blockers,omitempty"`
	// +optional
	LastBackup *BackupStatus `json:"lastBackup,omitempty"`
	// +optional
	ProvenBackup *BackupStatus `json:"provenBackup,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostStatus is one host.
type HostStatus struct {
	Name string `json:"name"`
	// +optional
	Node string `json:"node,omitempty"`
	// +optional
	Member string `json:"member,omitempty"`
	// Role is voter, learner, or empty: it carries no member.
	// +optional
	Role string `json:"role,omitempty"`
	// +optional
	Up bool `json:"up,omitempty"`
	// Why says what is wrong with it, or why its volume stays.
	// +optional
	Why string `json:"why,omitempty"`
	// SilentSince is since when the daemons do not hear it, as far as that counts.
	// +optional
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
}

// Blocker is something that a person should know of.
type Blocker struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	// +optional
	Command string `json:"command,omitempty"`
}

// BackupStatus is a backup.
type BackupStatus struct {
	Name string `json:"name"`
	// +optional
	At metav1.Time `json:"at,omitempty"`
}

// Types of a cluster's conditions.
const (
	Ready       = "Ready"       // all is as the spec asks, but for authorities that an issuer is yet to sign
	Available   = "Available"   // a quorum serves
	Progressing = "Progressing" // something is on its way
	Degraded    = "Degraded"    // something is wrong that clients need not notice
	BackedUp    = "BackedUp"    // a backup is newer than twice its interval
	Reporting   = "Reporting"   // the daemons tell of themselves
	Rotating    = "Rotating"    // the authorities are being replaced; it is not there before the first time
)
