// Package shape says what the objects of a cluster look like: a pure function of an EtcdCluster, the cluster's identity and
// a host's number.
//
// What must always hold:
//
//   - A host's name is never used again: its number comes from the control object, which only counts up.
//   - No object has an owner reference to the EtcdCluster: who deletes the CRD deletes no cluster. They are found by labels.
//   - Pods pass the restricted Pod Security Standard, and mount no authority's key.
//   - No probe needs a quorum to keep a pod alive; ready means that the member votes and serves.
package shape

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/tables"
	"etcdadm.io/operator/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels and annotations of what the operator makes.
const (
	LabelCluster = "etcdadm.io/cluster"     // the EtcdCluster's name
	LabelUID     = "etcdadm.io/cluster-uid" // of the first EtcdCluster of this name, for as long as the cluster lives
	LabelHost    = "etcdadm.io/host"
	LabelKept    = "etcdadm.io/kept" // what a deleted EtcdCluster left behind on purpose

	// AnnotationShape is the digest of the shape that an object was given last.
	AnnotationShape = "etcdadm.io/shape"
	// AnnotationReplace is set by a person on a host's StatefulSet: another host is to take its place.
	AnnotationReplace = "etcdadm.io/replace"
	// AnnotationNext is the number of the next host, on the control object.
	AnnotationNext = "etcdadm.io/next-host"
	// AnnotationSelf is the control object's own UID: a copy has another one.
	AnnotationSelf = "etcdadm.io/self"
	// AnnotationAdopt is on the control object from before anything else is made until a running cluster is adopted: the Secret with
	// that cluster's authorities or NoSecret, and after a space its ID, where a person named it. The volumes that are made meanwhile have it, too,
	// so that an adoption is known of whose control object is lost.
	AnnotationAdopt = "etcdadm.io/adopt"
	// AnnotationRemade is on a control object that was made while there were hosts already: an earlier one is gone.
	AnnotationRemade = "etcdadm.io/remade"
	// AnnotationHeld is on the control object while the hold of the spec is that of spec.paused, and no person's.
	AnnotationHeld = "etcdadm.io/held"
	// AnnotationLast is on the control object: for the EtcdCluster of which UID the operator asked for a last backup, and
	// by which command.
	AnnotationLast = "etcdadm.io/last-backup"
	// AnnotationSpent is on a host's StatefulSet: when its daemon said that nothing but a removed member's data lies there.
	AnnotationSpent = "etcdadm.io/spent-since"
	// AnnotationTemplate is on a pod and the template that it was made by: the digest of that template's shape.
	AnnotationTemplate = "etcdadm.io/template"
	// AnnotationPause is on the control object: the ID of the pause of a host that the operator asked for.
	AnnotationPause = "etcdadm.io/pause"
	// AnnotationUsed is likewise: its ID, the UID of the pod that is deleted by it, and a word that each attempt has anew.
	AnnotationUsed = "etcdadm.io/pause-used"
	// AnnotationKeep is on a pod: the AnnotationUsed by which it is not deleted any more.
	AnnotationKeep = "etcdadm.io/kept-from"
	// AnnotationAuthorities is on the Secret with the authorities' keys: how far they are rotated, and which they are.
	AnnotationAuthorities = "etcdadm.io/authorities"
	// AnnotationStep is on leaves and on what clients trust: the number of spec.tls.rotate and the step of the authorities by
	// which they were written.
	AnnotationStep = "etcdadm.io/authorities-step"
	// AnnotationRenew is on leaves: when they are renewed.
	AnnotationRenew = "etcdadm.io/renew-at"

	// AnnotationTakeOver is set by a person on an EtcdCluster of bare hosts: the UID of the EtcdCluster whose mark in the store
	// it gets, which may be its own, of a later state; or decide.Free. The operator takes it off once the mark is written.
	AnnotationTakeOver = "etcdadm.io/take-over"

	// Finalizer of an EtcdCluster, and of the claims of its hosts.
	Finalizer = "etcdadm.io/cluster"

	// Manager is who the objects are managed by.
	Manager = "etcdadm-operator"
	// NoSecret stands in AnnotationAdopt where the authorities are made anew, since the members that are there have none.
	NoSecret = "-"
)

