package v1alpha1

import (
	"time"

	"etcdadm.io/internal/duration"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EtcdCluster is one etcd cluster: in pods that the operator makes, or, with spec.hosts, on hosts that somebody else runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=etcd,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.voters,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.up`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.status.generation`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backup",type=date,JSONPath=`.status.lastBackup.at`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="metadata.name has more than 40 characters: names of hosts, pods and Services are made of it; choose a shorter one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name is part of DNS names: use small letters, digits and dashes, with a letter first"
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of them.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}

// ClusterSpec is what is wanted of a cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.hosts) || has(self.storage)",message="storage.size is missing: each member keeps its data on a volume of its own, such as storage: {size: 8Gi}"
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || !(has(self.storage) || has(self.pod) || has(self.backup) || has(self.tls) || has(self.network) || has(self.bootstrap))",message="hosts names daemons outside of Kubernetes, which have their own storage, pod, backup, tls, network and bootstrap: leave those out"
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || !(has(self.replaceAfter) || has(self.spareHosts) || has(self.spread) || has(self.releases) || has(self.deletion) || has(self.hibernate))",message="hosts names daemons outside of Kubernetes, where nobody makes or ends hosts for them: leave replaceAfter, spareHosts, spread, releases, deletion and hibernate out"
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || !(has(self.recovery) || has(self.upgrade))",message="hosts names daemons outside of Kubernetes, for which a person decides there about recovery and upgrade: leave those out, and use etcdadm"
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || has(self.hosts.credentials)",message="hosts.credentials is missing: the operator enters a store by the credentials of the EtcdCluster alone"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.restore) || has(self.backup)",message="backup.store is missing: bootstrap.restore takes the backup from there"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.claims) || has(self.backup)",message="backup.store is missing: bootstrap.claims puts a backup there of what the furthest claim has"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.adopt) || has(self.backup)",message="backup.store is missing: bootstrap.adopt puts a backup there before the cluster is changed"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.adopt) || !has(oldSelf.bootstrap) || !has(oldSelf.bootstrap.adopt) || has(self.bootstrap.adopt.secret) == has(oldSelf.bootstrap.adopt.secret) && (!has(self.bootstrap.adopt.secret) || self.bootstrap.adopt.secret == oldSelf.bootstrap.adopt.secret)",message="bootstrap.adopt.secret cannot be changed later: hosts have certificates of its authorities, and may have joined; make another EtcdCluster"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.adopt) || !has(oldSelf.bootstrap) || !has(oldSelf.bootstrap.adopt) || !has(oldSelf.bootstrap.adopt.clusterID) || has(self.bootstrap.adopt.clusterID)",message="bootstrap.adopt.clusterID cannot be taken away later: name the cluster that is meant"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.adopt) || !has(self.tls) || !has(self.tls.clients)",message="tls.clients cannot be set beside bootstrap.adopt: the cluster is adopted with the authority that its clients trust; set tls.clients once it is adopted, and take bootstrap away then"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(oldSelf.bootstrap) || has(self.bootstrap.adopt) == has(oldSelf.bootstrap.adopt)",message="bootstrap.adopt cannot be exchanged for another source later, nor another one for it: make another EtcdCluster"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || !has(self.bootstrap.restore) || !has(self.bootstrap.restore.from) || !has(self.backup) || self.bootstrap.restore.from.store != self.backup.store",message="bootstrap.restore.from names backup.store itself: leave from out"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap) || has(oldSelf.bootstrap)",message="bootstrap cannot be added later: it is what a new cluster begins with; an EtcdRestore changes what a cluster has"
// +kubebuilder:validation:XValidation:rule="has(self.hosts) == has(oldSelf.hosts)",message="hosts cannot be added or taken away later: a cluster is in pods, or on hosts; make another EtcdCluster"
type ClusterSpec struct {
	// Size is how many members vote. An even one survives no more failures than the odd one below.
	// +kubebuilder:validation:XValidation:rule="self in [1, 3, 5, 7, 9]",message="a cluster has 1, 3, 5, 7 or 9 members: an even number survives no more failures than the odd one below"
	Size int32 `json:"size"`
	// Version of etcd, such as 3.7.3. It has no default.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+\\\\.[0-9]+\\\\.[0-9]+$')",message="version is a release of etcd with all three numbers and without a v, such as 3.7.3"
	Version string `json:"version"`
	// Storage is the volume of each member.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
	// ReplaceAfter is how long a host is silent before another one is made in its place: 30s or more. Default 5m.
	// +optional
	ReplaceAfter Duration `json:"replaceAfter,omitempty"`
	// SpareHosts is how many hosts beyond size stand by, with a volume and without a member.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3
	// +optional
	SpareHosts int32 `json:"spareHosts,omitempty"`
	// Spread says whether two hosts may share a machine: Required (the default) never, Preferred where there is no other.
	// +kubebuilder:validation:Enum=Required;Preferred
	// +optional
	Spread Spread `json:"spread,omitempty"`
	// Options are etcd's, as flag names without dashes.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Options map[string]string `json:"options,omitempty"`
	// Recovery says what is done when the quorum is lost.
	// +optional
	Recovery *Recovery `json:"recovery,omitempty"`
	// Upgrade has what a person accepts on the way to another version.
	// +optional
	Upgrade *Upgrade `json:"upgrade,omitempty"`
	// Releases are images with versions of etcd that the image of the hosts does not have. They are mounted, which
	// Kubernetes can from 1.35 on.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=version
	// +optional
	Releases []Release `json:"releases,omitempty"`
	// Backup says where backups go and when. A change replaces the pods, one after the other.
	// +optional
	Backup *BackupPolicy `json:"backup,omitempty"`
	// TLS is about certificates. Without it all is encrypted by authorities that the operator makes.
	// +optional
	TLS *TLS `json:"tls,omitempty"`
	// Network is about what may connect, and how.
	// +optional
	Network *Network `json:"network,omitempty"`
	// Deletion says what becomes of the data when this object is deleted.
	// +optional
	Deletion *Deletion `json:"deletion,omitempty"`
	// Hibernate: back up, then run no pod until it is false again.
	// +optional
	Hibernate bool `json:"hibernate,omitempty"`
	// Paused: the operator changes nothing, and the daemons in pods hold the member count.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Bootstrap says what a new cluster is made from. It counts once, before there is a generation.
	// +optional
	Bootstrap *Bootstrap `json:"bootstrap,omitempty"`
	// Pod is laid over the pods' template, as a strategic merge. A change replaces the pods, one after the other.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Pod *runtime.RawExtension `json:"pod,omitempty"`
	// Hosts is the store of a cluster outside of Kubernetes. Of its spec the operator writes size, version and options.
	// +optional
	Hosts *HostStore `json:"hosts,omitempty"`
}

