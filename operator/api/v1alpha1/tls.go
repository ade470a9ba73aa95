package v1alpha1

// TLS is about certificates.
type TLS struct {
	// Clients is about the side of etcd's clients. Who signs its authority changes as the authorities are rotated.
	// +optional
	Clients *TLSClients `json:"clients,omitempty"`
	// Rotate is raised by one to have the authorities replaced, step by step, while the cluster serves. A new cluster may start
	// at any number: that replaces nothing.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="tls.rotate only grows: one more than before replaces the authorities"
	// +optional
	Rotate int32 `json:"rotate,omitempty"`
}

// TLSClients is the side of etcd's clients.
type TLSClients struct {
	IssuerRef IssuerRef `json:"issuerRef"`
	// TrustIssuer has the members also let in whoever that issuer signs for, by the certificate with which it signed the authority,
	// and main-ca trust it. Whoever that issuer signs for may name itself root, so that etcd's authentication does not protect; and a
	// former authority that it signed is let in for as long as that lasts, whatever is rotated. Default false: clients have
	// certificates of the cluster's own authority.
	// +optional
	TrustIssuer bool `json:"trustIssuer,omitempty"`
}

// IssuerRef names an issuer of cert-manager, which signs the clients' authority of this cluster by a CertificateRequest with isCA.
//
// Applications that trust that issuer verify the members.
//
// +kubebuilder:validation:XValidation:rule="has(self.group) && self.group != 'cert-manager.io' ? has(self.kind) : !has(self.kind) || self.kind in ['Issuer', 'ClusterIssuer']",message="issuerRef.kind is Issuer or ClusterIssuer, or that of an issuer of another group"
type IssuerRef struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Kind is Issuer, which is the default, or ClusterIssuer; of another group that group's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Kind string `json:"kind,omitempty"`
	// Group is cert-manager.io where it is left out.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
}