// Ports of a pod.
const (
	PortClient     = 2379
	PortPeer       = 2380
	PortDaemon     = 8000
	PortQuarantine = 8001
	PortHealth     = 8002
)

// What runs etcdadm in a pod needs to know.
const (
	Program = program
	DataDir = dataDir
)

// InPod makes of a command for a host of a cluster one that kubectl, with the flags of where the cluster is, runs in a pod of
// it. One that changes the machine, such as a download, has none in a pod: empty. Another program's, and any while there is no
// pod to ask, stay as they are.
func InPod(where []string, pod, command string) string {
	words := strings.Fields(command)
	switch {
	case len(words) < 2 || words[0] != "etcdadm":
		return command
	case !tables.AsksDaemons(words[1]):
		return ""
	case pod == "":
		return command
	}
	quoted := []string{"kubectl"}
	for _, flag := range where {
		quoted = append(quoted, cluster.ShellWord(flag))
	}
	return fmt.Sprintf("%s exec -it %s -c %s -- %s", strings.Join(quoted, " "), cluster.ShellWord(pod), ContainerName, command)
}

// Cluster is what the shapes are made of.
type Cluster struct {
	Namespace, Name string
	// UID is that of the first EtcdCluster of this cluster.
	UID  string
	Spec v1alpha1.ClusterSpec
	// Image is that of the hosts, where the spec does not say another one.
	Image string
	// Adopting: hosts join a cluster whose own members are elsewhere. Adopts is AnnotationAdopt of what is made meanwhile.
	Adopting bool
	Adopts   string
}

// ClusterName is how the daemons call the cluster.
func (c Cluster) ClusterName() string {
	return c.Namespace + "." + c.Name + "." + c.UID[:min(8, len(c.UID))]
}

// Host is the name of the host with a number, which is the name of its StatefulSet and of its claim too.
func (c Cluster) Host(n int) string { return fmt.Sprintf("%s-%d", c.Name, n) }

// Number is the number of a host by its name; false: it is no host's name.
func (c Cluster) Number(host string) (int, bool) {
	digits, ok := strings.CutPrefix(host, c.Name+"-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && strconv.Itoa(n) == digits
}

// ControlName and the next ones are the names of the objects of a cluster.
func (c Cluster) ControlName() string     { return c.Name + "-control" }
func (c Cluster) StatusName() string      { return c.Name + "-status" }
func (c Cluster) AuthoritiesName() string { return c.Name + "-authorities" }
func (c Cluster) BundleName() string      { return c.Name + "-ca" }
func (c Cluster) AccountName() string     { return c.Name + "-etcd" }
func (c Cluster) HostsName() string       { return c.Name + "-hosts" }
func (c Cluster) ClientName() string      { return c.Name + "-client" }
func (c Cluster) LeavesName(n int) string { return c.Host(n) + "-leaves" }

// HostDNS is the name under which the other members reach a host. It ends with svc: a resolver adds the cluster's domain.
func (c Cluster) HostDNS(n int) string {
	return fmt.Sprintf("%s-0.%s.%s.svc", c.Host(n), c.HostsName(), c.Namespace)
}

// ServedDNS are the names under which each host may serve clients.
func (c Cluster) ServedDNS() []string {
	client := c.ClientName()
	return []string{client, client + "." + c.Namespace, client + "." + c.Namespace + ".svc"}
}

// Selector finds the pods of a cluster.
func (c Cluster) Selector() map[string]string {
	return map[string]string{LabelCluster: c.Name, LabelUID: c.UID}
}

// Labels are those of each object of a cluster.
func (c Cluster) Labels() map[string]string {
	labels := map[string]string{
		"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": c.Name, "app.kubernetes.io/managed-by": Manager,
	}
	maps.Copy(labels, c.Selector())
	return labels
}

// HostLabels are those of each object of a host.
func (c Cluster) HostLabels(n int) map[string]string {
	labels := c.Labels()
	labels[LabelHost] = c.Host(n)
	return labels
}

func (c Cluster) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: c.Labels()}
}

func (c Cluster) hostMeta(n int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: c.HostLabels(n)}
}
