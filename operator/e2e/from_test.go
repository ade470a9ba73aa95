package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/teststore"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/shape"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jobs are those of the cluster, newest last.
func (h *hand) jobs(ctx context.Context) ([]batchv1.Job, error) {
	all := &batchv1.JobList{}
	err := h.c.List(ctx, all, client.InNamespace(h.ns), client.MatchingLabels{shape.LabelCluster: h.name})
	slices.SortStableFunc(all.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return all.Items, err
}

// work runs Jobs, as their controller and a kubelet do: one try each.
func (h *hand) work(ctx context.Context) error {
	all, err := h.jobs(ctx)
	for i := range all {
		job := &all[i]
		if len(job.Status.Conditions) > 0 || err != nil {
			continue
		}
		said, failed := "", error(nil)
		if h.real != nil {
			said, failed = h.real.job(ctx, job)
		}
		err = h.ends(ctx, job, said, failed)
	}
	return err
}

// ends has a Job end as its pod did.
func (h *hand) ends(ctx context.Context, job *batchv1.Job, said string, failed error) error {
	now := metav1.Now()
	is := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Test", Message: "Job has reached the specified backoff limit", LastTransitionTime: now}
	}
	job.Status.StartTime = &now
	if failed == nil {
		job.Status.CompletionTime = &now
		job.Status.Conditions = []batchv1.JobCondition{is(batchv1.JobSuccessCriteriaMet), is(batchv1.JobComplete)}
		return h.c.Status().Update(ctx, job)
	}
	pod := &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec}
	pod.Namespace, pod.Name = job.Namespace, job.Name+"-x"
	if err := h.c.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil { // of the Job before
		return err
	}
	if err := h.c.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: shape.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: said}}}}
	if err := h.c.Status().Update(ctx, pod); err != nil {
		return err
	}
	job.Status.Conditions = []batchv1.JobCondition{is(batchv1.JobFailureTarget), is(batchv1.JobFailed)}
	return h.c.Status().Update(ctx, job)
}

// job runs the program of a Job's pod, and gives its last words.
func (m *machines) job(ctx context.Context, job *batchv1.Job) (string, error) {
	pod := &job.Spec.Template.Spec
	c, at := pod.Containers[0], filepath.Join(m.dir, job.Name)
	env, err := m.environment(ctx, &c)
	if err != nil {
		return "", err
	}
	args := slices.Clone(c.Command[1:])
	const readOnly = `for d in $0; do mount --bind "$d" "$d" && mount -o remount,bind,ro "$d" || exit 1; done; exec "$@"`
	claims := ""
	for _, v := range pod.Volumes {
		at := at
		switch {
		case v.Secret != nil:
			files, err := m.secret(ctx, v.Secret.SecretName)
			if err != nil {
				return "", err
			}
			for name, text := range files {
				if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, name), text, 0o600)); err != nil {
					return "", err
				}
			}
		case v.PersistentVolumeClaim != nil:
			if at, err = m.volume(ctx, v.PersistentVolumeClaim.ClaimName); err != nil {
				return "", err
			}
			claims += at + " "
		default:
			continue
		}
		i := slices.IndexFunc(c.VolumeMounts, func(o corev1.VolumeMount) bool { return o.Name == v.Name })
		for j := range args {
			args[j] = strings.ReplaceAll(args[j], c.VolumeMounts[i].MountPath, at)
		}
	}
	for i, arg := range args {
		if url, is := strings.CutPrefix(arg, "--store="); is && len(env) == 0 {
			dir, err := m.store(url)
			if err != nil {
				return "", err
			}
			args[i] = "--store=file://" + dir
		}
	}
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", "mount --make-rprivate / && " + readOnly, claims, m.program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Env, cmd.WaitDelay = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir}, env...), 5*time.Second
	said, err := cmd.CombinedOutput()
	m.h.t.Logf("%s: %v\n%s", strings.Join(args, " "), err, said)
	return string(said[max(0, len(said)-2048):]), err
}

func (m *machines) secret(ctx context.Context, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := m.h.c.Get(ctx, m.h.key(name), secret)
	return secret.Data, err
}

