package shape

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

const (
	// ContainerName is that of the one container of a pod; spec.pod names it to change it.
	ContainerName = "etcdadm"
	program       = "/usr/bin/etcdadm"
	dataDir       = "/var/lib/etcdadm"
	leavesDir     = "/etc/etcdadm/leaves"
	// user is nonroot of most images.
	user = 65532
	// grace is for raft's leader to be moved, and for etcd to end, which have three minutes.
	grace = 200
)

// Claim is the volume of a host. The finalizer keeps another one from being put in its place under the same name.
func (c Cluster) Claim(n int) *corev1.PersistentVolumeClaim {
	storage := c.Spec.Storage
	p := &corev1.PersistentVolumeClaim{TypeMeta: kind("v1", "PersistentVolumeClaim"), ObjectMeta: c.hostMeta(n, c.Host(n)), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(cmp.Or(storage.AccessMode, string(corev1.ReadWriteOnce)))},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size}},
	}}
	if storage.Class != "" {
		p.Spec.StorageClassName = &storage.Class
	}
	if c.Adopting {
		p.Annotations = map[string]string{AnnotationAdopt: c.Adopts}
	}
	Protect(p)
	return p
}

// Leaves is the Secret with a host's certificates and their keys.
func (c Cluster) Leaves(n int, files map[string][]byte) *corev1.Secret {
	return &corev1.Secret{TypeMeta: kind("v1", "Secret"), ObjectMeta: c.hostMeta(n, c.LeavesName(n)), Type: corev1.SecretTypeOpaque, Data: files}
}

// Set is a host: a StatefulSet of one pod. Kubernetes makes the pod again when it is lost, also while nobody else runs.
//
// Errors: spec.pod cannot be laid over the template; ErrTemplate.
func (c Cluster) Set(n int) (*appsv1.StatefulSet, error) {
	one := int32(1)
	template, err := c.template(n)
	if err != nil {
		return nil, err
	}
	return &appsv1.StatefulSet{TypeMeta: kind("apps/v1", "StatefulSet"), ObjectMeta: c.hostMeta(n, c.Host(n)), Spec: appsv1.StatefulSetSpec{
		Replicas: &one, ServiceName: c.HostsName(),
		Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{LabelHost: c.Host(n), LabelUID: c.UID}},
		UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		PodManagementPolicy: appsv1.ParallelPodManagement,
		Template:            template,
	}}, nil
}

// template is the pod's, with what a person lays over it, and with its own digest, which the pods made by it have too.
func (c Cluster) template(n int) (corev1.PodTemplateSpec, error) {
	laid, err := c.laid(n)
	if err != nil {
		return laid, err
	}
	delete(laid.Annotations, AnnotationTemplate)
	text, err := json.Marshal(laid)
	if err != nil {
		return laid, fmt.Errorf("shape the pod: %w", err)
	}
	if laid.Annotations == nil {
		laid.Annotations = map[string]string{}
	}
	sum := sha256.Sum256(text)
	laid.Annotations[AnnotationTemplate] = hex.EncodeToString(sum[:8])
	return laid, nil
}

func (c Cluster) laid(n int) (corev1.PodTemplateSpec, error) {
	made := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: c.HostLabels(n)}, Spec: c.pod(n)}
	if c.Spec.Pod == nil || len(c.Spec.Pod.Raw) == 0 {
		return made, nil
	}
	plain, err := json.Marshal(made)
	if err != nil {
		return made, fmt.Errorf("shape the pod: %w", err)
	}
	laid, err := strategicpatch.StrategicMergePatch(plain, c.Spec.Pod.Raw, corev1.PodTemplateSpec{})
	if err != nil {
		return made, fmt.Errorf("lay spec.pod over the template: %w", err)
	}
	var out corev1.PodTemplateSpec
	if err := json.Unmarshal(laid, &out); err != nil {
		return made, fmt.Errorf("lay spec.pod over the template: %w", err)
	}
	if !c.keeps(&out.Spec, n) {
		return made, ErrTemplate
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	for key, value := range c.HostLabels(n) { // what finds the pod is not a person's to change
		out.Labels[key] = value
	}
	return out, nil
}

// ErrTemplate says that a person's template would lose data: the pods that there are get it, too.
var ErrTemplate = errors.New("spec.pod takes the host's claim from " + dataDir + ", or the time from etcd that it needs to end")

// keeps says whether the host's claim lies where its data do, and whether its pod is there until etcd has ended.
func (c Cluster) keeps(pod *corev1.PodSpec, n int) bool {
	if s := pod.TerminationGracePeriodSeconds; s != nil && *s <= 0 {
		return false
	}
	claims := func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Host(n) && !v.PersistentVolumeClaim.ReadOnly
	}
	for _, container := range pod.Containers {
		if container.Name != ContainerName {
			continue
		}
		for _, m := range container.VolumeMounts {
			if m.MountPath == dataDir {
				return m.SubPath == "" && m.SubPathExpr == "" && slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && claims(v) })
			}
		}
	}
	return false
}