// Duration is a length of time as people write it: 90s, 15m, 1h30m, 1d.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h|d|y))+$')",message="a length of time is a number with a unit, such as 90s, 15m, 24h or 7d"
type Duration string

// Or is the length of time, or another one where none is said. What the API server let through can be read, except where it
// is longer than 292 years, and that is as good as never.
func (d Duration) Or(other time.Duration) time.Duration {
	if d == "" {
		return other
	}
	length, err := duration.Parse(string(d))
	if err != nil {
		return 292 * duration.Year
	}
	return length
}

// Storage is a member's volume.
//
// +kubebuilder:validation:XValidation:rule="type(self.size) == int ? self.size >= 104857600 : quantity(self.size).compareTo(quantity('100Mi')) >= 0",message="storage.size is less than 100Mi: etcd's log alone needs more"
type Storage struct {
	// Size of each volume, such as 8Gi.
	Size resource.Quantity `json:"size"`
	// Class is the StorageClass; without it the default one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Class string `json:"class,omitempty"`
	// AccessMode: ReadWriteOncePod, where the driver has it, keeps a second pod from the volume. Default ReadWriteOnce.
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod
	// +optional
	AccessMode string `json:"accessMode,omitempty"`
}

// Spread says whether two hosts may share a node.
type Spread string

// Values of Spread.
const (
	SpreadRequired  Spread = "Required"
	SpreadPreferred Spread = "Preferred"
)

// RecoveryMode says who decides that writes may be lost to get a quorum again.
type RecoveryMode string

// Values of RecoveryMode.
const (
	RecoverManually      RecoveryMode = "Manual"
	RecoverAutomatically RecoveryMode = "Automatic"
)

// Recovery says what is done when the quorum is lost.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Automatic' || has(self.after)",message="recovery.after is missing: say how long the quorum has to be gone before writes may be given up, such as after: 10m"
// +kubebuilder:validation:XValidation:rule="!has(self.after) || (has(self.mode) && self.mode == 'Automatic')",message="recovery.after goes with mode: Automatic alone"
type Recovery struct {
	// Mode Automatic recovers from the furthest survivor by itself, which may lose writes. Default Manual.
	// +kubebuilder:validation:Enum=Manual;Automatic
	// +optional
	Mode RecoveryMode `json:"mode,omitempty"`
	// After is how long the quorum has to be gone.
	// +optional
	After Duration `json:"after,omitempty"`
}

