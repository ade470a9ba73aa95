package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdBackup is one backup that a person or a schedule asks for.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.backup`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an EtcdBackup is one backup and never changes: make another one"
	Spec   BackupSpec    `json:"spec"`
	Status RequestStatus `json:"status,omitempty"`
}

// EtcdBackupList is a list of them.
//
// +kubebuilder:object:root=true
type EtcdBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdBackup `json:"items"`
}

// BackupSpec says of what a backup is taken, and for how long it is kept.
type BackupSpec struct {
	// Cluster is an EtcdCluster of the same namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Cluster string `json:"cluster"`
	// KeepFor keeps it at least for so long, whatever the cluster's retention.
	// +optional
	KeepFor Duration `json:"keepFor,omitempty"`
}

// RequestStatus is what became of a backup or restore.
type RequestStatus struct {
	// Phase is Queued, Running, Done or Failed.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Command is its name in the cluster's queue.
	// +optional
	Command string `json:"command,omitempty"`
	// Backup is the backup that was taken or restored.
	// +optional
	Backup string `json:"backup,omitempty"`
	// Reason says why it waits or failed.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Values of RequestStatus.Phase.
const (
	Queued  = "Queued"
	Running = "Running"
	Done    = "Done"
	Failed  = "Failed"
)

// Ended says whether a request is done or failed, which it stays.
func (s RequestStatus) Ended() bool { return s.Phase == Done || s.Phase == Failed }

// EtcdBackupSchedule takes backups at the times of a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastTime`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextTime`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 100",message="metadata.name has more than 100 characters: names of EtcdBackups are made of it; choose a shorter one"
type EtcdBackupSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ScheduleSpec   `json:"spec"`
	Status ScheduleStatus `json:"status,omitempty"`
}

// EtcdBackupScheduleList is a list of them.
//
// +kubebuilder:object:root=true
type EtcdBackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdBackupSchedule `json:"items"`
}

// ScheduleSpec says when backups are taken.
type ScheduleSpec struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Cluster string `json:"cluster"`
	// Schedule is minute, hour, day of the month, month and day of the week, as of cron.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^ ]+( [^ ]+){4}$')",message="schedule has five fields as of cron: minute, hour, day of the month, month, day of the week; such as 0 3 * * *"
	Schedule string `json:"schedule"`
	// TimeZone, such as Europe/Berlin. Default UTC.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// +optional
	KeepFor Duration `json:"keepFor,omitempty"`
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ScheduleStatus is what became of a schedule.
type ScheduleStatus struct {
	// Phase is Active, Suspended or Refused.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Reason says why no backup is taken.
	// +optional
	Reason string `json:"reason,omitempty"`
	// LastTime is the newest time of the schedule that an EtcdBackup was made for.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// Since is when the schedule was made or changed: no earlier time is made up for.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Values of ScheduleStatus.Phase.
const (
	ScheduleActive    = "Active"
	ScheduleSuspended = "Suspended"
	ScheduleRefused   = "Refused"
)

// EtcdRestore makes a new generation of a cluster from a backup, a survivor or data that was set aside.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.status.backup`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdRestore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an EtcdRestore is one restore and never changes: make another one"
	Spec   RestoreSpec   `json:"spec"`
	Status RequestStatus `json:"status,omitempty"`
}

// EtcdRestoreList is a list of them.
//
// +kubebuilder:object:root=true
type EtcdRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdRestore `json:"items"`
}

// RestoreSpec says what a new generation is made from.
//
// +kubebuilder:validation:XValidation:rule="!has(self.from) || has(self.source.backup)",message="from goes with source.backup: name a backup of that store"
type RestoreSpec struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Cluster string `json:"cluster"`
	// Replaces is the status.generation of the cluster that is given up. Once there is one it is required, so that the same
	// object applied again does nothing.
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replaces int64 `json:"replaces,omitempty"`
	// ClusterID is the status.clusterID of the cluster that is given up. A cluster that is made anew under its name counts its
	// generations anew, and has another ID.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]+$')",message="clusterID is status.clusterID of the EtcdCluster, such as dbb05294e40a0537"
	// +optional
	ClusterID string        `json:"clusterID,omitempty"`
	Source    RestoreSource `json:"source"`
	// From is the store that the backup is copied from first, where it is not in that of the cluster.
	// +optional
	From *OtherStore `json:"from,omitempty"`
	// Lost are hosts that a person gives up: what only they have is gone.
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Lost []string `json:"lost,omitempty"`
}

// RestoreSource is one of these.
//
// +kubebuilder:validation:XValidation:rule="[has(self.backup), has(self.newestProven) && self.newestProven, has(self.survivor), has(self.setAside)].exists_one(x, x)",message="source has one of backup, newestProven: true, survivor and setAside"
type RestoreSource struct {
	// Backup is its name in the store.
	// +optional
	Backup BackupName `json:"backup,omitempty"`
	// NewestProven is the newest that was verified, or restored in a drill, as the daemons know it when the restore is asked for.
	// +optional
	NewestProven bool `json:"newestProven,omitempty"`
	// Survivor is the host whose data goes furthest, of a cluster that has lost its quorum.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Survivor string `json:"survivor,omitempty"`
	// SetAside is data that a host moved away.
	// +optional
	SetAside *SetAside `json:"setAside,omitempty"`
}

// SetAside is data that a host moved away.
type SetAside struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Host string `json:"host"`
	// Dir is its name, as etcdadm status prints it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-_0-9A-Za-z][-.:_0-9A-Za-z]*$')",message="setAside.dir is the name of a directory as etcdadm status prints it, and no path"
	Dir string `json:"dir"`
}