// environment is what a container has from Secrets.
func (m *machines) environment(ctx context.Context, c *corev1.Container) (env []string, err error) {
	for _, from := range c.EnvFrom {
		all, err := m.secret(ctx, from.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		for name, value := range all {
			env = append(env, name+"="+string(value))
		}
	}
	return env, nil
}

// waitsFor waits until a cluster that has not begun says why.
func (h *hand) waitsFor(code, says string) {
	h.t.Helper()
	h.settled(2*time.Minute, code, func() error {
		is := h.see().Status
		if is.Generation != 0 || !slices.ContainsFunc(is.Blockers, func(b v1alpha1.Blocker) bool { return b.Code == code && strings.Contains(b.Sentence, says) }) {
			return fmt.Errorf("generation %d, %+v", is.Generation, is.Blockers)
		}
		return nil
	})
}

// variables are those of a store of S3, with a secret key.
func variables(s *teststore.Server, key string) map[string]string {
	return map[string]string{"S3_ENDPOINT": s.URL, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": key, "S3_REGION": teststore.Region}
}

// A new cluster begins with a backup in another cluster's store, and is restored from a later one of it: by credentials of that
// store's own, with nothing written there. Credentials, names and Secrets that are wrong are told; the same again does nothing.
func TestBackupsOfAnotherStore(t *testing.T) {
	_, ns := server(t)
	far, near := teststore.Start(t, teststore.Versitygw), teststore.Start(t, teststore.Versitygw)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	secret := func(name string, data map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, StringData: data}
	}
	must(t, h.c.Create(t.Context(), secret("far", variables(far, teststore.SecretKey))))
	must(t, h.c.Create(t.Context(), secret("near", variables(near, teststore.SecretKey))))
	const one, other = "size: 1, version: 3.7.3, storage: {size: 8Gi}", "s3://" + teststore.Bucket + "/main"
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", one+", backup: {store: \""+other+"\", credentials: {name: far}}"))))
	h.generation(1)
	m.put("k", "first")
	first := h.backed("first")
	m.put("k", "second")
	second := h.backed("second")
	for host := range m.pods {
		m.kill(host)
	}
	listed := func() map[string]int64 {
		store, err := open.Open(t.Context(), other, open.Options{Given: variables(far, teststore.SecretKey)})
		must(t, err)
		infos, err := store.List(t.Context(), "")
		must(t, err)
		all := map[string]int64{}
		for _, i := range infos {
			all[i.Key] = i.Size
		}
		return all
	}
	before := listed()

	n := &hand{t: t, c: h.c, ns: ns, name: "next", silent: map[string]bool{}}
	nm := withDaemons(n)
	from := fmt.Sprintf("from: {store: \"%s\", credentials: {name: copied}}", other)
	must(t, n.c.Create(t.Context(), object(t, ns, etcdCluster("next", one+fmt.Sprintf(", backup: {store: \"s3://%s/next\", credentials: {name: near}}, bootstrap: {restore: {backup: %s, %s}}", teststore.Bucket, first, from)))))
	n.waitsFor("BootstrapWaits", "the Secret copied, which spec.bootstrap.restore.from.credentials names, is not there")
	must(t, n.c.Create(t.Context(), secret("copied", variables(far, "of-somebody-else"))))
	n.waitsFor("BootstrapFailed", "403")
	if said := fmt.Sprint(n.see().Status); strings.Contains(said, "of-somebody-else") || !strings.Contains(said, "kubectl --namespace="+ns+" delete job copy-") {
		t.Errorf("it shows %s", said)
	}
	must(t, n.c.Update(t.Context(), secret("copied", variables(far, teststore.SecretKey))))
	jobs, err := n.jobs(t.Context())
	must(t, err)
	must(t, n.c.Delete(t.Context(), &jobs[0], client.PropagationPolicy(metav1.DeletePropagationBackground)))
	n.generation(1)
	nm.has("k", "first")

	for what, test := range map[string]struct{ backup, store, says string }{
		"name": {"2020-01-01T00:00:00Z-000001", other, "no such backup; hint: run etcdadm backup list"},
		"own":  {second, "s3://" + teststore.Bucket + "/next", "names the cluster's own store"},
		"none": {second, "s3://" + teststore.Bucket + "/nobody", "no such backup"},
	} {
		s := n.restore(what, fmt.Sprintf("replaces: 1, source: {backup: %s}, from: {store: \"%s\", credentials: {name: copied}}", test.backup, test.store))
		if s.Phase != v1alpha1.Failed || !strings.Contains(s.Reason, test.says) {
			t.Errorf("%s: %+v", what, s)
		}
	}
	nm.has("k", "first")
	spec := fmt.Sprintf("replaces: 1, source: {backup: %s}, %s", second, from)
	if s := n.restore("later", spec); s.Phase != v1alpha1.Done || s.Backup != second {
		t.Fatalf("%+v", s)
	}
	nm.has("k", "second")
	n.generation(2)
	jobs, err = n.jobs(t.Context())
	must(t, err)
	if s := n.restore("again", spec); s.Phase != v1alpha1.Done || !strings.Contains(s.Reason, "nothing is done") {
		t.Errorf("applied again: %+v", s)
	}
	if again, err := n.jobs(t.Context()); err != nil || len(again) != len(jobs) {
		t.Errorf("%d Jobs, and then %d: %v", len(jobs), len(again), err)
	}
	n.generation(2)
	if after := listed(); !maps.Equal(after, before) {
		t.Errorf("the other store had %v, and has %v", before, after)
	}
}

