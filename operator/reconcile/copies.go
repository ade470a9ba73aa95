package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"etcdadm.io/backup"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copying is a backup that somebody wants in a cluster's store.
type copying struct {
	shape.Copy
	field string // that says so, for people
}

// words say where the backup comes from.
func (c copying) words() string {
	if c.From != nil {
		return c.From.Store
	}
	return "the claims " + strings.Join(c.Claims, ", ")
}

// of names the Job by whose copy it is, and by all that it is made of: once that changes, another Job does it.
func (c copying) of(s *sight, uid types.UID) copying {
	made := []any{c.Backup, c.From, c.Claims, c.Fewer}
	if b := s.cluster.Spec.Backup; b != nil {
		made = append(made, b.Store, b.Credentials)
	}
	text, _ := json.Marshal(made) // of strings
	sum := sha256.Sum256(text)
	c.Job = "copy-" + string(uid) + "-" + hex.EncodeToString(sum[:4])
	return c
}

// copyOf is how far a copy is.
func (r *Reconciler) copyOf(ctx context.Context, from client.Reader, s *sight, c copying) (*decide.Copy, error) {
	out, job := &decide.Copy{Job: c.Job, From: c.words()}, &batchv1.Job{}
	switch b := s.cluster.Spec.Backup; {
	case b == nil:
		out.Lacks = "the EtcdCluster names no store for backups: set spec.backup.store"
		return out, nil
	case c.From != nil && b.Store == c.From.Store:
		out.Failed = c.field + " names the cluster's own store: leave it out"
		return out, nil
	}
	err := from.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: out.Job}, job)
	if apierrors.IsNotFound(err) {
		return out, r.lacking(ctx, s, c, out)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the copy of a backup: %w", err)
	}
	out.There = true
	for _, cond := range job.Status.Conditions {
		switch {
		case cond.Status != corev1.ConditionTrue:
		case cond.Type == batchv1.JobComplete:
			out.Done = true
		case cond.Type == batchv1.JobFailed:
			out.Failed = cond.Message
		}
	}
	if out.Done {
		return out, nil
	}
	pods := &corev1.PodList{}
	if err := from.List(ctx, pods, client.InNamespace(s.cluster.Namespace), ours(shape.LabelJob, out.Job)); err != nil {
		return nil, fmt.Errorf("look for the copy of a backup: %w", err)
	}
	var last *corev1.Pod
	for i := range pods.Items {
		if p := &pods.Items[i]; last == nil || last.CreationTimestamp.Before(&p.CreationTimestamp) {
			last = p
		}
	}
	if last == nil {
		return out, nil
	}
	h := decide.Host{}
	(&hostObjects{pod: last}).tellPod(&h, s.world.Now)
	if said := lastWords(last); out.Failed != "" {
		out.Failed = cmp.Or(said, out.Failed)
	} else {
		out.Waits = cmp.Or(said, h.Why())
	}
	return out, nil
}

// lacking says what a copy that is not begun lacks.
func (r *Reconciler) lacking(ctx context.Context, s *sight, c copying, out *decide.Copy) error {
	kind, names, field := "PersistentVolumeClaim", c.Claims, c.field
	if c.From != nil {
		kind, names, field = "Secret", []string{c.From.Credentials.Name}, c.field+".credentials"
	}
	for _, name := range names {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, o)
		if apierrors.IsNotFound(err) {
			out.Lacks = fmt.Sprintf("the %s %s, which %s names, is not there: make it", kind, name, field)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mostSaid bounds, in bytes, what is shown of a program's last words.
const mostSaid = 600

// lastWords is why a pod's program failed, as it said itself; empty: it did not.
func lastWords(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; c.Name == shape.ContainerName && t != nil && t.ExitCode != 0 {
			_, said, _ := strings.Cut("\n"+t.Message, "\netcdadm: ") // before it come words of its progress
			said = strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(said), "\n", "; ")), " ")
			return strings.ToValidUTF8(said[:min(len(said), mostSaid)], "")
		}
	}
	return ""
}

// startCopy makes the Job.
func (r *Reconciler) startCopy(ctx context.Context, s *sight, c copying) error {
	job, err := s.shape.CopyJob(c.Copy)
	if err != nil {
		return err
	}
	return r.Writer.Create(ctx, s.shape, job)
}

// bootCopy is the copy that a new cluster begins with; nil: it begins with none, or has begun. Another source is another Job,
// and another backup.
func (s *sight) bootCopy() *copying {
	b := s.cluster.Spec.Bootstrap
	if b == nil || s.world.Intent != nil {
		return nil
	}
	c := copying{}
	switch {
	case len(b.Claims) > 0:
		c.Claims, c.Fewer, c.field = b.Claims, b.AcceptFewer, "spec.bootstrap.claims"
		sum := sha256.Sum256([]byte(fmt.Sprint(c.Fewer, c.Claims)))
		n := binary.BigEndian.Uint32(sum[:4]) % (backup.MaxCounter + 1)
		name, _ := backup.NewName(s.cluster.CreationTimestamp.Time, int(n)) // of a year with four digits
		c.Backup = string(name)
	case b.Restore != nil && b.Restore.From != nil:
		c.From, c.Backup, c.field = b.Restore.From, string(b.Restore.Backup), "spec.bootstrap.restore.from"
	default:
		return nil
	}
	c = c.of(s, s.cluster.UID)
	return &c
}