func (c Cluster) pod(n int) corev1.PodSpec {
	yes, no, id, seconds := true, false, int64(user), int64(grace)
	mismatch := corev1.FSGroupChangeOnRootMismatch
	readable := int32(0o440)
	mounts, volumes := c.releases()
	return corev1.PodSpec{
		ServiceAccountName: c.AccountName(), EnableServiceLinks: &no,
		TerminationGracePeriodSeconds: &seconds,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, FSGroupChangePolicy: &mismatch,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity:                  &corev1.Affinity{PodAntiAffinity: c.apart()},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c.zones()},
		Containers: []corev1.Container{{
			Name: ContainerName, Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: append([]string{program, "pod"}, c.flags(n)...),
			Env: []corev1.EnvVar{
				{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}},
				{Name: "ETCDADM_DATA_DIR", Value: dataDir}, // so that what a person runs in the pod asks its daemon
			},
			EnvFrom: c.credentials(),
			Ports: []corev1.ContainerPort{
				{Name: "client", ContainerPort: PortClient, Protocol: corev1.ProtocolTCP}, {Name: "peer", ContainerPort: PortPeer, Protocol: corev1.ProtocolTCP},
				{Name: "daemon", ContainerPort: PortDaemon, Protocol: corev1.ProtocolTCP}, {Name: "health", ContainerPort: PortHealth, Protocol: corev1.ProtocolTCP},
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
			}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			LivenessProbe:   probe("/healthz", 10, 6),
			ReadinessProbe:  probe("/voterz", 1, 3),
			VolumeMounts: append([]corev1.VolumeMount{
				{Name: "data", MountPath: dataDir}, {Name: "leaves", MountPath: leavesDir, ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"},
			}, mounts...),
		}},
		Volumes: append([]corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Host(n)}}},
			{Name: "leaves", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: c.LeavesName(n), DefaultMode: &readable}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}, volumes...),
	}
}

// releases are the images with versions of etcd, each where internal/release looks for its version.
func (c Cluster) releases() (mounts []corev1.VolumeMount, volumes []corev1.Volume) {
	byVersion := func(a, b v1alpha1.Release) int { return cmp.Compare(a.Version, b.Version) }
	for _, r := range slices.SortedFunc(slices.Values(c.Spec.Releases), byVersion) { // their order replaces no pod
		name := "etcd-" + strings.ReplaceAll(r.Version, ".", "-")
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: releaseDir + r.Version, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: r.Image, PullPolicy: corev1.PullIfNotPresent}}})
	}
	return mounts, volumes
}

// releaseDir, with a version, is where that release of etcd lies.
const releaseDir = "/opt/etcd-v"

// Mounts says whether a pod has a release of etcd from an image of its own.
func Mounts(pod *corev1.PodSpec, release cluster.Version) bool {
	for _, c := range pod.Containers {
		if c.Name == ContainerName && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == releaseDir+release.String() }) {
			return true
		}
	}
	return false
}

// flags are the daemon's. The address is the pod's own, so that twins of one volume show; members are known by names,
// which outlive it.
func (c Cluster) flags(n int) []string {
	url := func(port int) string { return fmt.Sprintf("https://%s:%d", c.HostDNS(n), port) }
	flags := []string{
		"--cluster-name=" + c.ClusterName(),
		"--host-id=" + c.Host(n),
		"--control-store=kubernetes://" + c.Namespace + "/" + c.Name,
		"--data-dir=" + dataDir,
		"--leaves-dir=" + leavesDir,
		"--etcd-log=stdout",
		"--address=$(POD_IP)",
		"--grpc-port=" + strconv.Itoa(PortDaemon),
		"--discovery=dns://" + c.HostsName() + "." + c.Namespace + ".svc",
		"--peer-urls=" + url(PortPeer),
		"--client-urls=" + url(PortClient),
		"--quarantine-client-urls=" + url(PortQuarantine),
		"--etcd-manager-metrics-port=" + strconv.Itoa(PortHealth),
	}
	if b := c.Spec.Backup; b != nil {
		flags = append(flags, storeFlag+b.Store)
		if b.Interval != "" {
			flags = append(flags, "--backup-interval="+string(b.Interval))
		}
		if b.DrillInterval != "" {
			flags = append(flags, "--backup-drill-interval="+string(b.DrillInterval))
		}
		if b.KeepLast > 0 {
			flags = append(flags, "--backup-keep-last="+strconv.Itoa(int(b.KeepLast)))
		}
		for _, r := range slices.Sorted(slices.Values(b.Recipients)) {
			flags = append(flags, "--backup-recipient="+string(r))
		}
	}
	return flags
}

// skipSANs has a member take another by its certificate alone. Else etcd looks for the name of who calls in DNS, which lags
// behind pods that start anew.
const skipSANs = "peer-skip-client-san-verification"

// Options are the settings of etcd that are asked of the daemons.
func Options(spec v1alpha1.ClusterSpec) map[string]string {
	out := map[string]string{skipSANs: "true"}
	maps.Copy(out, spec.Options)
	return out
}

const storeFlag = "--backup-store="

// Store is the flag with the store of backups that a template has; empty: none.
func Store(t *corev1.PodTemplateSpec) string {
	for _, c := range t.Spec.Containers {
		if c.Name != ContainerName {
			continue
		}
		for _, flag := range slices.Concat(c.Command, c.Args) {
			if strings.HasPrefix(flag, storeFlag) {
				return flag
			}
		}
	}
	return ""
}

func (c Cluster) credentials() []corev1.EnvFromSource {
	if c.Spec.Backup == nil || c.Spec.Backup.Credentials == nil {
		return nil
	}
	return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: c.Spec.Backup.Credentials.Name}}}}
}

// apart keeps two hosts of a cluster off one node.
func (c Cluster) apart() *corev1.PodAntiAffinity {
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: c.Selector()}}
	if c.Spec.Spread == "Preferred" {
		return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}}}
	}
	return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
}

// zones spreads hosts over zones. A zone that is lost does not keep its hosts from being replaced in the others.
func (c Cluster) zones() corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: c.Selector()}}
}

func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(PortHealth), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures, SuccessThreshold: 1,
	}
}
