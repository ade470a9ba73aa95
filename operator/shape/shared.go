package shape

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Records are the two control objects, empty. They are made, and never given a shape again.
func (c Cluster) Records() []*corev1.ConfigMap {
	var all []*corev1.ConfigMap
	for _, name := range []string{c.ControlName(), c.StatusName()} {
		all = append(all, &corev1.ConfigMap{TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: c.meta(name)})
	}
	return all
}

// Shared are the objects of a cluster that are no host's and no record, but for the budget.
func (c Cluster) Shared() []client.Object {
	all := []client.Object{
		&corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: c.meta(c.AccountName())},
		&rbacv1.Role{TypeMeta: kind("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: c.meta(c.AccountName()), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{c.ControlName(), c.StatusName()}, Verbs: []string{"get", "watch", "update"},
		}}},
		&rbacv1.RoleBinding{TypeMeta: kind("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: c.meta(c.AccountName()),
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: c.AccountName()},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: c.AccountName(), Namespace: c.Namespace}},
		},
		&corev1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: c.meta(c.HostsName()), Spec: corev1.ServiceSpec{
			// Members and daemons find each other before any of them is ready.
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: c.Selector(),
			Ports: []corev1.ServicePort{port("daemon", PortDaemon), port("peer", PortPeer), port("client", PortClient)},
		}},
		c.clientService(),
	}
	if n := c.Spec.Network; n == nil || n.Policy == nil || *n.Policy {
		all = append(all, c.policy())
	}
	return all
}

func (c Cluster) clientService() *corev1.Service {
	s := &corev1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: c.meta(c.ClientName()), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: c.Selector(), Ports: []corev1.ServicePort{port("client", PortClient)},
	}}
	if n := c.Spec.Network; n != nil && n.Service != nil {
		s.Annotations = n.Service.Annotations
		if n.Service.Type != "" {
			s.Spec.Type = corev1.ServiceType(n.Service.Type)
		}
	}
	return s
}

// policy closes all but the clients' port and that of metrics and health to everybody but the cluster's own pods. Members of a cluster
// that is being adopted are elsewhere, and reach the peers' port, where certificates are asked for as ever; where those have no TLS,
// none is, as at their own ports.
func (c Cluster) policy() *networkingv1.NetworkPolicy {
	open := []int{PortClient, PortHealth}
	if c.Adopting {
		open = append(open, PortPeer)
	}
	return &networkingv1.NetworkPolicy{TypeMeta: kind("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: c.meta(c.Name), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: c.Selector()},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: policyPorts(open...)},
			{Ports: policyPorts(PortPeer, PortDaemon, PortQuarantine), From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: c.Selector()}}}},
		},
	}}
}

func policyPorts(numbers ...int) (all []networkingv1.NetworkPolicyPort) {
	tcp := corev1.ProtocolTCP
	for _, n := range numbers {
		number := intstr.FromInt(n)
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &number})
	}
	return all
}

// Budget keeps so many of all pods from being drained; nil where there is none to be.
func (c Cluster) Budget(atLeast int) *policyv1.PodDisruptionBudget {
	if atLeast == 0 {
		return nil
	}
	least := intstr.FromInt(atLeast)
	return &policyv1.PodDisruptionBudget{TypeMeta: kind("policy/v1", "PodDisruptionBudget"), ObjectMeta: c.meta(c.Name), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: c.Selector()},
	}}
}

// Bundle is what clients trust: the certificates of the authorities, without a key.
func (c Cluster) Bundle(certificates map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: c.meta(c.BundleName()), Data: certificates}
}

// Authorities is the Secret with the authorities' keys. No pod mounts it. It is made once.
func (c Cluster) Authorities(files map[string][]byte) *corev1.Secret {
	return &corev1.Secret{TypeMeta: kind("v1", "Secret"), ObjectMeta: c.meta(c.AuthoritiesName()), Type: corev1.SecretTypeOpaque, Data: files}
}

// Protect has the finalizer among an object's finalizers, once.
func Protect(o client.Object) {
	if !slices.Contains(o.GetFinalizers(), Finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), Finalizer))
	}
}

func kind(version, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: name}
}

func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(number)}
}

// IsCopy says whether a control object was made from another one, as a tool for backups does: its status is another cluster's.
func IsCopy(control *corev1.ConfigMap) bool {
	self := control.Annotations[AnnotationSelf]
	return self != "" && self != string(control.UID)
}