// Upgrade has what a person accepts on the way to another version.
type Upgrade struct {
	// PauseBeforeLast keeps one voter on the former release line, as a way back.
	// +optional
	PauseBeforeLast bool `json:"pauseBeforeLast,omitempty"`
	// AcceptOutageTo is a version that may be reached with every member stopped for a while.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+\\\\.[0-9]+\\\\.[0-9]+)?$')",message="upgrade.acceptOutageTo is a release of etcd with all three numbers and without a v, such as 3.7.3"
	// +optional
	AcceptOutageTo string `json:"acceptOutageTo,omitempty"`
	// AcceptLoss is the digest of a list of losses that a person has read.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	AcceptLoss string `json:"acceptLoss,omitempty"`
}

// Release is an image with a version of etcd.
type Release struct {
	// Version of the etcd that is in the image, in its root directory or in /usr/local/bin.
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+\\\\.[0-9]+\\\\.[0-9]+$')",message="releases.version is a release of etcd with all three numbers and without a v, such as 3.4.45"
	Version string `json:"version"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
}

// SecretName names a Secret of the same namespace.
type SecretName struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// BackupPolicy says where backups go and when.
type BackupPolicy struct {
	// Store is a URL, such as s3://bucket/path. Each cluster needs one of its own.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(s3|gs|azureblob)://.+')",message="backup.store is a URL such as s3://bucket/path, gs://bucket/path or azureblob://container/path"
	Store string `json:"store"`
	// Credentials is a Secret whose keys become the environment of the daemons.
	// +optional
	Credentials *SecretName `json:"credentials,omitempty"`
	// Interval between backups. Default 15m.
	// +optional
	Interval Duration `json:"interval,omitempty"`
	// DrillInterval is how often the newest backup is restored and compared. Default: never.
	// +optional
	DrillInterval Duration `json:"drillInterval,omitempty"`
	// KeepLast keeps the newest so many, however old.
	// +kubebuilder:validation:Minimum=0
	// +optional
	KeepLast int32 `json:"keepLast,omitempty"`
	// Recipients are public keys of age that backups are encrypted to.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Recipients []Recipient `json:"recipients,omitempty"`
}

// Recipient is a public key of age.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.startsWith('age1')",message="a recipient is a public key of age, which begins with age1"
type Recipient string

// Network is about what may connect, and how.
type Network struct {
	// Policy: make a NetworkPolicy that closes all but the clients' port to others. Default true.
	// +optional
	Policy *bool `json:"policy,omitempty"`
	// Service is the one that clients use.
	// +optional
	Service *ClientService `json:"service,omitempty"`
}

// ClientService is the Service that clients use.
type ClientService struct {
	// +kubebuilder:validation:Enum=ClusterIP;LoadBalancer;NodePort
	// +optional
	Type string `json:"type,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Deletion says what becomes of the data when the EtcdCluster is deleted.
type Deletion struct {
	// FinalBackup is taken before the cluster is deleted or hibernates: IfStore (the default), Always, which waits for a
	// store, or Never.
	// +kubebuilder:validation:Enum=IfStore;Always;Never
	// +optional
	FinalBackup string `json:"finalBackup,omitempty"`
	// Volumes: KeepUnproven (the default) keeps them unless the last backup is proven, which is waited for where
	// backup.drillInterval has it proven; Delete deletes them in any case; Keep keeps them in any case.
	// +kubebuilder:validation:Enum=KeepUnproven;Keep;Delete
	// +optional
	Volumes string `json:"volumes,omitempty"`
	// Protected: an admission policy of the operator's installation refuses to delete this object.
	// +optional
	Protected bool `json:"protected,omitempty"`
}

// HostStore is the store of a cluster outside of Kubernetes.
type HostStore struct {
	// Store is the URL that the daemons are given as --backup-store, or as --control-store where they have one.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(s3|gs|azureblob|do|linode|hos|scw)://.+')",message="hosts.store is a bucket that the operator reaches, too, such as s3://bucket/path, gs://bucket/path or azureblob://container/path: one of a machine (file://) or of the hosts themselves (hosts://) it does not"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="hosts.store is that of one cluster and never changes: make another EtcdCluster"
	Store string `json:"store"`
	// Credentials is a Secret whose keys are the variables of the store, such as S3_ACCESS_KEY_ID. Of those that name files
	// none is read.
	// +optional
	Credentials *SecretName `json:"credentials,omitempty"`
}