// keeps makes a claim of which a volume is a copy of another cluster's; empty: one with nothing on it.
func (m *machines) keeps(name, volume string) {
	t := m.h.t
	t.Helper()
	must(t, m.h.c.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: m.h.ns, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}},
	}}))
	dir, err := m.volume(t.Context(), name)
	must(t, err)
	if volume != "" {
		must(t, exec.CommandContext(t.Context(), "cp", "-a", volume+"/.", dir).Run())
	}
}

// Volumes are left of a cluster that is gone. A new one begins with what the furthest of them has, which is written into its own
// store, as a backup; the claims stay as they are. One that is missing and one that is empty are told.
func TestBeginsWithClaims(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain))))
	h.generation(1)
	m.put("k", "first")
	m.off["main-3"] = true
	m.kill("main-3")
	m.put("k", "second")
	for host := range m.pods {
		m.kill(host)
	}

	n := &hand{t: t, c: h.c, ns: ns, name: "next", silent: map[string]bool{}}
	nm := withDaemons(n)
	volume := func(host string) string {
		dir, err := m.volume(t.Context(), host)
		must(t, err)
		return dir
	}
	nm.keeps("old-3", volume("main-3"))
	nm.keeps("old-2", volume("main-2"))
	must(t, n.c.Create(t.Context(), object(t, ns, etcdCluster("next", plain+", backup: {store: \"s3://b/"+ns+"\"}, bootstrap: {claims: [old-3, old-2, old-1]}"))))
	n.waitsFor("BootstrapWaits", "the PersistentVolumeClaim old-1, which spec.bootstrap.claims names, is not there")
	nm.keeps("old-1", "")
	n.waitsFor("BootstrapFailed", "has no member's data")
	n.patch(`{"spec":{"bootstrap":{"claims":["old-3"]}}}`)
	n.waitsFor("BootstrapFailed", "the data of 1 of 3 voters is named")
	n.patch(`{"spec":{"bootstrap":{"claims":["old-3","old-2"]}}}`)
	n.generation(1)
	nm.has("k", "second")
	if is := n.see().Status; is.ClusterID == h.see().Status.ClusterID || is.LastBackup == nil {
		t.Errorf("%+v beside %+v", is, h.see().Status)
	}
	for _, name := range []string{"old-1", "old-2", "old-3"} {
		claim := &corev1.PersistentVolumeClaim{}
		if err := n.c.Get(t.Context(), n.key(name), claim); err != nil || len(claim.Labels) > 0 || slices.Contains(claim.Finalizers, shape.Finalizer) {
			t.Errorf("%+v, %v", claim.ObjectMeta, err)
		}
	}
}
