package v1alpha1

// Bootstrap says what a new cluster is made from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.restore), has(self.claims), has(self.adopt)].exists_one(x, x)",message="bootstrap has one source: restore, claims or adopt"
// +kubebuilder:validation:XValidation:rule="!has(self.acceptFewer) || has(self.claims)",message="bootstrap.acceptFewer goes with claims alone"
type Bootstrap struct {
	// +optional
	Restore *BootstrapRestore `json:"restore,omitempty"`
	// Claims are volumes, or copies of volumes, of one cluster's members that do not run: the furthest is taken. They are not
	// changed, and are no volumes of the new cluster.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Claims []string `json:"claims,omitempty"`
	// AcceptFewer: the claims may be of too few voters to know of all that was acknowledged. What only others had is lost.
	// +optional
	AcceptFewer bool `json:"acceptFewer,omitempty"`
	// Adopt is a cluster that runs elsewhere, with all of its data and its ID: hosts join it, and its own members are removed.
	// A person has them do so, by kubectl etcdadm adopt.
	// +optional
	Adopt *Adopt `json:"adopt,omitempty"`
}

// BootstrapRestore is a backup in spec.backup.store, or in another store.
//
// +kubebuilder:validation:XValidation:rule="!has(self.from) || has(self.backup)",message="from goes with backup: name a backup of that store"
// +kubebuilder:validation:XValidation:rule="[has(self.newestProven) && self.newestProven, has(self.backup)].exists_one(x, x)",message="bootstrap.restore has one source: newestProven: true, or backup"
type BootstrapRestore struct {
	// +optional
	NewestProven bool `json:"newestProven,omitempty"`
	// +optional
	Backup BackupName `json:"backup,omitempty"`
	// From is the store that the backup is copied from first, where it is not in spec.backup.store.
	// +optional
	From *OtherStore `json:"from,omitempty"`
}

// OtherStore has the backups of another cluster. Nothing is written into it.
type OtherStore struct {
	// Store is a URL, such as s3://bucket/path.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^(s3|gs|azureblob|do|linode|hos|scw)://.+')",message="from.store is a URL such as s3://bucket/path, gs://bucket/path or azureblob://container/path"
	Store string `json:"store"`
	// Credentials is a Secret whose keys are the variables of that store, such as S3_ACCESS_KEY_ID. Of those that name files
	// none is read.
	Credentials SecretName `json:"credentials"`
}

// BackupName is the name of a backup in a store, as etcdadm backup list prints it.
//
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Za-z][-.:_0-9A-Za-z]*$')",message="the name of a backup is as etcdadm backup list prints it, such as 2026-11-20T03:00:00Z-000001"
type BackupName string

// Adopt is a cluster that runs elsewhere.
type Adopt struct {
	// Secret has the authority that its members trust, with its key, as ca.crt and ca.key, or as tls.crt and tls.key of cert-manager;
	// or one for members and one for clients, as etcd-peers-ca.crt, etcd-peers-ca.key, etcd-clients-ca.crt and etcd-clients-ca.key.
	// It is read once, as the cluster's own authorities are made. Left out: its members speak without TLS, and the authorities are
	// new. Hosts speak with members as those do, and serve clients with TLS; once all members are at hosts of the EtcdCluster, TLS is
	// turned on between them, too.
	// +optional
	Secret *SecretName `json:"secret,omitempty"`
	// ClusterID is the ID of the cluster that is meant, in hex, such as cdf818194e3a8c32. Another one is refused. It can be set later,
	// and changed until a host has joined a cluster.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]+$')",message="bootstrap.adopt.clusterID is hex without 0x, as etcdctl prints it with --hex, such as cdf818194e3a8c32"
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
}
