package shape

import (
	"encoding/base64"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IssuerGroup is that of cert-manager's own issuers, and of requests to any.
const IssuerGroup = "cert-manager.io"

// RequestKind is what cert-manager's issuers are asked by.
var RequestKind = schema.GroupVersionKind{Group: IssuerGroup, Version: "v1", Kind: "CertificateRequest"}

// Request is a CertificateRequest without anything in it, to be read into.
func Request() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(RequestKind)
	return o
}

// RequestName is the name of the request for the clients' authority with this key, by its ID.
func (c Cluster) RequestName(id string) string {
	return c.Name + "-clients-ca-" + id[:min(10, len(id))]
}

// CertificateRequest asks an issuer to sign the clients' authority. It never changes. It alone is owned by the EtcdCluster: nothing
// is lost with it.
func (c Cluster) CertificateRequest(name string, request []byte, life time.Duration, issuer, kind, group string, owner *v1alpha1.EtcdCluster) *unstructured.Unstructured {
	o := Request()
	o.SetNamespace(c.Namespace)
	o.SetName(name)
	o.SetLabels(c.Labels())
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EtcdCluster", Name: owner.Name, UID: owner.UID}})
	o.Object["spec"] = map[string]any{
		"request": base64.StdEncoding.EncodeToString(request), "isCA": true, "duration": life.String(),
		"usages":    []any{"cert sign", "digital signature"},
		"issuerRef": map[string]any{"name": issuer, "kind": kind, "group": group},
	}
	return o
}
