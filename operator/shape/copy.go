package shape

import (
	"fmt"
	"slices"

	"etcdadm.io/operator/api/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelJob is on the pods of a Job, and has its name. They have none of the labels that find the cluster's pods: Services and
// budget are not about them.
const LabelJob = "etcdadm.io/job"

const (
	fromDir   = "/etc/etcdadm/from"
	claimsDir = "/mnt/claims/" // with the name of each claim
	// copyTries, copyWithin and copyKept bound a copy: how often its pod is made, in which time, both in a Job's terms, and how
	// long the Job is there after it. copyKeptFor is how long the backup stays in the cluster's store, whatever is kept there:
	// long enough to be restored.
	copyTries   = 3
	copyWithin  = 6 * 60 * 60
	copyKept    = 24 * 60 * 60
	copyKeptFor = "1d"
)

// Copy says what a Job brings into the store of a cluster.
type Copy struct {
	// Job is its name, and Backup that of the backup.
	Job, Backup string
	// From is another store that has the backup; nil: it is made of what the furthest of the Claims has, which may be of Fewer
	// voters than are needed to know of all that was acknowledged.
	From   *v1alpha1.OtherStore
	Claims []string
	Fewer  bool
	// Owner is who the Job goes with; nil: it goes by itself.
	Owner *metav1.OwnerReference
}

// CopyJob brings a backup into the cluster's store, as a person does by etcdadm backup copy or extract: with the image and the
// place of a host, the cluster's store reached as hosts reach it, another one by its own credentials alone, and claims to be
// read only.
//
// Errors: those of Set.
func (c Cluster) CopyJob(w Copy) (*batchv1.Job, error) {
	laid, err := c.laid(1)
	if err != nil {
		return nil, err
	}
	i := max(0, slices.IndexFunc(laid.Spec.Containers, func(o corev1.Container) bool { return o.Name == ContainerName }))
	host, no, tries, within, kept := laid.Spec.Containers[i], false, int32(copyTries-1), int64(copyWithin), int32(copyKept)
	command, mounts, volumes := c.copying(w)
	security := laid.Spec.SecurityContext
	if s := security; w.From == nil && s != nil && s.FSGroup != nil { // which would have the kubelet change who owns the data of others
		s.SupplementalGroups, s.FSGroup, s.FSGroupChangePolicy = append(s.SupplementalGroups, *s.FSGroup), nil, nil
	}
	job := &batchv1.Job{TypeMeta: kind("batch/v1", "Job"), ObjectMeta: c.meta(w.Job), Spec: batchv1.JobSpec{
		BackoffLimit: &tries, ActiveDeadlineSeconds: &within, TTLSecondsAfterFinished: &kept,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": Manager, LabelJob: w.Job}},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: c.AccountName(), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
				SecurityContext: security, ImagePullSecrets: laid.Spec.ImagePullSecrets, NodeSelector: laid.Spec.NodeSelector,
				Tolerations: laid.Spec.Tolerations, PriorityClassName: laid.Spec.PriorityClassName,
				Containers: []corev1.Container{{
					Name: ContainerName, Image: host.Image, ImagePullPolicy: host.ImagePullPolicy, Env: host.Env, EnvFrom: host.EnvFrom,
					Command: command, Resources: host.Resources, SecurityContext: host.SecurityContext,
					TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // which says why it failed
					VolumeMounts:             append(mounts, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"}),
				}},
				Volumes: append(volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}),
			},
		},
	}}
	if w.Owner != nil {
		job.OwnerReferences = []metav1.OwnerReference{*w.Owner}
	}
	return job, nil
}

// copying is the command that brings a backup into the cluster's store, and what it needs.
func (c Cluster) copying(w Copy) (command []string, mounts []corev1.VolumeMount, volumes []corev1.Volume) {
	if w.From != nil {
		readable := int32(0o440)
		return []string{program, "backup", "copy", w.Backup, c.Spec.Backup.Store, "--store=" + w.From.Store, "--store-variables=" + fromDir, "--keep-for=" + copyKeptFor},
			[]corev1.VolumeMount{{Name: "from", MountPath: fromDir, ReadOnly: true}},
			[]corev1.Volume{{Name: "from", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: w.From.Credentials.Name, DefaultMode: &readable}}}}
	}
	mounts, volumes = c.releases() // what is left of a log is applied by the release that wrote it
	command = []string{program, "backup", "extract", "--store=" + c.Spec.Backup.Store, "--name=" + w.Backup, "--keep-for=" + copyKeptFor}
	if w.Fewer {
		command = append(command, "--accept-fewer")
	}
	for i, claim := range w.Claims {
		name := fmt.Sprintf("claim-%d", i)
		command = append(command, claimsDir+claim)
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: claimsDir + claim, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	return command, mounts, volumes
}
